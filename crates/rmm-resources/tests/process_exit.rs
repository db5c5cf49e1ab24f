//! Memory freed while the process exits: no driver call is made, since the driver may be unloaded.
//!
//! RMM #2202, #2366: destructors called a driver that was gone.

#![cfg(unix)]

use std::alloc::Layout;
use std::io::{Write as _, stderr};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use rmm_core::{CudaStream, Device, DevicePtr, Error, Resource, Synchronized, process_is_exiting};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource, CudaMemoryResource, HostMemoryResource, ManagedMemoryResource,
    PinnedHostMemoryResource, SamHeadroomMemoryResource, SystemMemoryResource,
    VirtualMemoryResource,
};
use rmm_sim::Machine;
use rmm_sys::CuDeviceAttribute;

/// Set in the child process.
const LEAVING: &str = "RMM_TEST_LEAVING";
/// The exit status of a child in which a late check failed.
const WRONG: i32 = 42;

/// A resource and two of its blocks.
struct Kept {
    resource: Box<dyn Resource>,
    stream: CudaStream,
    blocks: [DevicePtr; 2],
}

static MACHINE: OnceLock<Machine> = OnceLock::new();
static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

fn layout() -> Layout {
    Layout::from_size_align(4096, 256).expect("a layout")
}

fn resources() -> Result<[Box<dyn Resource>; 12], Error> {
    let device = Device::current()?;
    Ok([
        Box::new(CudaMemoryResource::new()),
        Box::new(VirtualMemoryResource::new()?),
        Box::new(CudaAsyncMemoryResource::new()?),
        Box::new(CudaAsyncViewMemoryResource::of_default_pool(device)?),
        Box::new(CudaAsyncManagedMemoryResource::new()?),
        Box::new(CudaAsyncPinnedMemoryResource::new()?),
        Box::new(ManagedMemoryResource::new()),
        Box::new(PinnedHostMemoryResource::new()),
        Box::new(SystemMemoryResource::new()?),
        Box::new(SamHeadroomMemoryResource::new(0)?),
        Box::new(HostMemoryResource::new()),
        Box::new(Synchronized::new(CudaMemoryResource::new())),
    ])
}

/// Registered before the library registers its handler, so it runs after that one.
extern "C" fn at_the_very_end() {
    // Another thread frees: the thread-locals of the exiting thread are gone by now, so its driver
    // calls could not be counted.
    let is_right = thread::spawn(free_all).join().unwrap_or(false);
    if !is_right {
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(WRONG) };
    }
}

/// Whether freeing the kept values makes no driver call.
fn free_all() -> bool {
    let Some(machine) = MACHINE.get() else { return true };
    let _entered = machine.enter();
    let kept = std::mem::take(&mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner));
    let mut is_right = process_is_exiting() && !kept.is_empty();
    for Kept { resource, stream, blocks: [first, second] } in kept {
        let mut report = |what, calls| {
            let called = machine.calls() - calls;
            if called != 0 {
                is_right = false;
                // If the report cannot be written either, the status reports the failure.
                let _unsaid = writeln!(stderr(), "{}: {called} calls to {what}", resource.name());
            }
        };
        let calls = machine.calls();
        // SAFETY: allocated with this layout, and not used.
        unsafe { resource.deallocate(&stream, first, layout()) };
        report("deallocate", calls);
        let calls = machine.calls();
        // SAFETY: as above.
        unsafe { resource.deallocate_sync(second, layout()) };
        report("deallocate_sync", calls);
        let calls = machine.calls();
        drop(stream);
        report("drop a stream", calls);
        drop(resource);
        is_right &= machine.calls() == calls;
    }
    is_right
}

/// The child process; without the variable this does nothing.
#[test]
fn leave() {
    if std::env::var_os(LEAVING).is_none() {
        return;
    }
    // SAFETY: the handler is a function that does not unwind.
    assert_eq!(unsafe { libc::atexit(at_the_very_end) }, 0);
    let pageable = CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
    let machine = MACHINE.get_or_init(|| Machine::builder().attribute(pageable, 1).build());
    let _entered = machine.enter();
    let kept = resources().expect("every resource is made").map(|resource| {
        let stream = CudaStream::new().expect("a stream");
        let blocks = [
            resource.allocate(&stream, layout()).expect("memory"),
            resource.allocate_sync(layout()).expect("memory"),
        ];
        Kept { resource, stream, blocks }
    });
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).extend(kept);
    std::process::exit(7);
}

#[test]
fn memory_freed_while_the_process_exits_calls_no_driver() {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", "leave", "--nocapture", "--test-threads=1"])
        .env(LEAVING, "1")
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{:?}\n{said}", output.status);
}
