//! Tables and answers as HTML.

use std::fmt::Write as _;

use super::answers::Answers;
use super::answers::words::{Answer, AnswerRow, at};
use super::escape::escape;
use crate::format::{bytes, thousands};

/// A table of text.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) columns: Vec<String>,
    /// Cells that begin with a digit are aligned to the right.
    pub(super) rows: Vec<Vec<String>>,
    pub(super) note: String,
}

impl Table {
    /// The table as markup.
    pub(super) fn markup(&self) -> String {
        let mut html = format!(
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n<table>\n<caption>{0}</caption>\n<thead><tr>",
            escape(&self.caption)
        );
        for (index, column) in self.columns.iter().enumerate() {
            let class = if self.is_numeric(index) { " class=\"number\"" } else { "" };
            let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escape(column));
        }
        html += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            html += "<tr>";
            for (index, cell) in row.iter().enumerate() {
                let class = if self.is_numeric(index) { " class=\"number\"" } else { "" };
                let _ = match index {
                    0 => write!(html, "<th scope=\"row\">{}</th>", escape(cell)),
                    _ => write!(html, "<td{class}>{}</td>", escape(cell)),
                };
            }
            html += "</tr>\n";
        }
        html += "</tbody>\n</table>\n</div>\n";
        if !self.note.is_empty() {
            let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(&self.note));
        }
        html
    }

    fn is_numeric(&self, column: usize) -> bool {
        column > 0
            && self
                .rows
                .iter()
                .filter_map(|row| row.get(column))
                .all(|cell| cell == "-" || cell.starts_with(|first: char| first.is_ascii_digit()))
    }
}

/// A table of the views, a row each.
pub(super) fn overview(titles: &[String], answers: &[Answers]) -> Table {
    let row = |(title, answers): (&String, &Answers)| {
        let failures = answers.failed.as_ref().map_or(0, |failed| failed.count);
        let held = answers.settings.used_bytes.map_or("-".to_owned(), bytes);
        let growth =
            if answers.growth.grows { bytes(answers.growth.bytes) } else { "-".to_owned() };
        vec![
            title.clone(),
            thousands(answers.events.into()),
            bytes(answers.peak.bytes),
            thousands(answers.peak.position.into()),
            held,
            thousands(failures),
            growth,
            bytes(answers.leaked_bytes),
        ]
    };
    let columns =
        ["run", "events", "peak live", "at event", "held", "failures", "growth", "never freed"];
    Table {
        caption: "What there is on this page".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: titles.iter().zip(answers).map(row).collect(),
        note: String::new(),
    }
}

/// The answers about one view, or about two, as markup.
pub(super) fn cards(answers: &[Answer], view: usize) -> String {
    let card = |answer: &Answer| {
        let mut html = format!(
            "<article class=\"card\">\n<h3>{}</h3>\n<p class=\"short\">{}</p>\n",
            escape(answer.question),
            escape(&answer.short)
        );
        let command = answer.rows.iter().find(|row| row.what.starts_with("rmm "));
        if let Some(command) = command {
            let _ = writeln!(html, "<p><code>{}</code></p>", escape(&command.what));
        } else if !answer.rows.is_empty() {
            let _ = write!(
                html,
                "<details><summary>{}</summary>\n<table>\n<tbody>\n",
                escape(&answer.caption)
            );
            let mut group = "";
            for row in &answer.rows {
                if row.group != group {
                    group = row.group;
                    let _ = write!(
                        html,
                        "</tbody>\n<tbody>\n<tr><th scope=\"rowgroup\" colspan=\"3\" class=\"group\">{}</th></tr>\n",
                        escape(group)
                    );
                }
                html += &line(row, view);
            }
            html += "</tbody>\n</table>\n</details>\n";
        }
        html + "</article>\n"
    };
    answers.iter().map(card).collect()
}

fn line(row: &AnswerRow, view: usize) -> String {
    // With a script a position is a button that moves the cursor.
    let place = row.position.map_or_else(String::new, |position| {
        format!(
            " data-view=\"{view}\" data-at=\"{position}\" title=\"{}\"",
            escape(&at(position, None))
        )
    });
    format!(
        "<tr{place}><th scope=\"row\">{}</th><td class=\"number\">{}</td><td class=\"about\">{}</td></tr>\n",
        escape(&row.what),
        escape(&row.value),
        escape(&row.note)
    )
}
