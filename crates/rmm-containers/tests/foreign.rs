//! Memory of other libraries: adopted, borrowed, and given away, under every schedule. Each rule
//! has a twin that leaves it out, which the software device reports.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceBuffer, DeviceSlice, DeviceSliceMut, DeviceUVector, RawBuffer};
use rmm_core::sys::{CuDevicePtr, CuResult, CuStream};
use rmm_core::{
    AnyResource, CudaStream, Device, DevicePtr, Error, ErrorKind, Introspect as _, Resource as _,
    StreamFlags, StreamRef, SynchronousResource as _, check,
};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
use rmm_sim::{Checker, Kernel, Machine, Schedule};

const LEN: usize = 1024;

fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

/// An array of another library, which allocates and frees with the driver in stream order.
struct Theirs {
    pointer: CuDevicePtr,
    stream: CudaStream,
}

impl Theirs {
    /// Allocated and filled on `stream`.
    fn new(stream: &CudaStream, value: u8) -> Self {
        let (driver, mut pointer) = (rmm_sim::driver(), CuDevicePtr(0));
        // SAFETY: `pointer` may be written to, and the stream exists.
        let code = unsafe { driver.cuMemAllocAsync(&raw mut pointer, LEN, stream.as_raw()) };
        check("cuMemAllocAsync", code).expect("there is memory");
        // SAFETY: the memory has these bytes, and is ready on the stream.
        let code = unsafe { driver.cuMemsetD8Async(pointer, value, LEN, stream.as_raw()) };
        check("cuMemsetD8Async", code).expect("the device works");
        Self { pointer, stream: stream.clone() }
    }

    /// Frees it in the order of any stream.
    fn free_on(self, stream: CuStream) {
        // SAFETY: it was allocated by `cuMemAllocAsync`, and is freed once.
        let code = unsafe { rmm_sim::driver().cuMemFreeAsync(self.pointer, stream) };
        check("cuMemFreeAsync", code).expect("it is allocated");
    }

    /// A container over it, which is ready on `stream` and freed in the order that the container
    /// names.
    fn adopt(self, stream: &CudaStream) -> DeviceUVector<u8> {
        let pointer = self.pointer;
        let free = move |last: StreamRef<'_>| self.free_on(last.as_raw());
        // SAFETY: the memory has these bytes, this alone uses it from now on, and it is freed in
        // the order of the stream.
        unsafe { DeviceUVector::from_foreign(pointer, LEN, stream, free) }.expect("a vector")
    }
}

