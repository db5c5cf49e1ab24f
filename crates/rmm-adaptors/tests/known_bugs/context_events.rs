//! Blocks that were freed on streams which the pool cannot name any more: per-thread default
//! streams of other threads, and streams of unknown lifetime that were destroyed. Other streams
//! reach them by one event of the whole context (`cuCtxRecordEvent`), which is recorded after the
//! free and waited for before the reuse. Each bug leaves out one of these rules.

use rmm_core::{Annotator, Context, CudaEvent, CudaStream, DevicePtr, StreamRef};
use rmm_sim::ViolationKind;

use crate::harness::{BLOCK, Bug, Harness, Report, assert_bug_is_found, fill, id, stream};

/// The rule that an allocator leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    /// An event covers the block before another stream gets it.
    Covered,
    /// The event is recorded after the free. An older one covers what came before it.
    RecordedAfterTheFree,
    /// The event is waited for: that it was recorded does not complete it.
    Waited,
    /// A stream that was destroyed may have work.
    DestroyedStreamsWork,
}

/// A freed block, and the handle of its stream.
struct Freed {
    block: DevicePtr,
    stream: CudaStream,
}

/// Blocks whose streams record no event at a free.
struct Pool {
    left_out: Option<Rule>,
    annotator: Annotator,
    /// Recorded when the pool last needed one.
    last: CudaEvent,
    free: Vec<Freed>,
}

/// An event of all work of the current context.
fn context_event() -> CudaEvent {
    let event = CudaEvent::new().expect("an event");
    let context = Context::current().expect("a context").as_raw();
    // SAFETY: both exist.
    let code = unsafe { rmm_sim::driver().cuCtxRecordEvent(context, event.as_raw()) };
    assert!(code.is_success(), "{code:?}");
    event
}

/// Whether a handle names no stream any more.
fn is_gone(stream: &CudaStream) -> bool {
    let mut id = 0;
    // SAFETY: `id` may be written to. The stream may be gone, which the software device answers
    // with an error.
    let code = unsafe { rmm_sim::driver().cuStreamGetId(stream.as_raw(), &raw mut id) };
    !code.is_success()
}

impl Pool {
    fn new(left_out: Option<Rule>) -> Self {
        let annotator = Annotator::new("context events");
        Self { left_out, annotator, last: context_event(), free: Vec::new() }
    }

    fn free(&mut self, stream: &CudaStream, block: DevicePtr) {
        self.annotator.freed(block, BLOCK, Some(stream.as_stream_ref()));
        self.free.push(Freed { block, stream: stream.clone() });
    }

    /// A block of a stream that is not `stream`.
    fn allocate(&mut self, stream: StreamRef<'_>) -> DevicePtr {
        let Freed { block, stream: donor } = self.free.pop().expect("a block was freed");
        let is_covered = match self.left_out {
            Some(Rule::Covered) => true,
            Some(Rule::DestroyedStreamsWork) => is_gone(&donor),
            _ => false,
        };
        if !is_covered {
            if self.left_out != Some(Rule::RecordedAfterTheFree) {
                self.last = context_event();
            }
            if self.left_out != Some(Rule::Waited) {
                stream.wait(&self.last).expect("a wait");
            }
        }
        self.annotator.allocated(block, BLOCK, Some(stream));
        block
    }
}

/// Uses and frees a block on the stream of another thread, which has ended then. Returns the
/// identity of the stream.
fn free_on_a_thread(harness: &Harness, pool: &mut Pool) -> u64 {
    let block = harness.block(0);
    harness.on_a_thread(|own| {
        pool.annotator.allocated(block, BLOCK, Some(own.as_stream_ref()));
        fill(own, block);
        pool.free(own, block);
    })
}

/// Uses and frees a block on a stream of unknown lifetime, which its owner destroys then. Returns
/// the identity of the stream.
fn free_on_a_destroyed_stream(harness: &Harness, pool: &mut Pool) -> u64 {
    let (owner, block) = (stream(), harness.block(0));
    // SAFETY: the owner outlives all use of the handle but the question whether it does.
    let adopted = unsafe { CudaStream::adopt(owner.as_raw(), rmm_core::StreamLifetime::Unknown) };
    let adopted = adopted.expect("it exists");
    pool.annotator.allocated(block, BLOCK, Some(adopted.as_stream_ref()));
    fill(&adopted, block);
    pool.free(&adopted, block);
    id(&owner)
}

/// Frees a block by `free`, reuses it on another stream, and expects a report if a rule was left
/// out.
fn is_found(rule: Rule, free: impl Fn(&Harness, &mut Pool) -> u64) {
    assert_bug_is_found(|harness, bug| {
        let mut pool = Pool::new((bug == Bug::Present).then_some(rule));
        // Made first, so that it does not get the handle of a destroyed one.
        let heir = stream();
        let donor = free(harness, &mut pool);
        fill(&heir, pool.allocate(heir.as_stream_ref()));
        Report { kind: ViolationKind::AllocatedInUse, first: Some(donor), second: Some(id(&heir)) }
    });
}

/// Frees blocks on the stream of a thread, reuses them on that of this one, and expects a report if
/// a rule was left out, as [`is_found`] does.
fn is_found_between_threads(rule: Rule) {
    assert_bug_is_found(|harness, bug| {
        let mut pool = Pool::new((bug == Bug::Present).then_some(rule));
        let donor = free_on_a_thread(harness, &mut pool);
        let own = StreamRef::per_thread();
        fill(own, pool.allocate(own));
        Report { kind: ViolationKind::AllocatedInUse, first: Some(donor), second: Some(id(own)) }
    });
}

#[test]
fn another_thread_reuses_a_free_that_no_event_covers() {
    is_found_between_threads(Rule::Covered);
    is_found(Rule::Covered, free_on_a_thread);
}

#[test]
fn a_context_event_is_taken_for_complete_when_recorded() {
    is_found_between_threads(Rule::Waited);
    is_found(Rule::Waited, free_on_a_destroyed_stream);
}

#[test]
fn a_context_event_from_before_the_free_is_used() {
    is_found_between_threads(Rule::RecordedAfterTheFree);
    is_found(Rule::RecordedAfterTheFree, free_on_a_destroyed_stream);
}

#[test]
fn a_destroyed_foreign_stream_counts_as_complete() {
    is_found(Rule::DestroyedStreamsWork, free_on_a_destroyed_stream);
}
