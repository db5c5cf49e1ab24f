//! Call sites made of stacks.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::super::build::Builder;
use super::super::error::Reason;
use super::super::pickle::{Node, Pickle, Value};

/// The most bytes of a site or a tag; outer frames are left out beyond it.
const LONGEST: usize = 4 << 10;

/// What stands between the frames of a site.
const BETWEEN: &str = " < ";

/// The sites of stacks, of which many events share one.
#[derive(Default)]
pub(super) struct Sites(HashMap<Value, u32>);

impl Sites {
    /// The index of the site of a stack, innermost frame first; 0 if there is none.
    pub(super) fn of(
        &mut self,
        pickle: &Pickle,
        stack: Option<Value>,
        builder: &mut Builder,
    ) -> Result<u32, Reason> {
        let Some(stack) = stack else { return Ok(0) };
        if let Some(&site) = self.0.get(&stack) {
            return Ok(site);
        }
        let text = text(pickle, pickle.node(stack));
        // In a snapshot with hundreds of thousands of different stacks, the later ones are
        // represented by their innermost frame.
        let text = if builder.has_many_sites() { innermost(&text) } else { &text };
        let site = builder.site(text)?;
        self.0.insert(stack, site);
        Ok(site)
    }
}

/// The first frame of a site.
fn innermost(site: &str) -> &str {
    site.split(BETWEEN).next().unwrap_or(site)
}

/// A text of at most [`LONGEST`] bytes.
pub(super) fn shortened(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The frames of Python; of a stack without such, all.
fn text(pickle: &Pickle, stack: Node) -> String {
    let frames = pickle.sequence(stack).unwrap_or_default();
    let of_python = joined(pickle, frames, true);
    if of_python.is_empty() { joined(pickle, frames, false) } else { of_python }
}

fn joined(pickle: &Pickle, frames: &[Value], only_python: bool) -> String {
    let mut site = String::new();
    for &frame in frames {
        let frame = pickle.node(frame);
        let text = |key| {
            let value = pickle.get(frame, key).map(|value| pickle.node(value));
            value.and_then(|value| pickle.text(value)).unwrap_or_default()
        };
        let (file, function) = (text("filename"), text("name"));
        let is_python = file.ends_with(".py") || file.starts_with('<');
        if file.is_empty() && function.is_empty() || only_python && !is_python {
            continue;
        }
        let line = match pickle.get(frame, "line").map(|line| pickle.node(line)) {
            Some(Node::Int(line)) => line,
            _ => 0,
        };
        let start = site.len();
        let between = if site.is_empty() { "" } else { BETWEEN };
        // Writing to a String cannot fail.
        let _ = write!(site, "{between}{}:{line} {}", shortened(&file), shortened(&function));
        if site.len() > LONGEST {
            site.truncate(if start > 0 { start } else { shortened(&site).len() });
            break;
        }
    }
    site
}