/// A free that counts its calls.
fn counted(calls: &Arc<AtomicUsize>) -> impl FnOnce(StreamRef<'_>) + Send + 'static {
    let calls = Arc::clone(calls);
    move |_| {
        calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// Launches a kernel that writes all bytes.
fn write(machine: &Machine, stream: &CudaStream, pointer: DevicePtr) {
    let kernel = Kernel::new("write", |_| ()).writes(pointer, LEN);
    machine.launch(stream.as_raw(), kernel).expect("the memory is the device's");
}

/// What the checker reports of a program under every schedule.
fn report(program: impl Fn(&Machine)) -> String {
    let outcome = catch_unwind(AssertUnwindSafe(|| Checker::new().leaks(false).run(program)));
    *outcome.expect_err("a violation").downcast::<String>().expect("a report")
}

#[test]
fn adopted_memory_is_used_on_every_stream_and_freed_last() {
    rmm_sim::check(|machine| {
        let (own, other, third) = (stream(), stream(), stream());
        let mut vector = Theirs::new(&own, 3).adopt(&own);
        assert_eq!(vector.to_vec_on(&other).expect("a copy"), [3; LEN]);
        let (mut left, mut right) = vector.as_slice_mut().split_at(LEN / 2).expect("in range");
        left.fill_on(1, &other).expect("a fill");
        right.fill_on(2, &third).expect("a fill");
        assert_eq!(vector.element_on(LEN - 1, &other).expect("a copy"), 2);
        let used = vector.use_on_mut(&third).expect("the stream waits");
        write(machine, &third, used.as_ptr());
        let _leaked = ManuallyDrop::new(used);
        drop(vector);
    });
}

#[test]
fn adopted_memory_moves_to_another_stream_and_thread() {
    rmm_sim::check(|machine| {
        let (own, other) = (stream(), stream());
        let mut vector = Theirs::new(&own, 3).adopt(&own);
        vector.set_stream(&other).expect("it waits");
        write(machine, &other, vector.as_ptr());
        std::thread::scope(|scope| {
            scope.spawn(|| machine.scope(|| drop(vector)));
        });
    });
}

#[test]
fn adopted_memory_that_grows_moves_to_our_own() {
    rmm_sim::check(|_| {
        let own = stream();
        let mut vector = Theirs::new(&own, 3).adopt(&own);
        assert_eq!(vector.resource().name(), "foreign");
        let clone = vector.try_clone().expect("from the current resource");
        assert_eq!(clone.resource().name(), "cuda");
        vector.resize(2 * LEN).expect("from the current resource");
        assert_eq!(vector.resource().name(), "cuda");
        assert_eq!(vector.to_vec().expect("a copy")[..LEN], [3; LEN]);
        let mut shorter = Theirs::new(&own, 4).adopt(&own);
        shorter.resize(7).expect("in place");
        assert_eq!(shorter.resource().name(), "foreign");
        shorter.shrink_to_fit().expect("from the current resource");
        assert_eq!((shorter.resource().name(), shorter.capacity()), ("cuda", 7));
        assert_eq!(shorter.to_vec().expect("a copy"), [4; 7]);
    });
}

#[test]
fn twin_a_wrong_ready_stream_is_reported() {
    let reported = report(|_| {
        let (own, other) = (stream(), stream());
        let theirs = Theirs::new(&own, 3);
        let mut vector = theirs.adopt(&other); // without `other.wait_for(&own)`
        vector.fill(1).expect("a fill");
    });
    assert!(reported.contains("race: 1024 bytes"), "{reported}");
}

#[test]
fn twin_a_free_on_another_stream_than_named_is_reported() {
    let reported = report(|_| {
        let (own, other) = (stream(), stream());
        let theirs = Theirs::new(&own, 3);
        let pointer = theirs.pointer;
        let free = move |_: StreamRef<'_>| {
            let stream = theirs.stream.clone();
            theirs.free_on(stream.as_raw()); // without `stream.wait_for(last)`
        };
        // SAFETY: not kept, which is what this shows.
        let vector = unsafe { DeviceUVector::from_foreign(pointer, LEN, &own, free) };
        let mut vector: DeviceUVector<u8> = vector.expect("a vector");
        vector.set_stream(&other).expect("it waits");
        vector.fill(1).expect("a fill");
    });
    assert!(reported.contains("while in use"), "{reported}");
}

#[test]
fn the_function_is_called_once_and_late() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let (own, calls) = (stream(), Arc::new(AtomicUsize::new(0)));
    let count = || calls.load(Ordering::Relaxed);
    let memory = DeviceBuffer::zeroed(LEN, &own).expect("a buffer");
    // SAFETY: `memory` outlives both buffers, and is freed on the same stream.
    let adopt = || unsafe {
        DeviceBuffer::from_foreign(memory.as_ptr(), LEN, &own, counted(&calls)).expect("a buffer")
    };
    let (first, kept) = (adopt(), Arc::downgrade(&calls));
    assert_eq!(
        (first.alignment(), first.capacity(), first.context()),
        (256, LEN, memory.context())
    );
    assert!(kept.strong_count() > 1, "the function keeps its owner");
    let raw = first.into_raw().expect("no other stream uses it");
    assert_eq!(count(), 0);
    // SAFETY: the parts are used once.
    let again = unsafe { DeviceBuffer::from_raw(raw) };
    assert_eq!(again.resource(), &AnyResource::<rmm_core::DeviceAccessible>::of(again.resource()));
    drop(again);
    assert_eq!((count(), kept.strong_count()), (1, 1));
    let _leaked = ManuallyDrop::new(adopt());
    assert_eq!(count(), 1, "what is leaked is not freed");
    let handle = adopt().resource().clone(); // the buffer is dropped
    assert_eq!(count(), 2);
    assert!(handle.allocate(&own, std::alloc::Layout::new::<u64>()).unwrap_err().is_unsupported());
    drop(handle);
    assert_eq!(count(), 2);
    own.synchronize().expect("the device works");
    let raw = adopt().into_raw().expect("no other stream uses it");
    // SAFETY: no work uses it.
    unsafe { raw.resource().deallocate_sync(raw.as_ptr(), raw.layout()) };
    assert_eq!(count(), 3);
    machine.assert_no_violations();
}

/// Its destructor panics.
struct Bomb;
impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn a_function_that_panics_is_caught() {
    let _machine = rmm_sim::enter();
    let own = stream();
    let memory = DeviceBuffer::zeroed(LEN, &own).expect("a buffer");
    let free = |_: StreamRef<'_>| std::panic::panic_any(Bomb);
    // SAFETY: `memory` outlives the buffer, and is freed on the same stream.
    drop(unsafe { DeviceBuffer::from_foreign(memory.as_ptr(), LEN, &own, free) });
    let bomb = Bomb;
    let free = move |_: StreamRef<'_>| drop(bomb);
    // SAFETY: as above.
    drop(unsafe { DeviceBuffer::from_foreign(memory.as_ptr(), LEN, &own, free) });
}

#[test]
fn what_cannot_be_adopted_stays_the_callers() {
    let _machine = rmm_sim::enter();
    let (own, calls) = (stream(), Arc::new(AtomicUsize::new(0)));
    let adopt = |pointer: u64, len| {
        // SAFETY: the memory is neither used nor freed.
        unsafe {
            DeviceUVector::<u32>::from_foreign(DevicePtr(pointer), len, &own, counted(&calls))
        }
    };
    let kind = |refused: Result<_, Error>| refused.map(drop).expect_err("refused").kind();
    assert_eq!(kind(adopt(0, 4)), ErrorKind::InvalidArgument);
    assert_eq!(kind(adopt(1026, 4)), ErrorKind::InvalidArgument);
    assert_eq!(kind(adopt(1024, usize::MAX / 8)), ErrorKind::InvalidArgument);
    assert_eq!((calls.load(Ordering::Relaxed), Arc::strong_count(&calls)), (0, 1));
    // An empty array is freed at once: no container of no bytes frees memory.
    let mut empty = adopt(0, 0).expect("an empty vector");
    assert_eq!((calls.load(Ordering::Relaxed), empty.len()), (1, 0));
    empty.resize(10).expect("from the current resource");
    let odd = adopt(1028, 1).expect("aligned for `u32`");
    assert_eq!(odd.alignment(), 4);
    let _leaked = ManuallyDrop::new(odd);
}

/// An element aligned more than the driver's allocations.
#[derive(Clone, Copy)]
#[repr(C, align(1024))]
struct Page([u8; 1024]);
// SAFETY: zeros are a value.
unsafe impl bytemuck::Zeroable for Page {}
// SAFETY: any bits are a value, and there is no padding.
unsafe impl bytemuck::Pod for Page {}

#[test]
fn elements_of_large_alignment_are_adopted() {
    let _machine = rmm_sim::enter();
    let own = stream();
    // SAFETY: the memory is neither used nor freed.
    let vector = unsafe { DeviceUVector::<Page>::from_foreign(DevicePtr(4096), 1, &own, |_| ()) };
    let buffer = vector.expect("a vector").into_buffer();
    assert_eq!(buffer.alignment(), 1024);
    assert!(DeviceUVector::<Page>::try_from_buffer(buffer).is_ok());
}

#[test]
fn memory_of_a_reset_context_is_not_freed_again() {
    let _machine = rmm_sim::enter();
    let calls = Arc::new(AtomicUsize::new(0));
    for own in [stream(), CudaStream::legacy()] {
        let memory = DeviceBuffer::zeroed(LEN, &own).expect("a buffer");
        // SAFETY: `memory` outlives the buffer.
        let adopted =
            unsafe { DeviceBuffer::from_foreign(memory.as_ptr(), LEN, &own, counted(&calls)) };
        let device = Device::new(0).expect("a device").as_raw();
        // SAFETY: the library supports a reset followed by drops.
        let code = unsafe { rmm_sim::driver().cuDevicePrimaryCtxReset_v2(device) };
        assert_eq!(code, CuResult::SUCCESS);
        drop((adopted, memory));
        let is_dropped = Arc::strong_count(&calls) == 1;
        assert_eq!((calls.load(Ordering::Relaxed), is_dropped), (0, true), "{own:?}");
        let _next = Device::new(0).and_then(Device::make_current).expect("the device works");
    }
}

#[test]
fn nothing_is_called_once_the_driver_is_gone() {
    let machine = rmm_sim::enter();
    let (own, calls) = (stream(), Arc::new(AtomicUsize::new(0)));
    let memory = DeviceBuffer::zeroed(LEN, &own).expect("a buffer");
    // SAFETY: `memory` outlives the buffer.
    let adopted =
        unsafe { DeviceBuffer::from_foreign(memory.as_ptr(), LEN, &own, counted(&calls)) };
    machine.kill();
    drop((adopted, memory));
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert_eq!(
        Arc::strong_count(&calls),
        2,
        "the owner is leaked: its destructor may call the driver"
    );
}

/// A buffer of the pool that work on another stream uses.
fn used_elsewhere(machine: &Machine, own: &CudaStream, other: &CudaStream) -> DeviceBuffer {
    let mut buffer = DeviceBuffer::uninit_in(LEN, own, &pool()).expect("a buffer");
    let used = buffer.use_on_mut(other).expect("the stream waits");
    write(machine, other, used.as_ptr());
    buffer
}

fn pool() -> PoolMemoryResource {
    PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool")
}

#[test]
fn parts_are_freed_after_all_uses() {
    rmm_sim::check(|machine| {
        let (own, other) = (stream(), stream());
        let raw = used_elsewhere(machine, &own, &other).into_raw().expect("the stream waits");
        let (pointer, layout) = (raw.as_ptr(), raw.layout());
        // SAFETY: the memory is freed before the handle is dropped.
        let resource = unsafe { raw.into_resource() };
        // SAFETY: it is allocated with this layout, and its stream is ordered after all uses.
        unsafe { resource.deallocate(&own, pointer, layout) };
    });
}

#[test]
fn parts_become_a_container_again() {
    rmm_sim::check(|machine| {
        let (own, other) = (stream(), stream());
        let raw = used_elsewhere(machine, &own, &other).into_raw().expect("the stream waits");
        assert_eq!((raw.len(), raw.is_empty(), raw.stream()), (LEN, false, &own));
        // SAFETY: the parts are used once.
        let mut buffer = unsafe { DeviceBuffer::from_raw(raw) };
        buffer.fill(7).expect("a fill"); // without another wait
        assert_eq!(buffer.to_vec_on(&other).expect("a copy"), [7; LEN]);
        let elements = DeviceUVector::<u32>::try_from_buffer(buffer).expect("it is aligned");
        let buffer = elements.into_buffer();
        assert!(buffer.resource().find::<PoolMemoryResource>().is_some());
    });
}

#[test]
fn twin_parts_that_did_not_wait_are_reported() {
    let reported = report(|machine| {
        let (own, other) = (stream(), stream());
        let buffer = used_elsewhere(machine, &own, &other);
        let (resource, pointer) = (buffer.resource().clone(), buffer.as_ptr());
        let layout = std::alloc::Layout::from_size_align(LEN, 256).expect("a layout");
        let _leaked = ManuallyDrop::new(buffer); // instead of `into_raw`
        // SAFETY: not kept, which is what this shows.
        unsafe { resource.deallocate(&own, pointer, layout) };
    });
    assert!(reported.contains("while in use"), "{reported}");
}

#[test]
fn parts_that_are_dropped_keep_the_resource() {
    rmm_sim::Checker::new().leaks(false).run(|machine| {
        let (own, other) = (stream(), stream());
        // The last handle to the pool: dropped, it would free the memory under the kernel.
        drop(used_elsewhere(machine, &own, &other).into_raw());
    });
}

#[test]
fn parts_must_fit_their_layout() {
    let _machine = rmm_sim::enter();
    let (own, layout) = (stream(), std::alloc::Layout::from_size_align(16, 256).expect("a layout"));
    let resource = || AnyResource::new(CudaMemoryResource::new());
    let refused = RawBuffer::new(DevicePtr(1024), layout, 17, &own, resource());
    assert_eq!(refused.expect_err("too long").kind(), ErrorKind::InvalidArgument);
    assert!(RawBuffer::new(DevicePtr(1024), layout, 16, &own, resource()).is_ok());
}

#[test]
fn a_borrowed_slice_is_joined_into_its_stream() {
    rmm_sim::check(|machine| {
        let (own, other, third) = (stream(), stream(), stream());
        let theirs = Theirs::new(&own, 3);
        // SAFETY: the memory has these bytes and nothing else uses it during the call.
        let read = unsafe {
            DeviceSlice::<u8>::with_foreign(theirs.pointer, LEN, &own, |bytes| {
                let used = bytes.use_on(&third).expect("the stream waits");
                let kernel = Kernel::new("read", |_| ()).reads(used.as_ptr(), LEN);
                machine.launch(third.as_raw(), kernel).expect("it is the device's");
                let _leaked = ManuallyDrop::new(used);
                bytes.to_vec_on(&other)
            })
        };
        assert_eq!(read.expect("no capture").expect("a copy"), [3; LEN]);
        // SAFETY: as above.
        let filled = unsafe {
            DeviceSliceMut::<u8>::with_foreign(theirs.pointer, LEN, &own, |bytes| {
                let (mut left, mut right) = bytes.split_at(LEN / 2)?;
                left.fill_on(1, &other)?;
                right.fill_on(2, &third)
            })
        };
        filled.expect("no capture").expect("two fills");
        theirs.free_on(own.as_raw());
    });
}

#[test]
fn a_borrowed_slice_is_joined_after_a_panic() {
    rmm_sim::check(|_| {
        let (own, other) = (stream(), stream());
        let theirs = Theirs::new(&own, 3);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the memory has these bytes and nothing else uses it during the call.
            unsafe {
                DeviceSliceMut::<u8>::with_foreign(theirs.pointer, LEN, &own, |mut bytes| {
                    bytes.fill_on(1, &other).expect("a fill");
                    panic!("in the middle");
                })
            }
        }));
        assert!(panicked.is_err());
        theirs.free_on(own.as_raw());
    });
}

