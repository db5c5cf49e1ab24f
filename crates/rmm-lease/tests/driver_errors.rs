//! An owner whose driver refuses, loses its device, or has shut down.
#![cfg(target_os = "linux")]

use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use rmm_core::Device;
use rmm_lease::protocol::Lock;
use rmm_lease::{Lease, LeaseError, Server, ServerOptions};
use rmm_sim::{Fault, Machine};
use rmm_sys::CuResult;
use tempfile::TempDir;

const BYTES: u64 = 2 << 20;

/// An owner on a thread, which ends when the fixture does.
struct Owner {
    machine: Machine,
    folder: TempDir,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Owner {
    fn start() -> Self {
        let machine = Machine::new();
        let folder = tempfile::tempdir().expect("a folder");
        let (stop, other) = UnixStream::pair().expect("the system has sockets");
        let (socket, there) = (folder.path().join("owner.sock"), machine.clone());
        let mut server = {
            let _here = machine.enter();
            let device = Device::new(0).expect("the software device has one");
            Server::bind(socket, device, ServerOptions::default()).expect("a new socket")
        };
        let thread = thread::spawn(move || {
            let _here = there.enter();
            server.run(other).expect("the system can wait");
        });
        Self { machine, folder, stop: Some(stop), thread: Some(thread) }
    }

    fn connect(&self, lock: Lock) -> Lease {
        let socket = self.folder.path().join("owner.sock");
        Lease::connect(socket, lock, None).expect("the lock is free")
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.stop = None;
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))), "the owner does not panic");
    }
}

fn is_refused(result: Result<(), LeaseError>, with: CuResult) -> bool {
    let is_memory = with == CuResult::OUT_OF_MEMORY;
    matches!(result, Err(LeaseError::Refused(refusal)) if refusal.out_of_memory == is_memory)
}

#[test]
fn a_call_that_fails_is_a_refusal_and_loses_nothing() {
    let owner = Owner::start();
    let mut lease = owner.connect(Lock::Write);
    for code in [CuResult::OUT_OF_MEMORY, CuResult::UNKNOWN] {
        owner.machine.fail(Fault::nth("cuMemCreate", 1, code));
        assert!(is_refused(lease.allocate("a", BYTES), code), "{code}");
    }
    lease.allocate("a", BYTES).expect("no call fails");
    owner.machine.fail(Fault::nth("cuMemExportToShareableHandle", 1, CuResult::UNKNOWN));
    assert!(is_refused(lease.export("a").map(drop), CuResult::UNKNOWN));
    lease.export("a").expect("no call fails");
    lease.commit().expect("it writes");
    drop(lease);
    drop(owner.connect(Lock::Write));
    let machine = owner.machine.clone();
    drop(owner);
    machine.assert_no_violations();
}

#[test]
fn an_owner_outlives_its_driver() {
    let owner = Owner::start();
    let mut lease = owner.connect(Lock::Write);
    lease.allocate("a", BYTES).expect("there is memory");
    owner.machine.kill();
    assert!(is_refused(lease.allocate("b", BYTES), CuResult::DEINITIALIZED));
    assert!(is_refused(lease.export("a").map(drop), CuResult::DEINITIALIZED));
    lease.free("a").expect("there is nothing left to free");
    drop(lease);
    assert_eq!(owner.connect(Lock::Write).list().expect("it writes"), []);
}
