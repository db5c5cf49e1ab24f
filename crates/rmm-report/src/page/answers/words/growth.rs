//! What grows, in words.

use super::{Answer, AnswerRow};
use crate::format::{bytes, thousands};
use crate::page::answers::Answers;
use crate::page::answers::growth::Grower;
use crate::page::answers::share::Grouping;

/// Bytes of what grows that are not freed at the end.
pub(super) fn lost(answers: &Answers) -> u64 {
    named(answers).map(|grower| grower.lost_bytes).fold(0, u64::saturating_add)
}

/// What grows, of the first kind that has a name.
fn named(answers: &Answers) -> impl Iterator<Item = &Grower> {
    let growers = &answers.growth.growers;
    growers.iter().take_while(|grower| grower.kind == growers[0].kind)
}

/// What grows, and by how much: the same words wherever they stand.
pub(super) fn what_grows(answers: &Answers) -> String {
    let (names, count) =
        (named(answers).map(|grower| grower.name.as_str()), named(answers).count());
    let names: Vec<&str> = names.take(2).collect();
    let is_one = named(answers).all(|grower| grower.kind != Grouping::Size);
    let who = match (names.as_slice(), count) {
        ([], _) => "what is live grows".to_owned(),
        ([one], _) if is_one => format!("{one} grows"),
        ([one], _) => format!("{one} grow"),
        ([one, other], 2) => format!("{one} and {other} grow"),
        ([one, ..], more) => format!("{one} and {} others grow", more - 1),
    };
    let by = bytes(answers.growth.bytes);
    match (lost(answers), answers.leaked_blocks) {
        (0, 0) => format!("{who} steadily by {by}, though all of it is freed at the end"),
        (0, _) => format!("{who} steadily by {by}"),
        (lost, 0) => format!("{who} steadily, {} not freed so far", bytes(lost)),
        (lost, _) => format!("{who} steadily, {} never freed", bytes(lost)),
    }
}

/// The largest of what is never freed and does not grow, as a sentence after another.
pub(super) fn what_stays(answers: &Answers) -> String {
    let Some(stay) = answers.growth.stays.first().filter(|_| answers.leaked_blocks > 0) else {
        return String::new();
    };
    let (is, stays) = if stay.kind == Grouping::Size { ("are", "stay") } else { ("is", "stays") };
    let (name, held) = (&stay.name, bytes(stay.bytes));
    if stay.is_from_start {
        format!(" {name} ({held}) {is} made at the start and {stays}.")
    } else {
        format!(" {name} ({held}) {is} never freed, too, but not in steady growth.")
    }
}

pub(super) fn growth(answers: &Answers) -> Answer {
    let question = "Does memory grow, and what grows?";
    let growth = &answers.growth;
    if !growth.is_known {
        let short = "There are too few events to say.".to_owned();
        return Answer { question, short, ..Answer::default() };
    }
    if !growth.grows {
        let short = format!(
            "No: the least that is live in each eighth of the run does not rise between events {} and {}.",
            thousands(growth.from.into()),
            thousands(growth.to.into())
        );
        return Answer { question, short, ..Answer::default() };
    }
    let events = u64::from(growth.to - growth.from).max(1);
    let between = format!(
        "between events {} and {}",
        thousands(growth.from.into()),
        thousands(growth.to.into())
    );
    let each = bytes(growth.bytes.saturating_mul(1000) / events);
    let grows = what_grows(answers);
    let short = format!("Yes: {grows} ({each} in 1,000 events, {between}).{}", what_stays(answers));
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
    Answer { question, short, rows, caption: format!("What grows {between}") }
}
