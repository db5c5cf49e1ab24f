//! The text of a call site, written without memory of the heap.

use std::fmt::{self, Write as _};

/// Upper bound on the bytes of a site's text. Longer ones are cut.
const ROOM: usize = 512;

pub(super) struct SiteText {
    bytes: [u8; ROOM],
    length: usize,
    frames: usize,
}

impl Default for SiteText {
    fn default() -> Self {
        Self { bytes: [0; ROOM], length: 0, frames: 0 }
    }
}

impl SiteText {
    /// Adds a frame. Returns how many there are.
    pub(super) fn frame(&mut self, file: &str, line: u32, function: &str) -> usize {
        let between = if self.frames == 0 { "" } else { " < " };
        // What does not fit is left out.
        let _ignored = write!(self, "{between}{file}:{line} {function}");
        self.frames += 1;
        self.frames
    }

    /// Adds the frame of a function whose line is not known. Returns how many frames there are.
    pub(super) fn function(&mut self, function: &str) -> usize {
        let between = if self.frames == 0 { "" } else { " < " };
        let _ignored = write!(self, "{between}{function}");
        self.frames += 1;
        self.frames
    }

    pub(super) fn as_str(&self) -> &str {
        str::from_utf8(self.bytes.get(..self.length).unwrap_or_default()).unwrap_or_default()
    }
}

impl fmt::Write for SiteText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = ROOM - self.length;
        let mut fits = text.len().min(room);
        while !text.is_char_boundary(fits) {
            fits -= 1;
        }
        let end = self.length + fits;
        if let (Some(place), Some(part)) = (self.bytes.get_mut(self.length..end), text.get(..fits))
        {
            place.copy_from_slice(part.as_bytes());
            self.length = end;
        }
        if fits == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_separated_and_a_long_text_is_cut_at_a_character() {
        let mut text = SiteText::default();
        assert_eq!(text.frame("a.py", 3, "f"), 1);
        assert_eq!(text.frame("b.py", 4, "g"), 2);
        assert_eq!(text.as_str(), "a.py:3 f < b.py:4 g");
        text.frame(&"ü".repeat(ROOM), 5, "h");
        assert!(text.as_str().len() >= ROOM - 1 && text.as_str().ends_with('ü'));
        text.frame("c.py", 6, "i");
        assert!(text.as_str().ends_with('ü'));
    }
}
