//! The page: one HTML file that shows memory, and needs no network and no other file.
//!
//! It begins with the answers to six questions, in text that needs no script. Below them a script
//! draws bytes and addresses over the events, and the heap at a cursor. The page lets no other
//! script run: its policy names the digest of its own.
//!
//! | module | what it has |
//! |---|---|
//! | [`answers`] | the answers, as figures and in words |
//! | `view` | what a page shows of one log or one resource; `of_trace`, `of_replay` and `of_snapshot` make it |
//! | `encode` | all blocks as compressed columns |
//! | `document`, `tables` | the HTML |
//! | `assets` | the script, the style sheet, and uPlot, which draws lines |

pub mod answers;
mod beside_report;
mod checked;
mod counted;
mod document;
mod encode;
mod escape;
mod of_replay;
mod of_snapshot;
mod of_trace;
mod tables;
mod view;

pub use beside_report::draw_failure_reports;
pub use checked::{render_check, render_text};
pub use encode::MAX_BLOCKS;
pub use of_replay::render;
pub use of_snapshot::render_live;
pub use view::{
    CountedPart, Ending, NEVER, Names, View, ViewBlock, ViewCounted, ViewFailure, ViewLimit,
    ViewReplay, ViewSegment,
};

use crate::trace::Trace;
use answers::Answers;
use tables::Table;

/// What a page shows.
#[derive(Clone, Debug, Default)]
pub struct MemoryPage {
    /// The heading.
    pub title: String,
    /// A sentence below it.
    pub about: String,
    /// What a reader has to know before the rest.
    pub notices: Vec<String>,
    /// The views; the first is shown first.
    pub views: Vec<View>,
    tables: Vec<Table>,
}

impl MemoryPage {
    /// Of some views.
    pub fn new(title: impl Into<String>, views: Vec<View>) -> Self {
        Self { title: title.into(), views, ..Self::default() }
    }

    /// Of logs alone: their addresses are those that were recorded.
    pub fn of_logs(traces: &[Trace]) -> Self {
        let views: Vec<View> = traces.iter().map(View::of_trace).collect();
        let names: Vec<&str> = views.iter().map(|view| view.log.as_str()).collect();
        let title = match names.as_slice() {
            [] => "No log".to_owned(),
            [one] => (*one).to_owned(),
            [one, other] => format!("{one} and {other}"),
            [one, ..] => format!("{one} and {} other logs", names.len() - 1),
        };
        let about = format!("Read from allocation logs by rmm {}.", env!("CARGO_PKG_VERSION"));
        let mut notices = Vec::new();
        for trace in traces {
            let name = trace.path.display();
            if trace.ends_early {
                notices.push(format!(
                    "{name} ends in the middle of a line: its program was killed, or still runs."
                ));
            }
            if !trace.before.is_empty() {
                let blocks = crate::format::count(trace.before.len() as u64, "block");
                notices.push(format!(
                    "{name} begins in the middle of its program: {blocks} of it were live before."
                ));
            }
        }
        Self { about, notices, ..Self::new(title, views) }
    }

    /// The answers about each view.
    pub fn answers(&self) -> Vec<Answers> {
        self.views.iter().map(Answers::of).collect()
    }

    /// The page as HTML. The same page gives the same bytes.
    pub fn render(&self) -> String {
        self.render_with(&self.answers())
    }

    /// The page as HTML, where its [`answers`](Self::answers) are there already.
    pub fn render_with(&self, answers: &[Answers]) -> String {
        document::render(self, answers)
    }
}

/// Renders what logs say by themselves.
///
/// ```
/// let log = "Thread,Time,Action,Pointer,Size,Stream\n\
///            1,00:00:00.000001,allocate,0x1000,1000,0\n\
///            1,00:00:00.000002,free,0x1000,1000,0\n";
/// let trace = rmm_report::trace::read_from("example.csv", log.as_bytes())?;
/// let page = rmm_report::page::render_logs(&[trace]);
/// assert!(page.contains("1.0 KiB in 1 block, at event 1"));
/// # Ok::<(), rmm_report::trace::TraceError>(())
/// ```
pub fn render_logs(traces: &[Trace]) -> String {
    MemoryPage::of_logs(traces).render()
}