#[test]
fn twin_a_borrow_without_an_end_is_reported() {
    let reported = report(|_| {
        let (own, other) = (stream(), stream());
        let theirs = Theirs::new(&own, 3);
        // SAFETY: not kept, which is what this shows.
        let adopted = unsafe { DeviceBuffer::from_foreign(theirs.pointer, LEN, &own, |_| ()) };
        let mut adopted = adopted.expect("a buffer");
        adopted.as_slice_mut().fill_on(1, &other).expect("a fill");
        let _leaked = ManuallyDrop::new(adopted); // a guard that is leaked does not join
        theirs.free_on(own.as_raw());
    });
    assert!(reported.contains("while in use"), "{reported}");
}

#[test]
fn what_cannot_be_borrowed_is_refused() {
    let _machine = rmm_sim::enter();
    let own = stream();
    let borrow = |pointer: u64, len: usize| {
        // SAFETY: the program uses nothing.
        unsafe { DeviceSlice::<u32>::with_foreign(DevicePtr(pointer), len, &own, |it| it.len()) }
    };
    assert_eq!(borrow(0, 0).expect("nothing"), 0);
    assert_eq!(borrow(1024, 3).expect("no use"), 3);
    for (pointer, len) in [(0, 1), (1026, 1), (1024, usize::MAX / 2)] {
        assert!(borrow(pointer, len).expect_err("refused").is_invalid_argument());
    }
}

