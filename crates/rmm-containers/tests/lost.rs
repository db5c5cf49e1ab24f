//! Leaked memory: if a container cannot wait for the work that uses its memory, it leaks the
//! memory, and keeps its resource alive.

use std::alloc::Layout;
use std::cell::Cell;
use std::mem::ManuallyDrop;

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceUVector, HostVec, PinnedVec};
use rmm_core::sys::{CuCaptureMode, CuGraph, CuResult};
use rmm_core::{
    CudaStream, Device, DeviceAccessible, DevicePtr, Error, HasProperty, HostDeviceAccessible,
    Property, PropertySet, Query, Resource, StreamFlags, StreamRef, SynchronousResource,
    current_driver,
};
use rmm_resources::{CudaMemoryResource, PinnedHostMemoryResource, VirtualMemoryResource};
use rmm_sim::{Fault, Kernel, Machine, Schedule};

fn lazy() -> Machine {
    Machine::builder().memory(1 << 30).schedule(Schedule::Lazy).build()
}

fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

fn begin_capture(stream: &CudaStream) {
    let driver = current_driver().expect("the software driver");
    let mode = CuCaptureMode::RELAXED;
    // SAFETY: the stream lives.
    let begun = unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), mode) };
    assert_eq!(begun, CuResult::SUCCESS);
}

fn end_capture(stream: &CudaStream) {
    let driver = current_driver().expect("the software driver");
    let mut graph = CuGraph::NULL;
    // SAFETY: the stream lives, and the graph may be written to.
    let ended = unsafe { driver.cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
    assert_eq!(ended, CuResult::SUCCESS);
    // SAFETY: the graph is not used again.
    assert_eq!(unsafe { driver.cuGraphDestroy(graph) }, CuResult::SUCCESS);
}

/// Uses a vector on a stream and begins to capture the stream; then drops the vector and the last
/// other handle to its pool.
fn leak_a_vector<U>(upstream: U)
where
    U: Resource + HasProperty<DeviceAccessible> + 'static,
{
    let machine = lazy().enter();
    let [own, other] = [stream(), stream()];
    let pool = PoolMemoryResource::builder(CountedDrop(upstream)).build().expect("a pool");
    let mut vector = DeviceUVector::<u8>::uninit_in(1 << 20, &own, &pool).expect("a vector");
    let used = vector.use_on_mut(&other).expect("an address");
    let (pointer, bytes) = (used.as_ptr(), used.bytes());
    let kernel = Kernel::new("slow", move |memory| {
        memory.write(pointer, &vec![7; bytes]).expect("the memory is there");
    });
    machine.launch(other.as_raw(), kernel.writes(pointer, bytes)).expect("a launch");
    drop(used);
    begin_capture(&other);
    drop(vector);
    drop(pool);
    assert_eq!(DROPS.get(), 0, "the pool outlives the use of its memory");
    end_capture(&other);
    other.synchronize().expect("the kernel runs");
    machine.assert_no_violations();
}

thread_local! {
    /// Number of upstreams that were dropped.
    static DROPS: Cell<u32> = const { Cell::new(0) };
}

/// A resource whose drops are counted.
#[derive(Debug)]
struct CountedDrop<U>(U);

impl<U> Drop for CountedDrop<U> {
    fn drop(&mut self) {
        DROPS.set(DROPS.get() + 1);
    }
}

// SAFETY: all calls are forwarded to the inner resource, which keeps the contract.
unsafe impl<U: SynchronousResource> SynchronousResource for CountedDrop<U> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.properties_from(&self.0);
    }
}

// SAFETY: as above.
unsafe impl<U: Resource> Resource for CountedDrop<U> {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.allocate(stream, layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.deallocate(stream, pointer, layout) }
    }
}

impl<U> PartialEq for CountedDrop<U> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

// SAFETY: the memory is that of the inner resource.
unsafe impl<P: Property, U: SynchronousResource + HasProperty<P>> HasProperty<P>
    for CountedDrop<U>
{
}

#[test]
fn a_leaked_vector_keeps_its_pool() {
    leak_a_vector(CudaMemoryResource::new());
    leak_a_vector(VirtualMemoryResource::new().expect("a resource"));
}

