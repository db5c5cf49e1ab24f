//! A program that leaves with a stream that keeps its owner: the owner is not dropped, since the
//! destructor of a foreign stream calls the driver, which may be gone.

use std::any::Any;
use std::io::{Write as _, stderr};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmm_conformance::{Environment, Place};
use rmm_containers::DeviceBuffer;
use rmm_core::{CudaStream, Error, process_is_exiting};
use rmm_resources::CudaAsyncMemoryResource;

/// Set for the program that leaves: how.
const LEAVE: &str = "RMM_TEST_LEAVE_WITH_AN_OWNER";
/// The status of a program in which something is wrong at the very end.
const WRONG: i32 = 42;

/// How many owners were dropped.
static DROPPED: AtomicU32 = AtomicU32::new(0);
/// What the program leaves with: a stream, and a container on another.
static KEPT: Mutex<Option<(CudaStream, DeviceBuffer)>> = Mutex::new(None);

/// In place of a stream type of another library. The stream is not destroyed.
struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs after the driver's own handler, which is registered later.
extern "C" fn at_the_very_end() {
    drop(KEPT.lock().unwrap_or_else(PoisonError::into_inner).take());
    let dropped = DROPPED.load(Ordering::Relaxed);
    if dropped != 1 || !process_is_exiting() {
        // If this cannot be said, the status says it.
        let _unsaid = writeln!(stderr(), "{dropped} owners were dropped, one before the exit");
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(WRONG) };
    }
}

fn owned_stream() -> Result<CudaStream, Error> {
    let handle = CudaStream::non_blocking()?.into_raw().expect("it is the only handle");
    let owner: Arc<dyn Any + Send + Sync> = Arc::new(Owner);
    // SAFETY: nothing destroys the stream.
    unsafe { CudaStream::adopt_owned_by(handle, owner) }
}

fn hold_streams() -> Result<(), Error> {
    drop(owned_stream()?);
    let resource = CudaAsyncMemoryResource::new()?;
    let buffer = DeviceBuffer::uninit_in(1 << 20, &owned_stream()?, &resource)?;
    let kept = (owned_stream()?, buffer);
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
    Ok(())
}

#[test]
fn an_owner_is_not_dropped_while_the_process_exits() {
    let places = Place::selected().unwrap_or_else(|failure| panic!("{failure}"));
    if let Ok(way) = std::env::var(LEAVE) {
        // SAFETY: the handler is a function that does not unwind.
        assert_eq!(unsafe { libc::atexit(at_the_very_end) }, 0);
        let _environment =
            Environment::open(places[0]).unwrap_or_else(|failure| panic!("{failure}"));
        hold_streams().expect("streams");
        match way.as_str() {
            "exit" => std::process::exit(7),
            _ => return,
        }
    }
    for (way, status) in [("return", 0), ("exit", 7)] {
        let test = "exit::owners::an_owner_is_not_dropped_while_the_process_exits";
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", test, "--test-threads=1"])
            .env(LEAVE, way)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{way}: {said}");
    }
}
