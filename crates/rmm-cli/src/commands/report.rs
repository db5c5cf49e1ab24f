//! `rmm report`.

use std::fmt::Write as _;

use rmm_report::page::MemoryPage;
use rmm_report::page::answers::compare::Compared;
use rmm_report::page::answers::words::{self, Answer};

use super::{BAD_INPUT, Ended};
use crate::args::ReportArgs;
use crate::style::{HEADER, paint};
use crate::{deliver, input, text};

/// `rmm report`.
pub fn report(args: &ReportArgs) -> Ended {
    let prepared = input::read_all(&args.files, &args.outputs)
        .and_then(|traces| deliver::check(&args.outputs).map(|()| traces));
    let traces = match prepared {
        Ok(traces) => traces,
        Err(error) => return Ended::failed(BAD_INPUT, error),
    };
    let page = MemoryPage::of_logs(&traces);
    drop(traces);
    let answers = page.answers();
    let mut said = String::new();
    for notice in &page.notices {
        said += &text::wrap(&printable(notice), 2);
    }
    for answers in &answers {
        said += &in_words(&answers.log, &words::say(answers, &[]));
    }
    if let ([before, .., after], [first, .., last]) = (page.views.as_slice(), answers.as_slice()) {
        let compared = words::say_compared(&Compared::of(
            (&before.log, before, first),
            (&after.log, after, last),
        ));
        said += &in_words(&compared.caption.clone(), &[compared]);
    }
    let written = deliver::write(
        &args.outputs,
        said,
        || deliver::to_json(&answers),
        || page.render_with(&answers),
    );
    Ended::succeeded(String::new()).delivered(written)
}

/// The answers, each with at most a few lines of what stands behind it.
fn in_words(heading: &str, answers: &[Answer]) -> String {
    let mut said = format!("{}\n", paint(HEADER, &printable(heading)));
    for answer in answers {
        let _ = write!(said, "\n{}\n", paint(HEADER, answer.question));
        said += &text::wrap(&printable(&answer.short), 0);
        let mut group = "";
        for row in &answer.rows {
            if row.group != group {
                group = row.group;
                let _ = writeln!(said, "  {group}");
            }
            let label = printable(&row.what);
            let line = match row.value.as_str() {
                "" => text::hang("  ", &format!("{label} {}", printable(&row.note)), 4),
                value => text::hang(
                    &format!("  {value:>10}  "),
                    &format!("{label} ({})", printable(&row.note)),
                    14,
                ),
            };
            said += &line;
        }
    }
    said + "\n"
}

/// Text of a log without characters that control the terminal.
fn printable(text: &str) -> String {
    text.replace(char::is_control, " ")
}
