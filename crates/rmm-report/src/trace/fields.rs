//! The fields of a line, with quotes as in RFC 4180.

use std::borrow::Cow;

use super::error::Reason;

/// The fields of one line, in order.
///
/// A field that begins with a double quote ends at the next one that is not doubled; it may hold
/// commas, but no line end. In other fields a quote is a character like any other.
pub(super) struct Fields<'a> {
    line: &'a str,
    /// Where the next field begins; none behind the last.
    start: Option<usize>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { line, start: Some(0) }
    }

    /// The field that begins with the quote at `open`, and the rest of the line behind it.
    fn quoted(&mut self, open: usize) -> Result<Cow<'a, str>, Reason> {
        let mut text = Cow::Borrowed("");
        let mut start = open + 1;
        loop {
            let rest = &self.line[start..];
            let Some(length) = rest.find('"') else {
                return Err(Reason::UnclosedQuote { column: open + 1 });
            };
            if text.is_empty() {
                text = Cow::Borrowed(&rest[..length]);
            } else {
                text.to_mut().push_str(&rest[..length]);
            }
            let behind = start + length + 1;
            match self.line.as_bytes().get(behind) {
                Some(b'"') => {
                    text.to_mut().push('"');
                    start = behind + 1;
                }
                Some(b',') => {
                    self.start = Some(behind + 1);
                    return Ok(text);
                }
                None => return Ok(text),
                Some(_) => return Err(Reason::TextBehindQuote { column: behind + 1 }),
            }
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Cow<'a, str>, Reason>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.start.take()?;
        let rest = &self.line[start..];
        if rest.starts_with('"') {
            return Some(self.quoted(start));
        }
        Some(Ok(Cow::Borrowed(match rest.find(',') {
            Some(length) => {
                self.start = Some(start + length + 1);
                &rest[..length]
            }
            None => rest,
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Result<Vec<String>, String> {
        let text = |field: Result<Cow<'_, str>, Reason>| field.map(Cow::into_owned);
        Fields::new(line).map(text).collect::<Result<_, _>>().map_err(|reason| reason.to_string())
    }

    #[test]
    fn quotes_keep_commas() {
        for (line, expected) in [
            ("", vec![""]),
            ("a,,b", vec!["a", "", "b"]),
            ("a,", vec!["a", ""]),
            ("\"a,b\",c", vec!["a,b", "c"]),
            ("\"\",\"\"\"\"", vec!["", "\""]),
            ("\"a\"\"b\"\",\"", vec!["a\"b\","]),
            ("\"\"\"a\"", vec!["\"a"]),
            ("a\"b,c\"", vec!["a\"b", "c\""]),
        ] {
            assert_eq!(fields(line), Ok(expected.iter().map(|&text| text.to_owned()).collect()));
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_is_named() {
        for (line, message) in [
            ("a,\"b", "the quote in column 3 is not closed"),
            ("\"", "the quote in column 1 is not closed"),
            ("\"a\"\"", "the quote in column 1 is not closed"),
            ("\"a\"b,c", "expected a comma in column 4, behind the closing quote"),
        ] {
            assert_eq!(fields(line), Err(message.to_owned()));
        }
    }
}
