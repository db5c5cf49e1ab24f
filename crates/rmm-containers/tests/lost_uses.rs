//! A container whose context is reset while work of another context may use its memory: nothing is
//! unmapped or handed out before that work is complete, whenever the container is dropped.

use std::ptr;

use rmm_adaptors::{
    ArenaMemoryResource, CallbackMemoryResource, FixedSizeMemoryResource, LimitingResourceAdaptor,
    PoolMemoryResource,
};
use rmm_containers::{DeviceBuffer, DeviceUVector, ElasticBuffer};
use rmm_core::{
    AnyResource, CudaStream, Device, DeviceGuard, DevicePtr, ErrorKind, Resource as _, StreamRef,
    SynchronousResource as _,
};
use rmm_resources::VirtualMemoryResource;
use rmm_sim::{Fault, Kernel, Machine, Schedule};
use rmm_sys::{CuContext, CuDevice, CuEvent, CuResult, CuStream};

const MIB: usize = 1 << 20;

fn pages() -> VirtualMemoryResource {
    let other = Device::new(1).expect("a device");
    let builder = VirtualMemoryResource::builder().accessible_from(other);
    builder.build().expect("pages")
}

/// Functions of the program, which wait for the stream, and then free at once.
fn functions() -> CallbackMemoryResource {
    let allocates = pages();
    let frees = allocates.clone();
    let allocate = move |stream: StreamRef<'_>, layout| allocates.allocate(stream, layout);
    let deallocate = move |stream: StreamRef<'_>, pointer: DevicePtr, layout| {
        // If the stream has ended there is nothing to wait for.
        let _ignored = stream.synchronize();
        // SAFETY: it came from the other function, with this layout.
        unsafe { frees.deallocate_sync(pointer, layout) }
    };
    // SAFETY: the functions are those of a resource of device memory.
    unsafe { CallbackMemoryResource::new(allocate, deallocate) }
}

type Make = fn() -> AnyResource;

/// Resources whose memory outlives a context.
const RESOURCES: [(&str, Make); 7] = [
    ("virtual memory", || AnyResource::new(pages())),
    ("a limit", || AnyResource::new(LimitingResourceAdaptor::new(pages(), 64 << 20))),
    ("functions of the program", || AnyResource::new(functions())),
    ("a pool", || AnyResource::new(PoolMemoryResource::builder(pages()).build().expect("a pool"))),
    ("the default pool", || AnyResource::new(rmm_adaptors::default_pool().expect("a pool"))),
    ("an arena", || {
        let builder = ArenaMemoryResource::builder(pages()).arena_size(16 << 20);
        AnyResource::new(builder.build().expect("an arena"))
    }),
    ("fixed-size blocks", || {
        let builder = FixedSizeMemoryResource::builder(pages()).block_size(8 << 20).blocks(2);
        AnyResource::new(builder.build().expect("blocks"))
    }),
];

/// When the container ends.
#[derive(Clone, Copy, Debug)]
enum Drops {
    /// After the reset.
    After,
    /// After the reset, and its stream has waited for the other's work.
    AfterAWait,
    /// Before the reset: its stream waits for the other's work.
    Before,
}

const DROPS: [Drops; 3] = [Drops::After, Drops::AfterAWait, Drops::Before];

/// The other context.
#[derive(Clone, Copy, Debug)]
enum Other {
    /// A second one of the device.
    Second,
    /// Another device's.
    OfDevice,
}

fn reset() {
    let device = Device::new(0).expect("a device").as_raw();
    // SAFETY: the library supports a reset followed by what these tests do.
    let code = unsafe { rmm_sim::driver().cuDevicePrimaryCtxReset_v2(device) };
    assert_eq!(code, CuResult::SUCCESS);
}

/// A stream in the other context, which stays current.
fn stream_in(other: Other) -> (CudaStream, Option<DeviceGuard>) {
    match other {
        Other::Second => {
            let (mut second, device) = (CuContext::NULL, Device::new(0).expect("a device"));
            // SAFETY: `second` may be written to.
            let code = unsafe { rmm_sim::create_context(&raw mut second, 0, device.as_raw()) };
            assert_eq!(code, CuResult::SUCCESS);
            (CudaStream::non_blocking().expect("a stream"), None)
        }
        Other::OfDevice => {
            let current = Device::new(1).and_then(Device::make_current).expect("a device");
            (CudaStream::non_blocking().expect("a stream"), Some(current))
        }
    }
}

