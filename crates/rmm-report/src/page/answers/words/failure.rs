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
    let _ = write!(short, "; {others}. {}{}", remedy(failed), of_others(failed));
    let mut rows = vec![AnswerRow {
        position: Some(failed.position),
        ..AnswerRow::new("asked for", bytes(failed.bytes), format!("stream {}", failed.stream))
    }];
    rows.extend(
        failed.limit_bytes.map(|limit| AnswerRow::new("the limit", bytes(limit), String::new())),
    );
    if !failed.text.is_empty() {
        rows.push(AnswerRow::new("the error", String::new(), failed.text.clone()));
    }
    let held = split_rows(&failed.split).into_iter();
    rows.extend(held.map(|row| AnswerRow { group: "What was held", ..row }));
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
        WhatItTakes::Join { free_bytes, whole_free_bytes, pages_are_enough, limit_bytes } => {
            let whole = match whole_free_bytes {
                whole if pages_are_enough => format!(
                    " {} of that were whole pages, which a pool over virtual memory (pool-virtual) \
                     joins.",
                    bytes(whole)
                ),
                0 => " No page of 2 MiB was free as a whole, so none could be joined.".to_owned(),
                whole if whole < failed.bytes => {
                    format!(" Only {} of that were whole pages, too few to join.", bytes(whole))
                }
                _ => String::new(),
            };
            let more = match limit_bytes {
                Some(limit) => format!("a limit of {}", bytes(limit)),
                None => format!("{} more memory", bytes(failed.bytes)),
            };
            format!(
                "{} were free, but in pieces of at most {}.{whole} It would have fitted with {more}.",
                bytes(free_bytes),
                bytes(failed.split.largest_hole_bytes)
            )
        }
        WhatItTakes::More { missing_bytes } => format!(
            "It lacked {} even if all that is free were joined; with {} more memory it would have \
             fitted.",
            bytes(missing_bytes),
            bytes(failed.bytes)
        ),
        WhatItTakes::Limit { missing_bytes, limit_bytes, is_of_live: true } => format!(
            "It would have fitted with a limit of {}, {} more, or with as much less that is live: \
             this limit counts what is allocated. Below it {} would be held.",
            bytes(limit_bytes),
            bytes(missing_bytes),
            bytes(failed.needed_bytes.unwrap_or(0))
        ),
        WhatItTakes::Limit { missing_bytes, limit_bytes, is_of_live: false } => format!(
            "It would have fitted with a limit of {}, {} more{}.",
            bytes(limit_bytes),
            bytes(missing_bytes),
            of_pieces(failed, missing_bytes)
        ),
        WhatItTakes::Total { bytes: total } => format!(
            "With what was live it makes {}: so much memory for this program would have been enough, \
             if none is lost between blocks.",
            bytes(total)
        ),
    }
}

/// What of the missing memory is so because what is free is in pieces.
fn of_pieces(failed: &Failed, missing_bytes: u64) -> String {
    let short = failed.short_bytes.unwrap_or(0).min(missing_bytes);
    let largest = bytes(failed.split.largest_hole_bytes);
    match (short, missing_bytes - short) {
        (_, 0) => String::new(),
        (0, _) => format!(", since what is free is in pieces of at most {largest}"),
        (short, pieces) => format!(
            ": {} for what is live and this, and {} since what is free is in pieces of at most \
             {largest}",
            bytes(short),
            bytes(pieces)
        ),
    }
}

/// What is known of the failures after the first.
fn of_others(failed: &Failed) -> String {
    let others = match failed.count - 1 {
        0 => return String::new(),
        1 => "The later one".to_owned(),
        more => format!("The {} later ones", thousands(more)),
    };
    match failed.remedy {
        WhatItTakes::Total { bytes: total } if failed.wanted_bytes <= total => {
            format!(" {others} would have made no more.")
        }
        WhatItTakes::Total { .. } => {
            format!(" {others} would have made at most {}.", bytes(failed.wanted_bytes))
        }
        _ => format!(" That is for the first alone: {} may take more.", lower(&others)),
    }
}

fn lower(text: &str) -> String {
    text.replacen('T', "t", 1)
}
