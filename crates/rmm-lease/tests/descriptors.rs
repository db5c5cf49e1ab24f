//! A process that has no file descriptor left: nothing is lost. It is the only test of its process,
//! whose limit it takes.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use rmm_lease::Lease;
use rmm_lease::protocol::{Granted, Lock, Message, encode};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Resource, getrlimit, setrlimit};

fn read_frame(stream: &mut UnixStream) {
    let mut header = [0; 4];
    stream.read_exact(&mut header).expect("a request");
    let length = usize::try_from(u32::from_be_bytes(header)).expect("it is small");
    stream.read_exact(&mut vec![0; length]).expect("a request");
}

/// Answers a handshake, and then each request in turn; an export with the file beside it.
fn serve(mut stream: UnixStream, file: &OwnedFd, answers: &[Message]) {
    for answer in answers {
        read_frame(&mut stream);
        let bytes = encode(answer).expect("it is small");
        if !answer.has_descriptor() {
            stream.write_all(&bytes).expect("a client");
            continue;
        }
        let files = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        let parts = [IoSlice::new(&bytes)];
        sendmsg(&stream, &parts, &mut control, SendFlags::empty()).expect("a client");
    }
}

/// Opens files until no other can be.
fn exhaust() -> Vec<File> {
    let mut files = Vec::new();
    loop {
        match File::open("/dev/null") {
            Ok(file) => files.push(file),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(24), "{error}");
                return files;
            }
        }
    }
}

#[test]
fn a_client_without_a_descriptor_left_keeps_its_session() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).expect("a lower one");
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("owner.sock");
    let listener = UnixListener::bind(&socket).expect("a new socket");
    let owner = thread::spawn(move || {
        let file = OwnedFd::from(File::open("/dev/null").expect("it exists"));
        let (stream, _) = listener.accept().expect("a client");
        let (server_nonce, gpu_uuid) = (String::new(), String::new());
        let granted =
            Message::HandshakeResponse { lock_type: Granted::Write, server_nonce, gpu_uuid };
        let list = Message::ListAllocationsResponse { allocations: Vec::new() };
        let export = Message::ExportResponse {};
        serve(stream, &file, &[granted, export.clone(), list, export]);
    });
    let mut lease = Lease::connect(&socket, Lock::Write, None).expect("it is granted");
    let files = exhaust();
    let export = lease.export("weights");
    let list = lease.list();
    drop(files);
    let error = export.expect_err("there is no descriptor");
    assert!(error.to_string().contains("file descriptor"), "{error}");
    assert!(error.to_string().contains("ulimit -n"), "{error}");
    assert_eq!(list.expect("the session goes on"), []);
    lease.export("weights").expect("there is a descriptor");
    owner.join().expect("it does not panic");
}
