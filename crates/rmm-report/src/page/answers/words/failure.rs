//! The first failure in words.

use std::fmt::Write as _;

use super::split::split_rows;
use super::{Answer, AnswerRow, at, share_rows};
use crate::format::{bytes, thousands};
use crate::page::answers::Answers;
use crate::page::answers::failed::{Failed, WhatItTakes};

pub(super) fn failure(answers: &Answers) -> Answer {
    let question = "Which request failed, and what would have let it succeed?";
    let Some(failed) = &answers.failed else {
        let short = "None failed.".to_owned();
        return Answer { question, short, ..Answer::default() };
    };
    let mut short =
        format!("The first was {}, {}", bytes(failed.bytes), at(failed.position, failed.time_ns));
    if !failed.tag.is_empty() {
        let _ = write!(short, ", by {}", failed.tag);
    }
    if !failed.site.is_empty() {
        let _ = write!(short, ", from {}", failed.site);
    }
    let others = match failed.count {
        1 => "no other failed".to_owned(),
        more => format!("{} failed in all", thousands(more)),
    };
    let _ = write!(short, "; {others}. {}", remedy(failed));
    let mut rows = vec![AnswerRow {
        position: Some(failed.position),
        ..AnswerRow::new("asked for", bytes(failed.bytes), format!("stream {}", failed.stream))
    }];
    rows.extend(split_rows(&failed.split));
    if !failed.text.is_empty() {
        rows.push(AnswerRow::new("the error", String::new(), failed.text.clone()));
    }
    rows.extend(share_rows(&failed.shares, failed.split.live_bytes()));
    Answer { question, short, rows, caption: "What there was at that moment".to_owned() }
}

fn remedy(failed: &Failed) -> String {
    match failed.remedy {
        WhatItTakes::Wait { hole_bytes } => format!(
            "A range of {} was free, but not available: it was waiting for another stream, or a limit \
             above the pool refused.",
            bytes(hole_bytes)
        ),
        WhatItTakes::Join { free_bytes, missing_bytes } => format!(
            "{} were free, in pieces that are too small: in one piece they would have been enough. A \
             pool over virtual memory (pool-virtual) joins free pages; {} more memory would do, too.",
            bytes(free_bytes),
            bytes(missing_bytes)
        ),
        WhatItTakes::More { missing_bytes } => format!(
            "It would have fitted with {} more memory, or with as much less that is live.",
            bytes(missing_bytes)
        ),
        WhatItTakes::Limit { missing_bytes, limit_bytes } => format!(
            "It would have fitted with {} more memory, a limit of {}, or with as much less that is \
             live.",
            bytes(missing_bytes),
            bytes(limit_bytes)
        ),
        WhatItTakes::Total { bytes: total } => format!(
            "With what was live it makes {}: so much memory for this program would have been enough, \
             if none is lost between blocks.",
            bytes(total)
        ),
    }
}