/// Resets the device of a container under work of another context. Returns the bytes that stay in
/// use once everything is dropped, and the violations.
fn use_elsewhere(make: Make, drops: Drops, other: Other, wait_fails: bool) -> (u64, Vec<String>) {
    let machine = Machine::builder().devices(2).memory(64 * MIB).schedule(Schedule::Lazy).enter();
    let primary = Device::new(0).and_then(Device::make_current).expect("a device");
    let (resource, own) = (make(), CudaStream::new().expect("a stream"));
    let mut vector = DeviceUVector::<u32>::uninit_in(MIB, &own, &resource).expect("there is room");
    let (elsewhere, current) = stream_in(other);
    let used = vector.use_on_mut(&elsewhere).expect("both contexts work");
    let slow = Kernel::new("slow", |_| ()).writes(used.as_ptr(), used.bytes());
    machine.launch(elsewhere.as_raw(), slow).expect("it is enqueued");
    let vector = match drops {
        Drops::After => Some(vector),
        Drops::AfterAWait => {
            vector.wait_for_other_streams().expect("both contexts work");
            Some(vector)
        }
        Drops::Before => {
            drop(vector);
            None
        }
    };
    reset();
    if wait_fails {
        machine.fail(Fault::from_nth("cuCtxSynchronize", 1, CuResult::UNKNOWN));
    }
    drop((vector, resource, own));
    machine.clear_faults();
    // It runs now at the latest.
    elsewhere.synchronize().expect("its context works");
    drop((elsewhere, current, primary));
    machine.run_all();
    let violations = machine.violations().iter().map(ToString::to_string).collect();
    (machine.memory_in_use(0) as u64, violations)
}

/// Runs all cases. Returns those with violations, and those in which memory stays in use.
fn everywhere(wait_fails: bool) -> (Vec<String>, Vec<String>) {
    let (mut broken, mut left) = (Vec::new(), Vec::new());
    for (name, make) in RESOURCES {
        for drops in DROPS {
            for other in [Other::Second, Other::OfDevice] {
                // The default pool's memory is its own device's.
                if name == "the default pool" && matches!(other, Other::OfDevice) {
                    continue;
                }
                let case = format!("{name}, {drops:?}, {other:?}");
                let (bytes, violations) = use_elsewhere(make, drops, other, wait_fails);
                broken.extend(violations.iter().map(|it| format!("{case}: {it}")));
                if bytes > 0 {
                    left.push(format!("{case}: {bytes}"));
                }
            }
        }
    }
    (broken, left)
}

#[test]
fn memory_is_kept_until_other_contexts_have_used_it() {
    let nothing: (Vec<String>, Vec<String>) = Default::default();
    assert_eq!(everywhere(false), nothing);
}

#[test]
fn a_range_that_an_ended_context_has_used_can_be_decommitted() {
    let machine = Machine::builder().devices(2).memory(64 * MIB).schedule(Schedule::Lazy).enter();
    let (own, pages) = (CudaStream::non_blocking().expect("a stream"), pages());
    let mut buffer = ElasticBuffer::reserve(2 * MIB, &own, &pages).expect("addresses");
    buffer.commit(0..2 * MIB).expect("there is room");
    let (elsewhere, _current) = stream_in(Other::OfDevice);
    for stream in [&own, &elsewhere] {
        // The second one waits for the first one, which is then known no more.
        let used = buffer.slice_mut(0..MIB).expect("it is committed").into_use_on(stream);
        let used = used.expect("both contexts work");
        let slow = Kernel::new("slow", |_| ()).writes(used.as_ptr(), used.bytes());
        machine.launch(stream.as_raw(), slow).expect("it is enqueued");
    }
    // SAFETY: the library supports a reset followed by what this test does.
    let code = unsafe { rmm_sim::driver().cuDevicePrimaryCtxReset_v2(CuDevice(1)) };
    assert_eq!(code, CuResult::SUCCESS);
    let error = buffer.decommit(0..2 * MIB).expect_err("the first one may be running");
    assert_eq!(error.kind(), ErrorKind::NotReady);
    assert_eq!(buffer.decommit_blocking(0..2 * MIB).expect("it is over"), 2 * MIB);
    buffer.commit(0..2 * MIB).expect("there is room");
    assert_eq!(buffer.decommit(0..2 * MIB).expect("nothing uses it"), 2 * MIB);
    drop(buffer);
    machine.run_all();
    machine.assert_no_violations();
}

