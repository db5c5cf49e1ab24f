//! What grows, in words.

use std::fmt::Write as _;

use super::{Answer, AnswerRow};
use crate::format::{bytes, thousands};
use crate::page::answers::Answers;
use crate::page::answers::growth::Grower;

pub(super) fn growth(answers: &Answers) -> Answer {
    let question = "Does memory grow, and what grows?";
    let growth = &answers.growth;
    if !growth.is_known {
        let short = "There are too few events to say.".to_owned();
        return Answer { question, short, ..Answer::default() };
    }
    if !growth.grows {
        let short = format!(
            "No: what stays live does not rise between events {} and {}.",
            thousands(growth.from.into()),
            thousands(growth.to.into())
        );
        return Answer { question, short, ..Answer::default() };
    }
    let mut short = format!(
        "Yes, by {} between events {} and {}",
        bytes(growth.bytes),
        thousands(growth.from.into()),
        thousands(growth.to.into())
    );
    let events = u64::from(growth.to - growth.from).max(1);
    let _ =
        write!(short, " ({} in 1,000 events).", bytes(growth.bytes.saturating_mul(1000) / events));
    if let Some(first) = growth.growers.first() {
        let left = if first.left_bytes == 0 && answers.leaked_bytes == 0 {
            ", though all of it is freed at the end"
        } else {
            ""
        };
        let _ = write!(short, " Most of it: {}{left}.", first.name);
    }
    let row = |grower: &Grower| {
        let note = match grower.left_bytes {
            0 => "all freed at the end".to_owned(),
            left => format!("{} never freed", bytes(left)),
        };
        let group = grower.kind.heading();
        AnswerRow {
            group,
            ..AnswerRow::new(grower.name.clone(), format!("+{}", bytes(grower.bytes)), note)
        }
    };
    let rows = growth.growers.iter().map(row).collect();
    Answer { question, short, rows, caption: "What grows".to_owned() }
}