#[test]
fn memory_of_a_driver_pool_is_given_away_and_taken_back() {
    rmm_sim::check(|_| {
        let (own, other) = (stream(), stream());
        let resource = CudaAsyncMemoryResource::new().expect("a driver pool");
        let buffer = DeviceBuffer::from_slice_in(b"bytes", &own, &resource).expect("a buffer");
        let raw = buffer.into_raw().expect("the device works");
        // The other library keeps the address; it comes back as the buffer of another stream.
        other.wait_for(&own).expect("an event");
        let (pointer, layout) = (raw.as_ptr(), raw.layout());
        // SAFETY: the handle goes into a buffer of the same memory.
        let resource = unsafe { raw.into_resource() };
        let raw = RawBuffer::new(pointer, layout, 5, &other, resource).expect("the device works");
        // SAFETY: the memory is allocated, and `other` waits for the copy.
        let buffer = unsafe { DeviceBuffer::from_raw(raw) };
        assert_eq!(buffer.to_vec().expect("a copy"), b"bytes");
    });
}

#[test]
fn a_failed_call_leaves_adopted_memory_in_order() {
    let machine = Machine::builder().schedule(Schedule::Lazy);
    let checker = Checker::new().machine(machine).leaks(false);
    let failed = checker.fail_each_call(CuResult::UNKNOWN, |machine| {
        let (own, other, theirs) = machine.without_faults(|| {
            let (own, other) = (stream(), stream());
            let theirs = Theirs::new(&own, 3);
            (own, other, theirs)
        });
        let pointer = theirs.pointer;
        let free = move |last: StreamRef<'_>| theirs.free_on(last.as_raw());
        // SAFETY: the memory has these bytes, this alone uses it from now on, and it is freed in
        // the order of the stream.
        let adopted = unsafe { DeviceBuffer::from_foreign(pointer, LEN, &own, free) };
        let Ok(mut buffer) = adopted else { return };
        // It may fail.
        let _ignored = buffer.as_slice_mut().fill_on(1, &other);
        let _ignored = buffer.try_clone_on(&other);
        let _ignored = buffer.set_stream(&other);
        let _ignored = buffer.as_slice_mut().fill_on(2, &own);
        if let Ok(raw) = buffer.into_raw() {
            // SAFETY: the parts are used once.
            drop(unsafe { DeviceBuffer::from_raw(raw) });
        }
    });
    assert!(failed > 20, "{failed}");
}

#[test]
fn a_failed_call_leaves_borrowed_memory_in_order() {
    let machine = Machine::builder().schedule(Schedule::Lazy);
    let checker = Checker::new().machine(machine).leaks(false);
    let failed = checker.fail_each_call(CuResult::UNKNOWN, |machine| {
        let (own, other, theirs) = machine.without_faults(|| {
            let (own, other) = (stream(), stream());
            let theirs = Theirs::new(&own, 3);
            (own, other, theirs)
        });
        // SAFETY: the memory has these bytes; after an error it is freed when the device is idle.
        let used = unsafe {
            DeviceSliceMut::<u8>::with_foreign(theirs.pointer, LEN, &own, |mut bytes| {
                // It may fail.
                let _ignored = bytes.fill_on(1, &other);
            })
        };
        machine.without_faults(|| {
            if used.is_err() {
                other.synchronize().expect("the device works");
            }
            theirs.free_on(own.as_raw());
        });
    });
    assert!(failed > 5, "{failed}");
}
