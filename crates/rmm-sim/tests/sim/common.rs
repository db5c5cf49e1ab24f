//! Test support: a machine to start with, and driver calls in one line each.

use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use rmm_sim::{Kernel, Machine, MachineGuard, Schedule};
use rmm_sys::{
    CuContext, CuDevice, CuDevicePtr, CuEvent, CuMemPool, CuResult, CuStream, STREAM_DEFAULT,
    STREAM_NON_BLOCKING,
};

/// Calls a driver function and returns its code.
macro_rules! cu {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let driver = rmm_sim::driver();
        // SAFETY: the tests pass places that live until the call returns, and for work on host
        // memory until it ran.
        unsafe { driver.$name($($argument),*) }
    }};
}

/// Calls a driver function that succeeds.
macro_rules! ok {
    ($name:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(cu!($name($($argument),*)), rmm_sys::CuResult::SUCCESS)
    };
}

pub(crate) const MIB: usize = 1 << 20;

/// A machine of one device, entered, with its context current.
pub(crate) fn start(schedule: Schedule) -> (Machine, MachineGuard) {
    enter(Machine::builder().schedule(schedule).build())
}

/// Enters a machine and makes the context of its first device current.
pub(crate) fn enter(machine: Machine) -> (Machine, MachineGuard) {
    let entered = machine.enter();
    ok!(cuInit(0));
    let mut context = CuContext::NULL;
    ok!(cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(0)));
    ok!(cuCtxSetCurrent(context));
    (machine, entered)
}

pub(crate) fn stream() -> CuStream {
    stream_with(STREAM_NON_BLOCKING)
}

pub(crate) fn blocking_stream() -> CuStream {
    stream_with(STREAM_DEFAULT)
}

fn stream_with(flags: u32) -> CuStream {
    let mut stream = CuStream::NULL;
    ok!(cuStreamCreateWithPriority(&raw mut stream, flags, 0));
    stream
}

pub(crate) fn event() -> CuEvent {
    let mut event = CuEvent::NULL;
    ok!(cuEventCreate(&raw mut event, 0));
    event
}

/// The current context.
pub(crate) fn context() -> CuContext {
    let mut context = CuContext::NULL;
    ok!(cuCtxGetCurrent(&raw mut context));
    context
}

/// The default pool of the first device.
pub(crate) fn default_pool() -> CuMemPool {
    let mut pool = CuMemPool::NULL;
    ok!(cuDeviceGetDefaultMemPool(&raw mut pool, CuDevice(0)));
    pool
}

/// Memory of `cuMemAlloc_v2`.
pub(crate) fn alloc(bytes: usize) -> CuDevicePtr {
    let mut pointer = CuDevicePtr::NULL;
    ok!(cuMemAlloc_v2(&raw mut pointer, bytes));
    pointer
}

/// Memory from the current pool.
pub(crate) fn alloc_async(bytes: usize, stream: CuStream) -> CuDevicePtr {
    try_alloc_async(bytes, stream).expect("there is memory")
}

pub(crate) fn try_alloc_async(bytes: usize, stream: CuStream) -> Result<CuDevicePtr, CuResult> {
    let mut pointer = CuDevicePtr::NULL;
    cu!(cuMemAllocAsync(&raw mut pointer, bytes, stream)).result().map(|()| pointer)
}

/// Pinned memory.
pub(crate) fn pinned(bytes: usize) -> *mut u8 {
    let mut pointer = std::ptr::null_mut::<c_void>();
    ok!(cuMemHostAlloc(&raw mut pointer, bytes, 0));
    pointer.cast()
}

pub(crate) fn peek(machine: &Machine, pointer: CuDevicePtr) -> u8 {
    let mut byte = [0];
    // SAFETY: the tests hold no borrow of memory of the device.
    unsafe { machine.read_shared(pointer, &mut byte) }.expect("it is allocated");
    byte[0]
}

/// A log of what ran, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u32>>>);

impl Log {
    /// Enqueues a host function that logs `number`.
    pub(crate) fn enqueue(&self, machine: &Machine, stream: CuStream, number: u32) {
        let log = self.0.clone();
        machine
            .launch(
                stream,
                Kernel::new("log", move |_| log.lock().expect("no holder panics").push(number)),
            )
            .expect("the stream is the machine's");
    }

    pub(crate) fn seen(&self) -> Vec<u32> {
        self.0.lock().expect("no holder panics").clone()
    }
}

/// A small program on several streams, deterministic but for the schedule.
pub(crate) fn program(machine: &Machine) {
    let streams = [stream(), blocking_stream(), stream()];
    let event = event();
    for round in 0..20_u8 {
        let [a, b, c] = streams;
        let memory = alloc_async(1000 * (usize::from(round) + 1), a);
        ok!(cuMemsetD8Async(memory, round, 1000, a));
        ok!(cuEventRecord(event, a));
        ok!(cuStreamWaitEvent(b, event, 0));
        ok!(cuMemsetD8Async(memory, round, 500, b));
        ok!(cuMemFreeAsync(memory, b));
        let _ = cu!(cuStreamQuery(c));
        machine.launch(c, Kernel::new("nothing", |_| ())).expect("the stream is the machine's");
    }
    ok!(cuCtxSynchronize());
    for stream in streams {
        ok!(cuStreamDestroy_v2(stream));
    }
    ok!(cuEventDestroy_v2(event));
}
