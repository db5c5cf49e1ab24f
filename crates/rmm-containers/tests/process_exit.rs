//! Process exit with pools and buffers in statics and thread-locals: each way out is clean, and no
//! call reaches the driver after it may have shut down.
//!
//! RMM #2366, #2202: the pool in the registry was destroyed after the driver, and the process
//! crashed.

#![cfg(unix)]

use std::cell::RefCell;
use std::io::{Write as _, stderr};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceBuffer, DeviceUVector, PinnedVec};
use rmm_core::{
    AnyResource, Context, ContextGuard, CudaEvent, CudaStream, CudaStreamPool, DevicePtr,
    StreamFlags, process_is_exiting,
};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, set_current_device_resource};
use rmm_sim::Machine;

/// How the program, started by its own test, exits: see [`WAYS`].
const HOW: &str = "RMM_TEST_LEAVE_BY";
/// Whether the driver shuts down first.
const DRIVER_GOES_FIRST: &str = "RMM_TEST_DRIVER_GOES_FIRST";
/// The ways out, and the exit status of each.
const WAYS: [(&str, i32); 3] = [("return", 0), ("exit", 7), ("panic", 101)];
/// The exit status if a check at the very end fails.
const WRONG: i32 = 42;

type Pool = PoolMemoryResource;

/// Values that are dropped at the very end, the pool last.
#[expect(dead_code, reason = "they are there to be dropped")]
struct Kept {
    buffer: DeviceBuffer,
    vector: DeviceUVector<u32>,
    driver_buffer: DeviceBuffer,
    /// A copy from it is pending.
    pinned: PinnedVec<u32>,
    /// Over memory of another library.
    foreign: DeviceBuffer,
    /// The last handle to such memory.
    foreign_resource: AnyResource,
    event: CudaEvent,
    stream: CudaStream,
    streams: CudaStreamPool,
    /// Also the current resource.
    pool: Pool,
    /// No other handle exists.
    own_pool: Pool,
}

static MACHINE: OnceLock<Machine> = OnceLock::new();
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);
/// Whether the other library's function was called, or its owner dropped.
static FREED: AtomicBool = AtomicBool::new(false);

/// The owner of memory of another library.
struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        FREED.store(true, Ordering::Relaxed);
    }
}

thread_local! {
    static OF_THREAD: RefCell<Vec<DeviceBuffer>> = const { RefCell::new(Vec::new()) };
}

/// Registered before the library's own exit handler, so it runs after it: when a driver that was
/// loaded early is unloaded, and C++ destroys its statics.
extern "C" fn at_the_very_end() {
    let Some(machine) = MACHINE.get() else { return };
    let calls = machine.calls();
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).take();
    // The thread-locals were dropped when the thread ended, and freed their memory if the driver
    // had not shut down.
    let live = kept.as_ref().map(|kept| kept.pool.statistics());
    let live = live.map(|statistics| statistics.allocations - statistics.frees);
    let expected = if std::env::var_os(DRIVER_GOES_FIRST).is_some() { 3 } else { 2 };
    drop(kept);
    let called = machine.calls() - calls;
    let is_freed = FREED.load(Ordering::Relaxed);
    if !process_is_exiting() || called != 0 || live != Some(expected) || is_freed {
        let exiting = process_is_exiting();
        // The exit status reports it, too.
        let _unsaid = writeln!(
            stderr(),
            "exiting: {exiting}, {called} calls, {live:?} live, freed: {is_freed}"
        );
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(WRONG) };
    }
}

fn fill_all_places() -> Result<(), rmm_core::Error> {
    let pool = Pool::builder(CudaMemoryResource::new()).initial_size(1 << 20).build()?;
    set_current_device_resource(&pool)?;
    let from_driver = CudaAsyncMemoryResource::new()?;
    let streams = CudaStreamPool::new(2, StreamFlags::NON_BLOCKING)?;
    let stream = CudaStream::new()?;
    let event = CudaEvent::new()?;
    event.record(&stream)?;
    let mut buffer = DeviceBuffer::uninit_in(1000, &stream, &pool)?;
    buffer.fill(1)?;
    let of_thread = [
        DeviceBuffer::from_slice_in(b"thread", streams.get(), &pool)?,
        DeviceBuffer::from_slice_in(b"driver", streams.get(), &from_driver)?,
    ];
    OF_THREAD.with_borrow_mut(|kept| kept.extend(of_thread));
    let pinned = PinnedVec::from_slice(&[1, 2, 3])?;
    let vector = pinned.device_slice().to_vector(&stream)?;
    let adopt = |owner: Owner| {
        // SAFETY: the memory is never used or freed.
        unsafe { DeviceBuffer::from_foreign(DevicePtr(1 << 20), 1000, &stream, |_| drop(owner)) }
    };
    let (foreign, parts) = (adopt(Owner)?, adopt(Owner)?.into_raw()?);
    // SAFETY: the memory is never used.
    let foreign_resource = unsafe { parts.into_resource() };
    let kept = Kept {
        buffer,
        vector,
        pinned,
        driver_buffer: DeviceBuffer::uninit_in(1000, &stream, &from_driver)?,
        foreign,
        foreign_resource,
        event,
        stream,
        streams,
        pool,
        own_pool: Pool::builder(CudaMemoryResource::new()).initial_size(1 << 20).build()?,
    };
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
    Ok(())
}

/// The started program. Without the variable it is an empty test.
#[test]
fn leave() {
    let Ok(how) = std::env::var(HOW) else { return };
    // SAFETY: the handler is a function that does not unwind.
    assert_eq!(unsafe { libc::atexit(at_the_very_end) }, 0);
    let machine = MACHINE.get_or_init(Machine::new);
    let _entered = machine.enter();
    fill_all_places().expect("the places are filled");
    let _guard: ContextGuard = Context::current().and_then(Context::enter).expect("a context");
    let _local = DeviceBuffer::uninit_in(
        1000,
        &CudaStream::new().expect("a stream"),
        &CudaMemoryResource::new(),
    );
    if std::env::var_os(DRIVER_GOES_FIRST).is_some() {
        machine.kill();
    }
    match how.as_str() {
        "return" => {}
        "exit" => std::process::exit(7),
        other => panic!("leaves by {other}"),
    }
}

fn leaves(how: &str, driver_goes_first: bool) -> Output {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", "leave", "--nocapture", "--test-threads=1"]).env(HOW, how);
    if driver_goes_first {
        command.env(DRIVER_GOES_FIRST, "1");
    }
    command.output().expect("the program runs")
}

#[test]
fn every_way_out_is_clean() {
    for (how, status) in WAYS {
        let output = leaves(how, false);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{how}: {:?}\n{said}", output.status);
    }
}

#[test]
fn every_way_out_is_clean_after_the_driver_shut_down() {
    for (how, status) in WAYS {
        let output = leaves(how, true);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{how}: {:?}\n{said}", output.status);
    }
}
