//! Numbers and texts that occur again and again, kept once.

use std::collections::HashMap;

use super::error::Reason;

/// The most bytes of different texts in one log: 256 MiB.
const MAX_TEXT: usize = 1 << 28;

/// Values numbered in order of appearance.
#[derive(Default)]
pub(super) struct Numbers {
    values: Vec<u64>,
    indices: HashMap<u64, u32>,
}

impl Numbers {
    pub(super) fn index(&mut self, value: u64) -> u32 {
        // There are at most as many values as events, of which there are far fewer than 2^32.
        let next = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        *self.indices.entry(value).or_insert_with(|| {
            self.values.push(value);
            next
        })
    }

    pub(super) fn into_values(self) -> Vec<u64> {
        self.values
    }
}

/// Texts numbered in order of appearance; number 0 is the empty text.
#[derive(Default)]
pub(super) struct Names {
    indices: HashMap<Box<str>, u32>,
    bytes: usize,
}

impl Names {
    pub(super) fn index(&mut self, name: &str) -> Result<u32, Reason> {
        if name.is_empty() {
            return Ok(0);
        }
        if let Some(&index) = self.indices.get(name) {
            return Ok(index);
        }
        self.bytes += name.len();
        if self.bytes > MAX_TEXT {
            return Err(Reason::TooManyNames);
        }
        let index = u32::try_from(self.indices.len() + 1).unwrap_or(u32::MAX);
        self.indices.insert(name.into(), index);
        Ok(index)
    }

    /// Whether half of the room is used.
    pub(super) fn are_many(&self) -> bool {
        self.bytes > MAX_TEXT / 2
    }

    /// The texts by their numbers. Control characters become spaces, so that a text can be printed.
    pub(super) fn into_values(self) -> Vec<String> {
        let mut values = vec![String::new(); self.indices.len() + 1];
        for (name, index) in self.indices {
            let has_control = name.contains(char::is_control);
            values[index as usize] =
                if has_control { name.replace(char::is_control, " ") } else { name.into() };
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers_in_order_of_appearance() {
        let mut names = Names::default();
        let indices: Vec<u32> =
            ["", "b", "a\u{1b}[2J", "b"].iter().filter_map(|name| names.index(name).ok()).collect();
        assert_eq!(indices, [0, 1, 2, 1]);
        assert_eq!(names.into_values(), ["", "b", "a [2J"]);
    }

    #[test]
    fn the_text_is_bounded() {
        let mut names = Names { bytes: MAX_TEXT - 1, ..Names::default() };
        assert!(names.index("a").is_ok());
        assert!(names.index("a").is_ok());
        assert!(matches!(names.index("b"), Err(Reason::TooManyNames)));
    }
}