#[test]
fn memory_that_others_may_use_stays_if_a_wait_fails() {
    let (broken, left) = everywhere(true);
    assert_eq!((broken, left.is_empty()), (Vec::new(), false));
}

/// Work of another library on the second device, whose context this one has not seen: writes to
/// memory, for which a stream waits.
fn write_unseen(machine: &Machine, memory: (DevicePtr, usize), waits: &CudaStream) {
    let driver = rmm_sim::driver();
    let (mut context, mut before) = (CuContext::NULL, CuContext::NULL);
    let (mut stream, mut event) = (CuStream::from_raw(ptr::null_mut()), CuEvent::NULL);
    // SAFETY: the place may be written to.
    let asked = unsafe { driver.cuCtxGetCurrent(&raw mut before) };
    // SAFETY: the place may be written to.
    let retained = unsafe { driver.cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(1)) };
    // SAFETY: it was retained just now.
    let entered = unsafe { driver.cuCtxSetCurrent(context) };
    // SAFETY: the place may be written to.
    let made = unsafe { driver.cuStreamCreateWithPriority(&raw mut stream, 1, 0) };
    // SAFETY: the place may be written to.
    let marked = unsafe { driver.cuEventCreate(&raw mut event, 0) };
    // SAFETY: it was current before.
    let left = unsafe { driver.cuCtxSetCurrent(before) };
    assert_eq!([asked, retained, entered, made, marked, left], [CuResult::SUCCESS; 6]);
    let slow = Kernel::new("unseen", |_| ()).writes(memory.0, memory.1);
    machine.launch(stream, slow).expect("it is enqueued");
    // SAFETY: the stream and the event exist.
    let recorded = unsafe { driver.cuEventRecord(event, stream) };
    // SAFETY: as above.
    let waited = unsafe { driver.cuStreamWaitEvent(waits.as_raw(), event, 0) };
    assert_eq!([recorded, waited], [CuResult::SUCCESS; 2]);
}

/// Resets the device of a container that the work of another library uses. Returns what
/// [`use_elsewhere`] does.
fn use_unseen<C, R>(
    make: impl FnOnce(&CudaStream) -> (C, R, DevicePtr),
    drops: Drops,
) -> (u64, Vec<String>) {
    let machine = Machine::builder().devices(2).memory(64 * MIB).schedule(Schedule::Lazy).enter();
    let own = CudaStream::new().expect("a stream");
    let (container, resource, pointer) = make(&own);
    write_unseen(&machine, (pointer, MIB), &own);
    let container = (!matches!(drops, Drops::Before)).then_some(container);
    reset();
    drop((container, resource, own));
    machine.run_all();
    let violations = machine.violations().iter().map(ToString::to_string).collect();
    (machine.memory_in_use(0) as u64, violations)
}

#[test]
fn memory_is_kept_until_other_libraries_have_used_it() {
    let nothing = (0, Vec::new());
    for (name, make) in RESOURCES.into_iter().filter(|(name, _)| *name != "the default pool") {
        for drops in [Drops::Before, Drops::After] {
            let make = |own: &CudaStream| {
                let resource = make();
                let buffer = DeviceBuffer::uninit_in(MIB, own, &resource).expect("there is room");
                let pointer = buffer.as_ptr();
                (buffer, resource, pointer)
            };
            assert_eq!(use_unseen(make, drops), nothing, "{name}, {drops:?}");
        }
    }
    let make = |own: &CudaStream| {
        let resource = pages();
        let mut buffer = ElasticBuffer::reserve(2 * MIB, own, &resource).expect("addresses");
        buffer.commit(0..2 * MIB).expect("there is room");
        let used = buffer.slice_mut(0..2 * MIB).expect("it is committed").into_use_on(own);
        let pointer = used.expect("both contexts work").as_ptr();
        (buffer, resource, pointer)
    };
    assert_eq!(use_unseen(make, Drops::After), nothing);
}
