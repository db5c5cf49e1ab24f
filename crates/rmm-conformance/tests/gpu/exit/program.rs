//! A program that exits, which is this one: started again for one holder and one way out.
//!
//! It has a handler that was registered before the driver started, and so runs when the driver has
//! gone: it drops what is held, as C++ would.

use std::cell::Cell;
use std::io::{Read as _, Write as _, stderr};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rmm_conformance::{DeviceHandle, Environment, Place};
use rmm_containers::DeviceBuffer;
use rmm_core::{Context, ContextGuard, CudaStream, Error, process_is_exiting};
use rmm_resources::CudaMemoryResource;
use rmm_sim::Machine;

use super::{HOLDERS, Holder};
use crate::run::in_places_with;

/// A way out, and the status of a program that takes it.
pub(super) type Way = (&'static str, i32);

/// What is left to the very end.
pub(super) struct Held {
    /// Called before calls to the driver are counted.
    pub(super) settle: fn(),
    /// Ends what is held; an error says what is wrong with it.
    pub(super) end: Box<dyn FnOnce() -> Result<(), String> + Send>,
}

impl Held {
    /// What `end` ends.
    pub(super) fn new(end: impl FnOnce() -> Result<(), String> + Send + 'static) -> Self {
        Self { settle: || (), end: Box::new(end) }
    }
}

/// Set for the program that exits: the holder's name and the way out.
const EXIT: &str = "RMM_TEST_EXIT_WITH";
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// The status of a program in which something is wrong at the very end.
const WRONG: i32 = 42;

static HELD: Mutex<Option<Held>> = Mutex::new(None);
static MACHINE: OnceLock<Machine> = OnceLock::new();

/// Calls that the software device has counted.
pub(super) fn calls() -> Option<u64> {
    MACHINE.get().map(Machine::calls)
}

/// The software device, if the program uses it.
pub(super) fn machine() -> Option<&'static Machine> {
    MACHINE.get()
}

fn find(name: &str) -> &'static Holder {
    let found = HOLDERS.iter().find(|holder| holder.name == name);
    found.unwrap_or_else(|| panic!("nothing that a program holds is named {name}"))
}

/// Runs after the driver's own handler, which is registered later.
extern "C" fn at_the_very_end() {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(Held { settle, end }) = held else { fail("nothing is held") };
    settle();
    let before = calls();
    let ended = end();
    if let Err(wrong) = ended {
        fail(&wrong);
    }
    if calls() != before || !process_is_exiting() {
        fail(&format!("calls: {before:?}, then {:?}; exiting: {}", calls(), process_is_exiting()));
    }
}

/// Ends the program at once, as one in which something is wrong.
fn fail(wrong: &str) -> ! {
    // If this cannot be said, the status says it.
    let _ignored = writeln!(stderr(), "{wrong}");
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(WRONG) }
}

/// What the program's own function holds, and drops unless it leaves by `exit`.
fn locals() -> Result<(ContextGuard, DeviceBuffer), Error> {
    let guard = Context::current().and_then(Context::enter)?;
    let block = DeviceBuffer::uninit_in(1000, &CudaStream::new()?, &CudaMemoryResource::new())?;
    Ok((guard, block))
}

/// What the started program does; without the variable there is nothing to do.
#[test]
fn exits() {
    let Ok(how) = std::env::var(EXIT) else { return };
    let (name, way) = how.split_once(' ').expect("a holder and a way out");
    // SAFETY: the handler is a function that does not unwind.
    assert_eq!(unsafe { libc::atexit(at_the_very_end) }, 0);
    let places = Place::selected().unwrap_or_else(|failure| panic!("{failure}"));
    // The last one runs nothing early: most work is pending at the end.
    let place = *places.last().expect("a place is selected");
    let environment = Environment::open(place).unwrap_or_else(|failure| panic!("{failure}"));
    if let DeviceHandle::Software(machine) = environment.handle() {
        MACHINE.get_or_init(|| machine.clone());
    }
    let (_guard, _block) = locals().expect("a context and memory");
    let held = (find(name).fill)(&environment, way).unwrap_or_else(|failure| panic!("{failure}"));
    *HELD.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
    match way {
        "exit" | "thread-stays" => std::process::exit(7),
        "panic" => panic!("as it should"),
        "driver-first" => {
            if let Some(machine) = machine() {
                machine.kill();
            }
        }
        _ => {}
    }
}

/// Runs a program for each way out, if the resource is to be tested and the device has what it
/// needs.
#[track_caller]
pub(super) fn every_way_out_is_clean(name: &str) {
    let (holder, were_run) = (find(name), Cell::new(false));
    in_places_with(holder.resource, |_| {
        if !were_run.replace(true) {
            for &(way, status) in holder.ways {
                exits_cleanly(name, way, status);
            }
        }
        Ok(())
    });
}

#[track_caller]
fn exits_cleanly(name: &str, way: &str, status: i32) {
    let mut program = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "exit::program::exits", "--test-threads=1", "--nocapture"])
        .env(EXIT, format!("{name} {way}"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut errors = program.stderr.take().expect("they are piped");
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut said = String::new();
        // The test may have given up.
        let _ignored = sender.send(errors.read_to_string(&mut said).map(|_| said));
    });
    // It ends with the program.
    let said = receiver.recv_timeout(LIMIT);
    if said.is_err() {
        program.kill().expect("it is there");
    }
    let ended = program.wait().expect("it has ended");
    let Ok(said) = said else { panic!("{name}, {way}: it did not end") };
    let said = said.expect("text");
    assert_eq!(ended.code(), Some(status), "{name}, {way}: {ended:?}\n{said}");
    assert!(way == "panic" || said.is_empty(), "{name}, {way}: {said}");
}
