//! Memory that leaves the process: exports, imports, and the memory of an owner.

use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::os::unix::net::UnixStream;
use std::{fs, thread};

use rmm_containers::{DeviceBuffer, export};
use rmm_core::{CudaStream, Device, SynchronousResource};
use rmm_lease::protocol::Lock;
use rmm_lease::{Lease, LeasedMemoryResource, Server, ServerOptions};
use rmm_resources::{ExportHandleTypes, ImportAccess, ImportedMemory, VirtualMemoryResource};
use rmm_sim::Machine;

use crate::child::{call_each, does, drop_of, refused, says};

const ACCESS: ImportAccess = ImportAccess::ReadWrite;

pub(crate) fn call_all(machine: &Machine, wrong: &mut Vec<String>) {
    imports(machine, wrong);
    leases(machine, wrong);
}

fn imports(machine: &Machine, wrong: &mut Vec<String>) {
    let files = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
    let pages = VirtualMemoryResource::builder().export(files).build().expect("the device has it");
    let (stream, device) = (CudaStream::new().expect("a stream"), Device::new(0).expect("one"));
    let buffer = DeviceBuffer::from_slice_in(&[1; 1000], &stream, &pages).expect("memory");
    let pieces = || export(&buffer).expect("it is exportable");
    let memory = ImportedMemory::map(pieces(), device, ACCESS).expect("an export");
    let sent = pieces();
    let busy = || drop(ImportedMemory::map(pieces(), device, ACCESS).expect("an export"));
    // SAFETY: the child ends without a use of the values that these are copies of.
    let own_pieces = || unsafe { std::ptr::read(&raw const sent) };
    // SAFETY: as above; it is not dropped.
    let own_memory = || unsafe { ManuallyDrop::new(std::ptr::read(&raw const memory)) };
    let calls = [
        does("export", || refused(export(&buffer))),
        does("map", || refused(ImportedMemory::map(own_pieces(), device, ACCESS))),
        does("remap", || refused(own_memory().remap(own_pieces(), ACCESS))),
        // SAFETY: nothing uses the memory.
        does("unmap", || refused(unsafe { own_memory().unmap() })),
        does("grant_access", || refused(memory.grant_access(device, ACCESS))),
        does("drop of imported memory", || drop_of(&memory)),
        does("drop of pieces", || drop_of(&sent)),
    ];
    call_each(machine, "import", &busy, &calls, wrong);
}

/// An owner on a thread, which ends with `stop`.
fn owner(machine: &Machine, socket: &str, other: UnixStream) -> thread::JoinHandle<()> {
    let device = Device::new(0).expect("the software device has one");
    let mut server = Server::bind(socket, device, ServerOptions::default()).expect("a new socket");
    let machine = machine.clone();
    thread::spawn(move || {
        let _here = machine.enter();
        server.run(other).expect("the system can wait");
    })
}

fn leases(machine: &Machine, wrong: &mut Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("owner.sock").into_os_string().into_string().expect("text");
    let (stop, other) = UnixStream::pair().expect("the system has sockets");
    let owner = owner(machine, &socket, other);
    let connect = || Lease::connect(&socket, Lock::Write, None);
    let pages = LeasedMemoryResource::new(connect().expect("it is free")).expect("a device");
    let layout = Layout::from_size_align(1000, 256).expect("valid");
    let block = pages.allocate_sync(layout).expect("there is memory");
    pages.put("block", block, 1000, b"").expect("it is allocated");
    let busy = || {
        let other = pages.allocate_sync(layout).expect("there is memory");
        pages.get("block").expect("it has a name");
        // SAFETY: allocated above with this layout, and not used.
        unsafe { pages.deallocate_sync(other, layout) };
    };
    let calls = [
        does("connect", || refused(connect())),
        does("allocate", || refused(pages.allocate_sync(layout))),
        // SAFETY: the child ends without a use of the block.
        does("deallocate", || unsafe { pages.deallocate_sync(block, layout) }),
        does("map", || refused(pages.map("block"))),
        does("get", || refused(pages.get("block"))),
        does("put", || refused(pages.put("other", block, 1, b""))),
        does("list", || refused(pages.list())),
        says("lock", || pages.lock()),
        does("names", || refused(pages.names())),
        does("commit", || refused(pages.commit())),
        // SAFETY: nothing uses the memory.
        does("detach", || refused(unsafe { pages.detach() })),
        does("attach", || refused(pages.attach(None))),
        does("drop of a lease's memory", || drop_of(&pages)),
    ];
    call_each(machine, "lease", &busy, &calls, wrong);
    drop(calls);
    pages.commit().expect("the parent's session goes on");
    assert!(fs::exists(&socket).is_ok_and(|it| it), "no child has removed the socket");
    drop((pages, stop));
    owner.join().expect("it does not panic");
}
