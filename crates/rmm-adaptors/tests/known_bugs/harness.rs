//! Harness of the known bugs: a machine, memory to suballocate, and the expected reports.

use std::alloc::Layout;
use std::thread;

use rmm_core::{CudaStream, Device, DevicePtr, StreamFlags, StreamRef, SynchronousResource, copy};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, MachineGuard, Schedule, ViolationKind};
use rmm_sys::CuDeviceAttribute;

/// Whether an allocator has its bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    Present,
    Fixed,
}

/// The size of all blocks.
pub(crate) const BLOCK: Layout = Layout::new::<[[u64; 8]; 64]>();
/// The number of blocks of device memory.
const BLOCKS: usize = 8;

/// A machine that the thread has entered, with memory for a few blocks.
pub(crate) struct Harness {
    pub(crate) machine: Machine,
    /// The start of the device memory, which is freed with the machine.
    memory: DevicePtr,
    /// Pageable host memory that the device can access. Lives to the end, so that the only use
    /// after free is the simulated one.
    host: Box<[u64]>,
    _entered: MachineGuard,
}

/// The parts of a report that are the same under every schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    pub(crate) kind: ViolationKind,
    /// The stream of the first access, `None` for the host.
    pub(crate) first: Option<u64>,
    /// The stream of the access that violated the order.
    pub(crate) second: Option<u64>,
}

fn memory() -> Layout {
    Layout::from_size_align(BLOCKS * BLOCK.size(), 256).expect("a small size")
}

impl Harness {
    fn new(schedule: Schedule) -> Self {
        let shares = CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
        let machine = Machine::builder().schedule(schedule).attribute(shares, 1).build();
        let entered = machine.enter();
        let memory = CudaMemoryResource::new().allocate_sync(memory()).expect("there is memory");
        let host = vec![0; BLOCK.size() / 8].into();
        Self { machine, memory, host, _entered: entered }
    }

    /// The block of device memory with this index.
    pub(crate) fn block(&self, place: usize) -> DevicePtr {
        assert!(place < BLOCKS, "there are {BLOCKS} blocks");
        DevicePtr(self.memory.0 + (place * BLOCK.size()) as u64)
    }

    /// A block of host memory.
    pub(crate) fn host_block(&self) -> DevicePtr {
        DevicePtr(self.host.as_ptr().expose_provenance() as u64)
    }

    /// Frees the device memory to the driver.
    pub(crate) fn give_back(&self) {
        // SAFETY: allocated with this layout by `new`, and freed once; the driver waits for its
        // uses.
        unsafe { CudaMemoryResource::new().deallocate_sync(self.memory, memory()) };
    }

    /// Calls `work` with the default stream of a thread, which has ended on return. Returns the
    /// identity of the stream.
    pub(crate) fn on_a_thread(&self, work: impl FnOnce(&CudaStream) + Send) -> u64 {
        let machine = &self.machine;
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _entered = machine.enter();
                let _current = Device::new(0).and_then(Device::make_current).expect("a device");
                let own = CudaStream::per_thread();
                work(&own);
                id(&own)
            });
            thread.join().expect("it ends well")
        })
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

/// A stream that is implicitly ordered with no other.
pub(crate) fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

/// The identity of a stream, in the driver and in its reports.
pub(crate) fn id<'a>(stream: impl Into<StreamRef<'a>>) -> u64 {
    let mut id = 0;
    // SAFETY: the stream is borrowed, and `id` is valid for a write.
    let code = unsafe { rmm_sim::driver().cuStreamGetId(stream.into().as_raw(), &raw mut id) };
    assert!(code.is_success(), "{code:?}");
    id
}

/// Enqueues a kernel that writes a block.
pub(crate) fn fill<'a>(stream: impl Into<StreamRef<'a>>, block: DevicePtr) {
    // SAFETY: the block is memory of the harness, which runs all work before it is dropped. Other
    // uses may be unordered with this one, which is what the bugs are about; the contents are never
    // read.
    unsafe { copy::fill(block, 1, BLOCK.size(), stream.into()) }.expect("a fill");
}

/// Runs a program on an allocator with its bug and without, under schedules of every kind. Returns
/// the report of the bug; without the bug there must be none.
pub(crate) fn assert_bug_is_found(program: impl Fn(&Harness, Bug) -> Report) {
    let seeded = (0..8).map(Schedule::Seeded);
    for schedule in [Schedule::Eager, Schedule::Lazy].into_iter().chain(seeded) {
        for bug in [Bug::Present, Bug::Fixed] {
            let harness = Harness::new(schedule);
            let expected = program(&harness, bug);
            harness.machine.run_all();
            let reports = harness.reports();
            match bug {
                Bug::Present => {
                    assert!(reports.contains(&expected), "{schedule:?}: {expected:?}: {reports:?}");
                }
                Bug::Fixed => harness.machine.assert_no_violations(),
            }
        }
    }
}
