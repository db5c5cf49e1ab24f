//! The columns of a log beyond RMM's six.

#![forbid(unsafe_code)]

use super::LOG_HEADER;
use crate::adaptors::tagged::Tag;
use crate::shared::site::Site;

/// A column that a [`LoggingResourceAdaptor`](crate::LoggingResourceAdaptor) writes on request,
/// after RMM's six.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum LogColumn {
    /// The [tag](crate::Tag) for which the block was allocated.
    Tag,
    /// Where in the program the allocation was requested: `file:line function` for up to four
    /// frames, the innermost first, with ` < ` between them.
    Site,
    /// The number of the device that was current when the adaptor was made.
    Device,
}

impl LogColumn {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Tag, Self::Site, Self::Device];

    /// The column's name in the first line of a log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tag => "Tag",
            Self::Site => "Site",
            Self::Device => "Device",
        }
    }

    /// The column with this name, in letters of either case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name().eq_ignore_ascii_case(name))
    }
}

/// The column of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum DeviceColumn {
    #[default]
    Absent,
    /// `None` if there was no device.
    Of(Option<usize>),
}

/// Which columns a log has, and what is the same in all its rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Columns {
    pub(crate) tag: bool,
    pub(crate) site: bool,
    pub(crate) device: DeviceColumn,
}

impl Columns {
    pub(crate) fn is_empty(self) -> bool {
        !self.tag && !self.site && self.device == DeviceColumn::Absent
    }

    /// The first line of the log, without its end.
    pub(crate) fn header(self) -> String {
        let columns = [
            (self.tag, "Tag"),
            (self.site, "Site"),
            (self.device != DeviceColumn::Absent, "Device"),
        ];
        let mut header = LOG_HEADER.to_owned();
        for (_, name) in columns.into_iter().filter(|(has, _)| *has) {
            header.push(',');
            header.push_str(name);
        }
        header
    }

    /// Adds the fields of a row, and the end of its line, to a line without them.
    pub(crate) fn finish(self, line: &mut Vec<u8>, tag: Option<Tag>, site: Site) {
        if self.tag {
            line.push(b',');
            quote(line, tag.map_or("", Tag::name));
        }
        if self.site {
            line.push(b',');
            quote(line, site.text());
        }
        if let DeviceColumn::Of(device) = self.device {
            line.push(b',');
            line.extend(device.map(|number| number.to_string()).unwrap_or_default().bytes());
        }
        line.push(b'\n');
    }
}

/// Adds a text as a field of RFC 4180 that stays on its line: control characters are spaces.
fn quote(line: &mut Vec<u8>, text: &str) {
    let has_to_be_quoted = text.contains([',', '"']);
    if has_to_be_quoted {
        line.push(b'"');
    }
    let mut encoded = [0; 4];
    for character in text.chars() {
        // The separators of lines and paragraphs are no control characters.
        let ends_a_line = character.is_control() || matches!(character, '\u{2028}' | '\u{2029}');
        let character = if ends_a_line { ' ' } else { character };
        line.extend_from_slice(character.encode_utf8(&mut encoded).as_bytes());
        if character == '"' {
            line.push(b'"');
        }
    }
    if has_to_be_quoted {
        line.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> String {
        let mut line = Vec::new();
        quote(&mut line, text);
        String::from_utf8(line).expect("UTF-8")
    }

    #[test]
    fn fields_are_quoted_by_rfc_4180_and_stay_on_their_line() {
        for (text, field) in [
            ("", ""),
            ("a.py:1 f < b.py:2 g", "a.py:1 f < b.py:2 g"),
            ("a, b", "\"a, b\""),
            ("<\"x\">", "\"<\"\"x\"\">\""),
            ("a\r\nb\tc\u{2028}\u{7f}", "a  b c  "),
            ("\u{fc}", "\u{fc}"),
        ] {
            assert_eq!(quoted(text), field);
        }
    }

    #[test]
    fn columns_are_named_in_either_case() {
        for column in LogColumn::ALL {
            assert_eq!(LogColumn::named(&column.name().to_lowercase()), Some(column));
        }
        assert_eq!(LogColumn::named("Thread"), None);
        let columns = Columns { tag: true, site: true, device: DeviceColumn::Of(Some(3)) };
        assert_eq!(columns.header(), format!("{LOG_HEADER},Tag,Site,Device"));
        assert_eq!(Columns::default().header(), LOG_HEADER);
    }
}
