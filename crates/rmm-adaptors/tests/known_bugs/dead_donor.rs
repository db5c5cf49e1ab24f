//! RMM #510: a free list of a destroyed stream. Its blocks were still there, and the pool recorded
//! an event on the destroyed stream when another one allocated them; that failed, and the other
//! stream waited for an event that had never been recorded. Forgetting the destroyed stream
//! altogether is wrong, too.

use rmm_core::{Annotator, CudaEvent, DevicePtr, StreamRef};
use rmm_sim::ViolationKind;
use rmm_sys::CuStream;

use crate::harness::{BLOCK, Bug, Report, assert_bug_is_found, fill, id, stream};

/// How the pool orders later uses after a stream that frees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Donors {
    /// It records an event when another stream allocates the block.
    AskedLate,
    /// It records one at the free, and drops it with the stream.
    Forgotten,
    /// It records one at the free, and keeps it.
    Remembered,
}

/// A freed block, with the stream that freed it and the event to wait for.
struct Freed {
    block: DevicePtr,
    donor: CuStream,
    event: Option<CudaEvent>,
}

struct Pool {
    donors: Donors,
    annotator: Annotator,
    free: Vec<Freed>,
}

impl Pool {
    fn allocate(&mut self, stream: StreamRef<'_>) -> DevicePtr {
        let Freed { block, donor, event } = self.free.pop().expect("a block was freed");
        let event = event.or_else(|| self.ask_late(donor));
        if let Some(event) = event {
            stream.wait(&event).expect("a wait");
        }
        self.annotator.allocated(block, BLOCK, Some(stream));
        block
    }

    fn ask_late(&self, donor: CuStream) -> Option<CudaEvent> {
        if self.donors != Donors::AskedLate {
            return None;
        }
        let event = CudaEvent::new().expect("an event");
        // SAFETY: violated, which is the bug: the stream may be gone, and the software device
        // returns an error.
        let _ignored = unsafe { event.record_raw(donor) };
        Some(event)
    }

    fn free(&mut self, stream: StreamRef<'_>, block: DevicePtr) {
        self.annotator.freed(block, BLOCK, Some(stream));
        let is_early = self.donors != Donors::AskedLate;
        let event = is_early.then(|| stream.record_event().expect("an event"));
        self.free.push(Freed { block, donor: stream.as_raw(), event });
    }

    /// Called before a stream is destroyed.
    fn stream_ends(&mut self, stream: StreamRef<'_>) {
        if self.donors == Donors::Forgotten {
            let freed = self.free.iter_mut().filter(|freed| freed.donor == stream.as_raw());
            freed.for_each(|freed| freed.event = None);
        }
    }
}

fn is_found_where(donors: Donors) {
    assert_bug_is_found(|harness, bug| {
        let donors = if bug == Bug::Present { donors } else { Donors::Remembered };
        let mut pool = Pool { donors, annotator: Annotator::new("orphans"), free: Vec::new() };
        // Created first, so that it does not get the handle of the destroyed one.
        let (heir, donor) = (stream(), stream());
        let expected = Report {
            kind: ViolationKind::AllocatedInUse,
            first: Some(id(&donor)),
            second: Some(id(&heir)),
        };
        let block = harness.block(0);
        pool.annotator.allocated(block, BLOCK, Some(donor.as_stream_ref()));
        fill(&donor, block);
        pool.free(donor.as_stream_ref(), block);
        pool.stream_ends(donor.as_stream_ref());
        drop(donor);
        fill(&heir, pool.allocate(heir.as_stream_ref()));
        expected
    });
}

#[test]
fn an_event_is_recorded_on_a_destroyed_stream() {
    is_found_where(Donors::AskedLate);
}

#[test]
fn a_destroyed_stream_is_mistaken_for_an_idle_one() {
    is_found_where(Donors::Forgotten);
}