#[test]
fn a_freed_vector_lets_its_pool_end() {
    let machine = lazy().enter();
    let pool = PoolMemoryResource::builder(CountedDrop(CudaMemoryResource::new())).build().unwrap();
    let vectors = [1 << 20, 0].map(|len| DeviceUVector::<u8>::uninit_in(len, &stream(), &pool));
    drop(pool);
    assert_eq!(DROPS.get(), 0);
    drop(vectors);
    assert_eq!(DROPS.get(), 1);
    assert_eq!(machine.leaks().len(), 0);
}

#[test]
fn a_leaked_host_vector_keeps_its_pool() {
    let machine = lazy().enter();
    let stream = stream();
    let upstream = CountedDrop(PinnedHostMemoryResource::new());
    let pool = PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(upstream);
    let pool = pool.build().expect("a pool");
    let mut vector = HostVec::<u32, _>::zeroed_in(1 << 10, pool).expect("a vector");
    vector.device_slice_mut().fill_on(7, &stream).expect("it is enqueued");
    let _leaked = ManuallyDrop::new(vector);
    stream.synchronize().expect("the device writes");
    assert_eq!(DROPS.get(), 0);
    machine.assert_no_violations();
}

#[test]
fn a_blocking_copy_is_complete_on_return_despite_driver_errors() {
    for code in [CuResult::UNKNOWN, CuResult::INVALID_VALUE, CuResult::STREAM_CAPTURE_INVALIDATED] {
        let machine = lazy().enter();
        let stream = stream();
        let vector = DeviceUVector::from_slice(&[7u8; 1 << 10], &stream).expect("a vector");
        // A copy to pinned memory runs when the stream reaches it.
        let mut pinned = PinnedVec::zeroed(1 << 10).expect("a vector");
        let target = pinned.as_mut_slice().expect("no use");
        for call in ["cuStreamSynchronize", "cuStreamQuery"] {
            machine.fail(Fault::nth(call, 1, code));
        }
        // It may be refused.
        let _ignored = vector.copy_to_slice_on(target, &stream);
        machine.clear_faults();
        assert!(stream.is_idle().expect("an answer"), "{code}: the copy may still run");
    }
}

/// Number of allocated blocks of a pool.
fn live_blocks<S: PropertySet>(pool: &PoolMemoryResource<S>) -> u64 {
    let statistics = pool.statistics();
    statistics.allocations - statistics.frees
}

#[test]
fn a_host_vector_whose_wait_fails_is_leaked() {
    let machine = lazy().enter();
    let stream = stream();
    let pool = PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(
        PinnedHostMemoryResource::new(),
    )
    .build()
    .unwrap();
    let mut vector = HostVec::<u32, _>::zeroed_in(1 << 10, pool.clone()).expect("a vector");
    vector.device_slice_mut().fill_on(7, &stream).expect("it is enqueued");
    for call in ["cuEventSynchronize", "cuStreamSynchronize"] {
        machine.fail(Fault::from_nth(call, 1, CuResult::UNKNOWN));
    }
    drop(vector);
    machine.clear_faults();
    assert_eq!(live_blocks(&pool), 1, "the device may still write");
}

#[test]
fn memory_of_another_threads_unwaitable_stream_is_leaked() {
    let machine = lazy().enter();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().unwrap();
    let vector = std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            let _entered = machine.enter();
            let own = StreamRef::per_thread();
            let mut vector = DeviceUVector::<u32>::uninit_in(4, own, &pool).expect("a vector");
            vector.fill(7).expect("it is enqueued");
            vector
        });
        made.join().expect("the thread does not panic")
    });
    machine.fail(Fault::from_nth("cuEventRecord", 1, CuResult::UNKNOWN));
    drop(vector);
    machine.clear_faults();
    assert_eq!(live_blocks(&pool), 1, "the other thread's stream may still write");
}

#[test]
fn memory_of_an_unreachable_default_stream_is_leaked() {
    let machine = Machine::builder().devices(2).memory(64 << 20).schedule(Schedule::Lazy).enter();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().unwrap();
    let mut vector = DeviceUVector::<u32>::uninit_in(4, StreamRef::legacy(), &pool).unwrap();
    vector.fill(7).expect("it is enqueued");
    let _second_is_current = Device::new(1).and_then(Device::make_current).unwrap();
    machine.fail(Fault::nth("cuCtxPushCurrent_v2", 1, CuResult::UNKNOWN));
    drop(vector);
    machine.clear_faults();
    assert_eq!(live_blocks(&pool), 1, "on this thread, the handle denotes another device's stream");
}
