//! What a profile names by numbers: texts, functions and locations.

use std::collections::HashMap;

use super::super::frames::Frame;
use super::messages::{Function, Line, Location};

/// The tables of a profile; text 0 is the empty one.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) texts: Vec<String>,
    pub(super) functions: Vec<Function>,
    pub(super) locations: Vec<Location>,
    of_text: HashMap<String, i64>,
    /// By file and name.
    of_function: HashMap<(i64, i64), u64>,
    /// By function and line.
    of_location: HashMap<(u64, u32), u64>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            texts: vec![String::new()],
            functions: Vec::new(),
            locations: Vec::new(),
            of_text: HashMap::from([(String::new(), 0)]),
            of_function: HashMap::new(),
            of_location: HashMap::new(),
        }
    }
}

impl Table {
    /// The number of a text.
    pub(super) fn text(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.of_text.get(text) {
            return number;
        }
        let number = i64::try_from(self.texts.len()).unwrap_or(0);
        self.texts.push(text.to_owned());
        self.of_text.insert(text.to_owned(), number);
        number
    }

    /// The number of a frame's location, from 1.
    pub(super) fn location(&mut self, frame: Frame<'_>) -> u64 {
        let function_id = self.function(frame.file, frame.function);
        let (locations, next) = (&mut self.locations, self.of_location.len() as u64 + 1);
        *self.of_location.entry((function_id, frame.line)).or_insert_with(|| {
            let line = vec![Line { function_id, line: frame.line.into() }];
            locations.push(Location { id: next, mapping_id: 1, line });
            next
        })
    }

    fn function(&mut self, file: &str, name: &str) -> u64 {
        let (filename, name) = (self.text(file), self.text(name));
        let (functions, next) = (&mut self.functions, self.of_function.len() as u64 + 1);
        *self.of_function.entry((filename, name)).or_insert_with(|| {
            functions.push(Function { id: next, name, filename });
            next
        })
    }
}
