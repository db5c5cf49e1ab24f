//! Programs that leave with blocks of a suballocator in statics and in the values of threads: each
//! way out ends in time, with the status that the program chose and without a word.
//!
//! Every program has a handler that was registered before the driver started, and so runs when the
//! driver has gone: it drops what the statics hold, as C++ would.

use std::cell::{Cell, RefCell};
use std::io::{Read as _, Write as _, stderr};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rmm_conformance::{DeviceHandle, Environment, Failure, Place};
use rmm_containers::DeviceBuffer;
use rmm_core::{AnyResource, CudaStream, Error, StreamFlags, StreamRef, process_is_exiting};
use rmm_resources::set_current_device_resource;
use rmm_sim::Machine;

use super::kinds;
use crate::run::in_places_with;

/// Set for the program that leaves: the suballocator's name and the way out.
const LEAVE: &str = "RMM_TEST_LEAVE_WITH";
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// The status of a program in which something is wrong at the very end.
const WRONG: i32 = 42;

/// A way out, and the status of a program that takes it.
const WAYS: [(&str, i32); 7] = [
    ("return", 0),
    ("exit", 7),
    ("panic", 101),
    // As `return`; the handler drops the resource before the blocks from it.
    ("resource-first", 0),
    // As `return`, after a thread has ended whose values held blocks.
    ("thread-ended", 0),
    // As `exit`, while a thread is there whose values hold blocks.
    ("thread-stays", 7),
    // As `return`, when all calls of the driver fail already. Only the software device can go so
    // early.
    ("driver-first", 0),
];

/// What the statics hold.
struct Kept {
    resource: Option<AnyResource>,
    buffers: Vec<DeviceBuffer>,
    resource_goes_first: bool,
}

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);
static MACHINE: OnceLock<Machine> = OnceLock::new();
static IS_SET_UP: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Initialised before the thread has used the resource.
    static EARLY: RefCell<Vec<DeviceBuffer>> = const { RefCell::new(Vec::new()) };
    /// Initialised when the thread has used the resource.
    static LATE: RefCell<Vec<DeviceBuffer>> = const { RefCell::new(Vec::new()) };
}

/// Runs after the driver's own handler, which is registered later.
extern "C" fn at_the_very_end() {
    let calls = MACHINE.get().map(Machine::calls);
    if let Some(mut kept) = KEPT.lock().unwrap_or_else(PoisonError::into_inner).take() {
        if kept.resource_goes_first {
            kept.resource = None;
        }
        kept.buffers.clear();
    }
    let called = MACHINE.get().map(Machine::calls) != calls;
    if called || !process_is_exiting() || !IS_SET_UP.load(Ordering::Relaxed) {
        // If this cannot be said, the status says it.
        let _unsaid = writeln!(stderr(), "called: {called}, exiting: {}", process_is_exiting());
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(WRONG) };
    }
}

/// A block that the stream has work to do on.
fn busy(
    resource: &AnyResource,
    stream: StreamRef<'_>,
    bytes: usize,
) -> Result<DeviceBuffer, Error> {
    let mut buffer = DeviceBuffer::uninit_in(bytes, stream, resource)?;
    buffer.fill(1)?;
    Ok(buffer)
}

/// Blocks of two sizes on a stream of the program's and on the thread's own, with others freed in
/// between.
fn blocks(resource: &AnyResource) -> Result<Vec<DeviceBuffer>, Error> {
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
    let mut blocks = Vec::new();
    for bytes in [1000, 3 << 20] {
        for stream in [stream.as_stream_ref(), StreamRef::per_thread()] {
            blocks.push(busy(resource, stream, bytes)?);
            drop(busy(resource, stream, bytes)?);
        }
    }
    Ok(blocks)
}

/// Leaves blocks to the thread's values.
fn fill_thread(resource: &AnyResource) -> Result<(), Error> {
    EARLY.with_borrow_mut(Vec::clear);
    let (early, late) = (blocks(resource)?, blocks(resource)?);
    EARLY.with_borrow_mut(|kept| kept.extend(early));
    LATE.with_borrow_mut(|kept| kept.extend(late));
    Ok(())
}

