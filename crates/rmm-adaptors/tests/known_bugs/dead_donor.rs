//! RMM #510: a pool whose donor had died. Blocks were in the free list of a stream that had been
//! destroyed meanwhile, and the pool recorded its event there when another stream wanted them; that
//! failed, and what the other one waited for was an event that had never been recorded. To drop
//! what is known of the stream with the stream is no better.

use rmm_core::{Annotator, CudaEvent, DevicePtr, StreamRef};
use rmm_sim::ViolationKind;
use rmm_sys::CuStream;

use crate::stage::{BLOCK, Bug, Report, fill, id, is_found, stream};

/// What a pool does about the order of a stream that frees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Donors {
    /// It records an event there when somebody wants the block.
    AskedLate,
    /// It records one at the free, and drops it with the stream.
    Forgotten,
    /// It records one at the free, and keeps it.
    Remembered,
}

/// A freed block, with the stream that freed it and what is to be waited for.
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
        let Freed { block, donor, event } = self.free.pop().expect("somebody has freed blocks");
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
        // SAFETY: not kept, which is the bug: the stream may be gone, and the software device
        // answers with an error.
        let _ignored = unsafe { event.record_raw(donor) };
        Some(event)
    }

    fn free(&mut self, stream: StreamRef<'_>, block: DevicePtr) {
        self.annotator.freed(block, BLOCK, Some(stream));
        let is_early = self.donors != Donors::AskedLate;
        let event = is_early.then(|| stream.record_event().expect("an event"));
        self.free.push(Freed { block, donor: stream.as_raw(), event });
    }

    /// A stream is about to be destroyed.
    fn stream_ends(&mut self, stream: StreamRef<'_>) {
        if self.donors == Donors::Forgotten {
            let freed = self.free.iter_mut().filter(|freed| freed.donor == stream.as_raw());
            freed.for_each(|freed| freed.event = None);
        }
    }
}

fn is_found_where(donors: Donors) {
    is_found(|stage, bug| {
        let donors = if bug == Bug::Present { donors } else { Donors::Remembered };
        let mut pool = Pool { donors, annotator: Annotator::new("orphans"), free: Vec::new() };
        // Made first, so that it does not get the handle of the one that is destroyed.
        let (heir, donor) = (stream(), stream());
        let expected = Report {
            kind: ViolationKind::AllocatedInUse,
            first: Some(id(&donor)),
            second: Some(id(&heir)),
        };
        let block = stage.block(0);
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
fn an_event_is_recorded_on_a_stream_that_is_gone() {
    is_found_where(Donors::AskedLate);
}

#[test]
fn a_stream_that_is_gone_is_taken_for_one_that_is_done() {
    is_found_where(Donors::Forgotten);
}
