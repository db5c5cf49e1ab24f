//! Programs that leave with pools and buffers in places that live to the end: each way out is
//! clean, and nothing calls the driver once it may be gone.
//!
//! RMM #2366, #2202: the pool in the registry was destroyed after the driver, and the process
//! crashed.

#![cfg(unix)]

use std::cell::RefCell;
use std::io::{Write as _, stderr};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceBuffer, DeviceUVector};
use rmm_core::{
    Context, ContextGuard, CudaEvent, CudaStream, CudaStreamPool, StreamFlags, process_is_exiting,
};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, set_current_device_resource};
use rmm_sim::Machine;

/// How this program, started by itself, is to leave: see [`WAYS`].
const HOW: &str = "RMM_TEST_LEAVE_BY";
/// Whether the driver goes before.
const DRIVER_GOES_FIRST: &str = "RMM_TEST_DRIVER_GOES_FIRST";
/// The ways out, and the status that each gives.
const WAYS: [(&str, i32); 3] = [("return", 0), ("exit", 7), ("panic", 101)];
/// The status of a program in which something is wrong at the very end.
const WRONG: i32 = 42;

type Pool = PoolMemoryResource<CudaMemoryResource>;

/// What is dropped last of all. The pool comes last, as it would in a program.
#[expect(dead_code, reason = "they are there to be dropped")]
struct Kept {
    buffer: DeviceBuffer,
    vector: DeviceUVector<u32>,
    driver_buffer: DeviceBuffer,
    event: CudaEvent,
    stream: CudaStream,
    streams: CudaStreamPool,
    /// The registry has it too.
    pool: Pool,
    /// Nobody else has it.
    own_pool: Pool,
}

static MACHINE: OnceLock<Machine> = OnceLock::new();
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

thread_local! {
    static OF_THREAD: RefCell<Vec<DeviceBuffer>> = const { RefCell::new(Vec::new()) };
}

/// Registered before the library has made anything, so it runs after the library has noticed the
/// end: where a driver that was loaded early is unloaded, and where C++ destroys its statics.
extern "C" fn at_the_very_end() {
    let Some(machine) = MACHINE.get() else { return };
    let calls = machine.calls();
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).take();
    // What the thread kept was given back when it ended, as long as there was a driver.
    let live = kept.as_ref().map(|kept| kept.pool.statistics());
    let live = live.map(|statistics| statistics.allocations - statistics.frees);
    let expected = if std::env::var_os(DRIVER_GOES_FIRST).is_some() { 3 } else { 2 };
    drop(kept);
    let called = machine.calls() - calls;
    if !process_is_exiting() || called != 0 || live != Some(expected) {
        let exiting = process_is_exiting();
        // If this cannot be said either, the status says it.
        let _unsaid = writeln!(stderr(), "exiting: {exiting}, {called} calls, {live:?} live");
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(WRONG) };
    }
}

fn fill_every_place() -> Result<(), rmm_core::Error> {
    let pool = Pool::builder(CudaMemoryResource::new()).initial_size(1 << 20).build()?;
    set_current_device_resource(&pool)?;
    let from_driver = CudaAsyncMemoryResource::new()?;
    let streams = CudaStreamPool::new(2, StreamFlags::NON_BLOCKING)?;
    let stream = CudaStream::new()?;
    let event = CudaEvent::new()?;
    event.record(stream.as_ref())?;
    let mut buffer = DeviceBuffer::uninit_in(1000, &stream, &pool)?;
    buffer.fill(1)?;
    let of_thread = [
        DeviceBuffer::from_slice_in(b"thread", streams.get(), &pool)?,
        DeviceBuffer::from_slice_in(b"driver", streams.get(), &from_driver)?,
    ];
    OF_THREAD.with_borrow_mut(|kept| kept.extend(of_thread));
    let kept = Kept {
        buffer,
        vector: DeviceUVector::from_slice(&[1, 2, 3], &stream)?,
        driver_buffer: DeviceBuffer::uninit_in(1000, &stream, &from_driver)?,
        event,
        stream,
        streams,
        pool,
        own_pool: Pool::builder(CudaMemoryResource::new()).initial_size(1 << 20).build()?,
    };
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
    Ok(())
}

/// What the started program does; without the variable there is nothing to do.
#[test]
fn leave() {
    let Ok(how) = std::env::var(HOW) else { return };
    // SAFETY: the handler is a function that does not unwind.
    assert_eq!(unsafe { libc::atexit(at_the_very_end) }, 0);
    let machine = MACHINE.get_or_init(Machine::new);
    let _entered = machine.enter();
    fill_every_place().expect("every place is filled");
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
fn a_driver_that_went_first_changes_nothing() {
    for (how, status) in WAYS {
        let output = leaves(how, true);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{how}: {:?}\n{said}", output.status);
    }
}
