//! An owner on a thread of the test.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use rmm_core::Device;
use rmm_lease::protocol::Lock;
use rmm_lease::{Lease, Server, ServerOptions};
use rmm_sim::Machine;
use tempfile::TempDir;

/// An owner on a thread, which ends when the fixture does.
pub(crate) struct Owner {
    pub(crate) machine: Machine,
    folder: TempDir,
    options: ServerOptions,
    running: Option<(UnixStream, JoinHandle<()>)>,
}

impl Owner {
    pub(crate) fn start() -> Self {
        Self::start_with(ServerOptions::default())
    }

    pub(crate) fn start_with(options: ServerOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut owner = Self { machine: Machine::new(), folder, options, running: None };
        owner.restart();
        owner
    }

    /// Ends the owner, and starts another one at its socket.
    pub(crate) fn restart(&mut self) {
        self.end();
        let (stop, other) = UnixStream::pair().expect("the system has sockets");
        let there = self.machine.clone();
        let mut server = {
            let _here = self.machine.enter();
            let device = Device::new(0).expect("the software device has one");
            Server::bind(self.socket(), device, self.options).expect("a new socket")
        };
        let thread = thread::spawn(move || {
            let _here = there.enter();
            server.run(other).expect("the system can wait");
        });
        self.running = Some((stop, thread));
    }

    pub(crate) fn end(&mut self) {
        let Some((stop, thread)) = self.running.take() else { return };
        drop(stop);
        assert!(thread.join().is_ok(), "the owner does not panic");
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("owner.sock")
    }

    pub(crate) fn connect(&self, lock: Lock) -> Lease {
        Lease::connect(self.socket(), lock, None).expect("the lock is free")
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.end();
    }
}
