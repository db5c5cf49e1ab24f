//! Memory of which parts are freed while other parts are used.
//!
//! Uses of different parts stay apart, so that a part is freed as soon as its own uses have
//! completed, and a range that a graph uses is remembered: nothing says when the graph is launched.

use std::ops::Range;

use rmm_core::known_contexts::wait_for_all_contexts;
use rmm_core::sys::CuResult;
use rmm_core::{Context, Error, RelaxedCapture, StreamRef};

use super::pending::{Access, LOOK_THRESHOLD, PendingUses, UseKind};
use super::snapshot::{StreamSnapshot, is_capturing};
use super::{EndMarker, Pending, StreamIn, UseTracker};

/// The name in errors.
const NAME: &str = "elastic memory";

impl UseTracker {
    /// For memory without an owner, parts of which are freed when their uses have completed.
    pub(crate) fn of_parts(context: Context) -> Self {
        Self { is_freed_in_parts: true, ..Self::for_host_memory(context) }
    }

    /// Records that work which was enqueued on a stream by now uses a range. Nothing is needed of
    /// the stream afterwards. The context is current.
    pub(crate) fn record_enqueued(
        &self,
        range: Range<usize>,
        on: StreamIn<'_>,
    ) -> Result<(), Error> {
        self.with_uses(|pending| {
            tidy(pending, on.stream)?;
            let uses = pending.get_or_insert_with(|| Box::new(PendingUses::of_parts()));
            if is_capturing(on.stream)? {
                uses.note_graph(range);
                return Ok(());
            }
            let end = EndMarker::record(uses.take_spare_marker(), on.stream)?;
            let stream = StreamSnapshot::new(on.stream, on.context);
            let unknown = EndMarker::EndOfStream;
            let (access, kind) = (Access::Write, UseKind::OneShot);
            let number = uses.record_beside(stream, range, access, kind, unknown);
            uses.set_end(number, end);
            Ok(())
        })
    }

    /// Fails unless every use of `range` has completed. The caller makes no use meanwhile: what was
    /// enqueued on a stream with an open use by now is all that the use is.
    ///
    /// # Errors
    /// [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady) if work may be running;
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if a graph uses the range, or a
    /// stream that does is being captured; whatever the driver reports.
    pub(crate) fn check_unused(&mut self, range: &Range<usize>) -> Result<(), Error> {
        self.end_uses(range, |end| {
            let is_complete = match end {
                EndMarker::Event(event) => unless_ended(event.is_complete())?.unwrap_or(false),
                EndMarker::EndOfStream => false,
            };
            if is_complete {
                return Ok(());
            }
            let message =
                format!("work that uses {range:?} may be running: wait for it, or try again later");
            Err(Error::not_ready(NAME, message))
        })
    }

    /// Waits on the host until every use of `range` has completed.
    ///
    /// # Errors
    /// The errors of [`check_unused`](Self::check_unused), but for `NotReady`.
    pub(crate) fn wait_until_unused(&mut self, range: &Range<usize>) -> Result<(), Error> {
        self.end_uses(range, |end| {
            if let EndMarker::Event(event) = end
                && unless_ended(event.synchronize())?.is_some()
            {
                return Ok(());
            }
            // With the context, its waits for uses that are known no more have ended.
            wait_for_all_contexts()
        })
    }

    /// Forgets what graphs use. The caller ensures that they run no more.
    pub(crate) fn forget_graphs(&mut self) {
        self.with_uses(|pending| {
            if let Some(uses) = pending {
                uses.forget_graphs();
            }
        });
    }

    /// Calls `is_over` with the end of each use of `range`, and forgets the uses if none fails. A
    /// use without an end has ended with its context.
    fn end_uses(
        &mut self,
        range: &Range<usize>,
        is_over: impl Fn(&EndMarker) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.with_uses(|pending| {
            let Some(uses) = pending else { return Ok(()) };
            for earlier in uses.conflicting(range, Access::Write) {
                // A wait for this use would invalidate the capture.
                if unless_ended(earlier.is_being_captured())?.unwrap_or(false) {
                    let message = format!("a stream that uses {range:?} is being captured");
                    return Err(Error::unsupported(NAME, message));
                }
            }
            if let Some(graph) = uses.graph_over(range) {
                let message = format!(
                    "{range:?}: a graph uses {graph:?}; once it runs no more, call `end_graph_uses`"
                );
                return Err(Error::unsupported(NAME, message));
            }
            let _relaxed = RelaxedCapture::enter();
            uses.end_all(range, |stream: &mut StreamSnapshot, kind| {
                let end = unless_ended(stream.record_end())?;
                let end = end.map_or(EndMarker::EndOfStream, EndMarker::Event);
                if kind == UseKind::Open {
                    // What was enqueued after the capture runs, and what is in the graph is noted.
                    stream.mark_not_captured();
                }
                Ok::<_, Error>(end)
            })?;
            for earlier in uses.conflicting(range, Access::Write).filter(|earlier| earlier.runs()) {
                is_over(&earlier.end)?;
            }
            uses.forget_conflicting(range, Access::Write);
            Ok(())
        })
    }
}

/// `None` in place of the error that the context has ended.
fn unless_ended<T>(outcome: Result<T, Error>) -> Result<Option<T>, Error> {
    match outcome {
        Err(error) if error.code() == Some(CuResult::CONTEXT_IS_DESTROYED) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Forgets completed uses now and then; always for a stream that is being captured, which cannot
/// wait for them.
pub(super) fn tidy(pending: &mut Pending, stream: StreamRef<'_>) -> Result<(), Error> {
    let uses = pending.get_or_insert_with(|| Box::new(PendingUses::of_parts()));
    if uses.is_empty() || uses.len() <= uses.look_threshold && !is_capturing(stream)? {
        return Ok(());
    }
    let _relaxed = RelaxedCapture::enter();
    uses.forget_complete(is_complete);
    // A look costs as many queries as there are uses, so that the next one is after twice as many.
    uses.look_threshold = (2 * uses.len()).max(LOOK_THRESHOLD);
    Ok(())
}

fn is_complete(stream: &StreamSnapshot, end: &EndMarker) -> bool {
    match end {
        EndMarker::Event(event) => !stream.is_captured() && matches!(event.is_complete(), Ok(true)),
        EndMarker::EndOfStream => false,
    }
}
