//! A session in the child of a fork, of a process that has not used the driver. It is the only test
//! of its process.
#![cfg(target_os = "linux")]

use std::ffi::c_int;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use rmm_lease::Lease;
use rmm_lease::protocol::{Granted, Lock, Message, encode};
use rustix::process::{Pid, WaitOptions, waitpid};

unsafe extern "C" {
    fn fork() -> c_int;
    fn _exit(status: c_int) -> !;
}

fn read_frame(stream: &mut UnixStream) -> Option<()> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).ok()?;
    let length = usize::try_from(u32::from_be_bytes(header)).ok()?;
    stream.read_exact(&mut vec![0; length]).ok()
}

#[test]
fn a_child_makes_no_request_of_its_parents_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("owner.sock");
    let listener = UnixListener::bind(&socket).expect("a new socket");
    let owner = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let (server_nonce, gpu_uuid) = (String::new(), String::new());
        let granted =
            Message::HandshakeResponse { lock_type: Granted::Write, server_nonce, gpu_uuid };
        let list = Message::ListAllocationsResponse { allocations: Vec::new() };
        let mut answers = 0;
        let mut next = granted;
        while read_frame(&mut stream).is_some() {
            stream.write_all(&encode(&next).expect("it is small")).expect("a client");
            (next, answers) = (list.clone(), answers + 1);
        }
        answers
    });
    let mut lease = Lease::connect(&socket, Lock::Write, None).expect("it is granted");
    lease.set_answer_time(Duration::from_secs(5));
    // SAFETY: the child makes one call, which takes no lock, and ends.
    let child = unsafe { fork() };
    if child == 0 {
        let is_refused = lease.list().is_err_and(|error| error.to_string().contains("fork"));
        // SAFETY: it ends this process alone.
        unsafe { _exit(c_int::from(!is_refused)) };
    }
    let child = Pid::from_raw(child).expect("there are processes");
    let (_, status) = waitpid(Some(child), WaitOptions::empty()).expect("it is ours").expect("it");
    assert_eq!(status.exit_status(), Some(0), "the child is refused");
    assert_eq!(lease.list().expect("the session goes on"), []);
    drop(lease);
    assert_eq!(owner.join().expect("it does not panic"), 2);
}
