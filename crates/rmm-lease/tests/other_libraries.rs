//! Work of another library, on streams that this one has never seen, of a device that is not the
//! thread's current one.
#![cfg(target_os = "linux")]

use std::os::unix::net::UnixStream;
use std::ptr;
use std::thread;

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{CudaStream, Device, DevicePtr};
use rmm_lease::protocol::Lock;
use rmm_lease::{Lease, LeasedMemoryResource, Server, ServerOptions};
use rmm_resources::{ImportAccess, ImportedMemory, Piece, PieceRange};
use rmm_sim::{Kernel, Machine, Schedule};
use rmm_sys::{CuContext, CuDevice, CuDevicePtr, CuStream, Driver};

const BYTES: u64 = 2 << 20;

/// A stream in the primary context of the second device, which is not current afterwards.
fn stream_of_another_library() -> CuStream {
    let driver = Driver::get().expect("the software device");
    let (mut context, mut before) = (CuContext::NULL, CuContext::NULL);
    let mut stream = CuStream::from_raw(ptr::null_mut());
    // SAFETY: the place may be written to.
    let retained = unsafe { driver.cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(1)) };
    // SAFETY: the place may be written to.
    let asked = unsafe { driver.cuCtxGetCurrent(&raw mut before) };
    // SAFETY: it was retained just now.
    let entered = unsafe { driver.cuCtxSetCurrent(context) };
    // SAFETY: the place may be written to.
    let made = unsafe { driver.cuStreamCreateWithPriority(&raw mut stream, 1, 0) };
    // SAFETY: it was current before.
    let left = unsafe { driver.cuCtxSetCurrent(before) };
    for code in [retained, asked, entered, made, left] {
        assert!(code.is_success(), "{code}");
    }
    stream
}

#[test]
fn work_of_other_libraries_on_the_memory_is_waited_for() {
    let machine = Machine::builder().devices(2).schedule(Schedule::Lazy).build();
    let here = machine.enter();
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("owner.sock");
    let device = Device::new(1).expect("there are two");
    let options = ServerOptions::default();
    let mut server = Server::bind(&socket, device, options).expect("a new socket");
    let (stop, other) = UnixStream::pair().expect("the system has sockets");
    let there = machine.clone();
    let owner = thread::spawn(move || {
        let _here = there.enter();
        server.run(other).expect("the system can wait");
    });
    let _current = CudaStream::new().expect("of the first device");
    let stream = stream_of_another_library();
    let uses = |pointer: DevicePtr, writes: bool| {
        let kernel = Kernel::new("uses", |_| ());
        let range = CuDevicePtr(pointer.0);
        let kernel = if writes { kernel.writes(range, 1000) } else { kernel.reads(range, 1000) };
        machine.launch(stream, kernel).expect("a launch");
    };

    let mut lease = Lease::connect(&socket, Lock::Write, None).expect("it is free");
    lease.allocate("weights", BYTES).expect("there is memory");
    let import = |lease: &mut Lease| {
        let handle = lease.export("weights").expect("it is allocated").into();
        let (export, index, count, offset) = (0, 0, 1, 0);
        let range = PieceRange { export, index, count, handle_bytes: BYTES, offset, bytes: BYTES };
        let pieces = vec![Piece { handle, range }];
        ImportedMemory::map(pieces, device, ImportAccess::ReadWrite).expect("it is mapped")
    };
    let memory = import(&mut lease);
    uses(memory.as_ptr(), true);
    drop(memory);
    let pages = LeasedMemoryResource::new(lease).expect("the device is here");
    let range = pages.map("weights").expect("it is allocated");
    uses(range.pointer, true);
    let pool = PoolMemoryResource::builder(pages.clone()).build();
    assert!(pool.is_err_and(|error| error.to_string().contains("device 0 is current")));
    pages.commit().expect("it writes");
    uses(range.pointer, false);
    // SAFETY: no work is enqueued after this that uses the memory.
    unsafe { pages.detach() }.expect("it reads");
    machine.run_all();
    machine.assert_no_violations();
    drop((pages, stop, here));
    owner.join().expect("it does not panic");
}