/// Fills the values of a thread, which ends then, or stays for as long as the program does.
fn fill_another_thread(handle: &DeviceHandle, resource: &AnyResource, stays: bool) {
    let (handle, resource, (filled, is_filled)) = (handle.clone(), resource.clone(), channel());
    let run = move |filled: Sender<()>| {
        let _current = handle.make_current().expect("the device is there");
        fill_thread(&resource).expect("memory");
        filled.send(()).expect("the other thread waits");
        if stays {
            loop {
                thread::park();
            }
        }
    };
    let thread = thread::spawn(move || run(filled));
    is_filled.recv().expect("the thread fills its values");
    if !stays {
        thread.join().expect("the thread ends well");
    }
}

fn set_up(environment: &Environment, kind: &str, way: &str) -> Result<(), Failure> {
    // The registry keeps one to the end. Of the other the statics have the last handle.
    let (registered, resource) = (kinds::make(kind)?, kinds::make(kind)?);
    set_current_device_resource(&registered)?;
    let mut buffers = blocks(&registered)?;
    buffers.extend(blocks(&resource)?);
    match way {
        "thread-ended" => fill_another_thread(environment.handle(), &resource, false),
        "thread-stays" => fill_another_thread(environment.handle(), &resource, true),
        _ => {}
    }
    fill_thread(&resource)?;
    let resource_goes_first = way == "resource-first";
    let kept = Kept { resource: Some(resource), buffers, resource_goes_first };
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
    IS_SET_UP.store(true, Ordering::Relaxed);
    Ok(())
}

/// What the started program does; without the variable there is nothing to do.
#[test]
fn leave() {
    let Ok(how) = std::env::var(LEAVE) else { return };
    let (kind, way) = how.split_once(' ').expect("a suballocator and a way out");
    // SAFETY: the handler is a function that does not unwind.
    assert_eq!(unsafe { libc::atexit(at_the_very_end) }, 0);
    let places = Place::selected().unwrap_or_else(|failure| panic!("{failure}"));
    let environment = Environment::open(places[0]).unwrap_or_else(|failure| panic!("{failure}"));
    if let DeviceHandle::Software(machine) = environment.handle() {
        MACHINE.get_or_init(|| machine.clone());
    }
    set_up(&environment, kind, way).unwrap_or_else(|failure| panic!("{failure}"));
    match way {
        "exit" | "thread-stays" => std::process::exit(7),
        "panic" => panic!("as it should"),
        "driver-first" => {
            if let DeviceHandle::Software(machine) = environment.handle() {
                machine.kill();
            }
        }
        _ => {}
    }
}

/// Runs a program for each way out, if the suballocator is to be tested and the device has what it
/// needs.
#[track_caller]
fn every_way_out_is_clean(kind: &str) {
    let were_run = Cell::new(false);
    in_places_with(kinds::selected_by(kind), |_| {
        if !were_run.replace(true) {
            for (way, status) in WAYS {
                leaves(kind, way, status);
            }
        }
        Ok(())
    });
}

#[track_caller]
fn leaves(kind: &str, way: &str, status: i32) {
    let mut program = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "exit::suballocators::leave", "--test-threads=1", "--nocapture"])
        .env(LEAVE, format!("{kind} {way}"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut errors = program.stderr.take().expect("they are piped");
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut said = String::new();
        // The test may have given up.
        let _unheard = sender.send(errors.read_to_string(&mut said).map(|_| said));
    });
    // It ends with the program.
    let said = receiver.recv_timeout(LIMIT);
    if said.is_err() {
        program.kill().expect("it is there");
    }
    let ended = program.wait().expect("it has ended");
    let Ok(said) = said else { panic!("{kind}, {way}: it did not end") };
    let said = said.expect("text");
    assert_eq!(ended.code(), Some(status), "{kind}, {way}: {ended:?}\n{said}");
    assert!(way == "panic" || said.is_empty(), "{kind}, {way}: {said}");
}

#[test]
fn pool() {
    every_way_out_is_clean("pool");
}

#[test]
fn compact_pool() {
    every_way_out_is_clean("pool-compact");
}

#[test]
fn pool_over_virtual_memory() {
    every_way_out_is_clean("pool-virtual");
}

#[test]
fn pool_over_the_driver_s_pool() {
    every_way_out_is_clean("pool-async");
}

#[test]
fn arena() {
    every_way_out_is_clean("arena");
}

#[test]
fn binning() {
    every_way_out_is_clean("binning");
}

#[test]
fn fixed_size() {
    every_way_out_is_clean("fixed-size");
}
