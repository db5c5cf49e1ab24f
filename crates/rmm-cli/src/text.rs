//! Text for terminals of 80 columns: paragraphs, and tables without rules.

use std::fmt::Write as _;

use anstyle::Style;

use crate::style::{self, paint};

/// Columns of a line. It does not depend on the terminal, so that output can be compared and
/// searched.
pub(crate) const WIDTH: usize = 80;

/// Between two columns of a table.
const GAP: usize = 2;

/// The words of a text in lines of at most [`WIDTH`]; those after the first are indented. A word
/// that is longer stays whole. Ends with a line feed.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    hang("", text, indent)
}

/// The same, behind something that stays as it is.
pub(crate) fn hang(before: &str, text: &str, indent: usize) -> String {
    let mut lines = before.to_owned();
    let mut used = before.chars().count();
    let mut is_first = true;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        let space = usize::from(!is_first);
        if used > indent && used + space + width > WIDTH {
            let _ = write!(lines, "\n{:indent$}", "");
            used = indent;
        } else if !is_first {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += width;
        is_first = false;
    }
    lines.push('\n');
    lines
}

/// A row of a table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The first is text, the others are figures.
    pub(crate) cells: Vec<String>,
    /// How it looks.
    pub(crate) style: Option<Style>,
}

/// A table: the first column is text, the others are figures. A text that would leave the figures
/// no room stands above them. Headers may be of two lines. Ends with a line feed.
pub(crate) fn table(header: &[String], rows: &[Row]) -> String {
    let figures = header.len().saturating_sub(1);
    let mut widths = vec![0; figures];
    for (column, width) in widths.iter_mut().enumerate() {
        let cells = rows.iter().filter_map(|row| row.cells.get(column + 1));
        let lines = header[column + 1].lines().chain(cells.map(String::as_str));
        *width = lines.map(|line| line.chars().count()).max().unwrap_or(0);
    }
    let room = WIDTH.saturating_sub(widths.iter().map(|width| width + GAP).sum());
    let names = header.first().into_iter().chain(rows.iter().filter_map(|row| row.cells.first()));
    let fitting = names.map(|name| name.chars().count()).filter(|&name| name <= room);
    let first = fitting.max().unwrap_or(0);

    let mut text = String::new();
    let height = header.iter().map(|cell| cell.lines().count()).max().unwrap_or(0);
    for line in 0..height {
        // Short headers stand at the bottom.
        let part = |cell: &String| {
            let missing = height - cell.lines().count();
            line.checked_sub(missing)
                .and_then(|line| cell.lines().nth(line))
                .unwrap_or("")
                .to_owned()
        };
        let cells: Vec<String> = header.iter().map(part).collect();
        push_line(&mut text, first, &widths, &cells, Some(style::HEADER));
    }
    for row in rows {
        let mut cells = row.cells.clone();
        if cells[0].chars().count() > room {
            text.push_str(&broken(&cells[0], row.style));
            cells[0].clear();
        }
        push_line(&mut text, first, &widths, &cells, row.style);
    }
    text
}

fn push_line(
    text: &mut String,
    first: usize,
    widths: &[usize],
    cells: &[String],
    style: Option<Style>,
) {
    let mut line = format!("{:first$}", cells[0]);
    for (cell, width) in cells[1..].iter().zip(widths) {
        let _ = write!(line, "{:GAP$}{cell:>width$}", "");
    }
    text.push_str(&painted(line.trim_end(), style));
    text.push('\n');
}

/// A long name in lines of its own, broken behind commas where that is possible.
fn broken(name: &str, style: Option<Style>) -> String {
    let mut lines = String::new();
    let mut rest = name;
    let mut indent = "";
    while !rest.is_empty() {
        let room = WIDTH - indent.len();
        let end = rest.char_indices().nth(room).map_or(rest.len(), |(end, _)| end);
        let line = &rest[..end];
        let line = match line.rfind(", ") {
            Some(comma) if end < rest.len() => &line[..=comma],
            _ => line,
        };
        let _ = writeln!(lines, "{indent}{}", painted(line, style));
        rest = rest[line.len()..].trim_start();
        indent = "  ";
    }
    lines
}

fn painted(text: &str, style: Option<Style>) -> String {
    style.map_or_else(|| text.to_owned(), |style| paint(style, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::plain;

    #[test]
    fn paragraphs_are_wrapped_and_long_words_stay_whole() {
        let long = "x".repeat(100);
        let text = wrap(&format!("{} {long} end", "word ".repeat(20)), 2);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].len() <= WIDTH && lines[0].len() > WIDTH - 6, "{text}");
        assert_eq!(lines[2], format!("  {long}"));
        assert_eq!(lines[3], "  end");
        assert_eq!(wrap("", 2), "\n");
    }

    #[test]
    fn a_name_without_room_stands_above_its_figures() {
        let row = |name: &str| Row { cells: vec![name.into(), "1,000".into()], style: None };
        let name = format!("first({}, third(fourth))", "a".repeat(60));
        let rows = [row("pool"), row(&name)];
        let header = ["name".to_owned(), "driver\ncalls".to_owned()];
        let expected = format!(
            "      driver\nname   calls\npool   1,000\nfirst({},\n  third(fourth))\n       1,000\n",
            "a".repeat(60)
        );
        assert_eq!(plain(&table(&header, &rows)), expected);
    }
}
