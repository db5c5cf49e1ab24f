//! Several resources that served the same log, in words.

use std::fmt::Write as _;

use super::{Answer, AnswerRow};
use crate::format::{bytes, thousands};
use crate::page::answers::Answers;
use crate::page::answers::failed::{Failed, WhatItTakes};

/// With more resources than this a sentence names only those with the least and with the most.
const NAMED: usize = 4;

/// A figure of a resource: its heading, whether it is of bytes, and where it is from.
type Figure = (&'static str, bool, fn(&Answers) -> Option<u64>);

const FIGURES: [Figure; 6] = [
    ("Live at most", true, |of| Some(of.peak.bytes)),
    ("Held at most", true, |of| of.settings.held_bytes),
    ("Driver calls", false, |of| of.settings.driver_calls),
    ("Waits of streams", false, |of| Some(of.settings.waits)),
    ("Failures", false, |of| Some(of.failed.as_ref().map_or(0, |failed| failed.count))),
    ("Missing at the first failure", true, |of| of.failed.as_ref().and_then(missing)),
];

/// What differs between all resources on a page, each with its title.
pub(crate) fn say_resources(answers: &[Answers], titles: &[String]) -> Answer {
    let question = "What changed between two runs?";
    let mut short = format!("The same events on {} resources.", answers.len());
    let mut rows = Vec::new();
    for (heading, is_bytes, figure) in FIGURES {
        let show = |figure| if is_bytes { bytes(figure) } else { thousands(figure) };
        let mut known: Vec<(u64, &str)> = answers
            .iter()
            .zip(titles)
            .filter_map(|(of, title)| Some((figure(of)?, title.as_str())))
            .collect();
        let all: Vec<AnswerRow> = known
            .iter()
            .map(|&(figure, title)| AnswerRow {
                group: heading,
                ..AnswerRow::new(title, show(figure), String::new())
            })
            .collect();
        known.sort_by_key(|&(figure, _)| figure);
        let (Some(&least), Some(&most)) = (known.first(), known.last()) else { continue };
        if most.0 == 0 {
            continue;
        }
        rows.extend(all);
        let named = |&(figure, title): &(u64, &str)| format!("{title} {}", show(figure));
        let figures = if least.0 == most.0 && known.len() == answers.len() {
            format!("{} in each", show(least.0))
        } else if known.len() <= NAMED {
            known.iter().map(named).collect::<Vec<_>>().join(", ")
        } else {
            format!("from {} to {}", named(&least), named(&most))
        };
        let _ = write!(short, " {heading}: {figures}.");
    }
    Answer { question, short, rows, caption: "By resource".to_owned() }
}

/// By how much the first request that failed was refused, if that is known.
fn missing(failed: &Failed) -> Option<u64> {
    match failed.remedy {
        WhatItTakes::More { missing_bytes } | WhatItTakes::Limit { missing_bytes, .. } => {
            Some(missing_bytes)
        }
        WhatItTakes::Join { limit_bytes, .. } => {
            Some(limit_bytes?.saturating_sub(failed.limit_bytes?))
        }
        WhatItTakes::Wait { .. } | WhatItTakes::Total { .. } => None,
    }
}
