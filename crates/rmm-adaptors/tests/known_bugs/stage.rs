//! Where the bugs are shown: a machine, memory to divide up, and what its reports have to say.

use std::alloc::Layout;

use rmm_core::{CudaStream, DevicePtr, StreamFlags, StreamRef, SyncResource, copy};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, MachineGuard, Schedule, ViolationKind};
use rmm_sys::CuDeviceAttribute;

/// Whether an allocator has its bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    Present,
    Fixed,
}

/// What every allocator here hands out.
pub(crate) const BLOCK: Layout = Layout::new::<[[u64; 8]; 64]>();
/// The blocks of the device's memory.
const BLOCKS: usize = 8;

/// A machine that the thread has entered, with memory for a few blocks.
pub(crate) struct Stage {
    pub(crate) machine: Machine,
    /// The memory's start; it goes with the machine.
    memory: DevicePtr,
    /// Ordinary memory of the host, which the device can use. Kept to the end, so that no bug here
    /// is one of the test's.
    host: Box<[u64]>,
    _entered: MachineGuard,
}

/// A report, as far as it is the same under every schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    pub(crate) kind: ViolationKind,
    /// The stream of the access that came first, `None` for the host.
    pub(crate) first: Option<u64>,
    /// The stream of the access that broke the rule.
    pub(crate) second: Option<u64>,
}

fn memory() -> Layout {
    Layout::from_size_align(BLOCKS * BLOCK.size(), 256).expect("a small size")
}

impl Stage {
    fn new(schedule: Schedule) -> Self {
        let shares = CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
        let machine = Machine::builder().schedule(schedule).attribute(shares, 1).build();
        let entered = machine.enter();
        let memory = CudaMemoryResource::new().allocate_sync(memory()).expect("there is memory");
        let host = vec![0; BLOCK.size() / 8].into();
        Self { machine, memory, host, _entered: entered }
    }

    /// The block at a place of the device's memory.
    pub(crate) fn block(&self, place: usize) -> DevicePtr {
        assert!(place < BLOCKS, "there are {BLOCKS} blocks");
        DevicePtr(self.memory.0 + (place * BLOCK.size()) as u64)
    }

    /// A block of the host's memory.
    pub(crate) fn host_block(&self) -> DevicePtr {
        DevicePtr(self.host.as_ptr().expose_provenance() as u64)
    }

    /// Gives the device's memory back to the driver.
    pub(crate) fn give_back(&self) {
        // SAFETY: allocated with this layout by `new`, and given back once; the driver waits for
        // its uses.
        unsafe { CudaMemoryResource::new().deallocate_sync(self.memory, memory()) };
    }

    fn reports(&self) -> Vec<Report> {
        let report = |violation: rmm_sim::Violation| Report {
            kind: violation.kind,
            first: violation.first.and_then(|access| access.stream),
            second: violation.second.and_then(|access| access.stream),
        };
        self.machine.violations().into_iter().map(report).collect()
    }
}

/// A stream that orders itself with no other.
pub(crate) fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

/// Who the stream is to the driver, and to its reports.
pub(crate) fn id<'a>(stream: impl Into<StreamRef<'a>>) -> u64 {
    let mut id = 0;
    // SAFETY: the stream is borrowed, and `id` may be written to.
    let code = unsafe { rmm_sim::driver().cuStreamGetId(stream.into().as_raw(), &raw mut id) };
    assert!(code.is_success(), "{code:?}");
    id
}

/// Enqueues work that writes a block.
pub(crate) fn fill<'a>(stream: impl Into<StreamRef<'a>>, block: DevicePtr) {
    // SAFETY: the block is memory of the stage, which runs all work before it goes. That its other
    // uses may not be ordered with this one is what the bugs are about; the bytes are never looked
    // at.
    unsafe { copy::fill(block, 1, BLOCK.size(), stream.into()) }.expect("a fill");
}

/// Runs a program on an allocator with its bug and without, under schedules of every kind. It
/// returns what has to be reported of the bug. Without it nothing is.
pub(crate) fn is_found(program: impl Fn(&Stage, Bug) -> Report) {
    let seeded = (0..8).map(Schedule::Seeded);
    for schedule in [Schedule::Eager, Schedule::Lazy].into_iter().chain(seeded) {
        for bug in [Bug::Present, Bug::Fixed] {
            let stage = Stage::new(schedule);
            let expected = program(&stage, bug);
            stage.machine.run_all();
            let reports = stage.reports();
            match bug {
                Bug::Present => {
                    assert!(reports.contains(&expected), "{schedule:?}: {expected:?}: {reports:?}");
                }
                Bug::Fixed => stage.machine.assert_no_violations(),
            }
        }
    }
}
