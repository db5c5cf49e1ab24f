//! Owners that answer wrongly, or go while someone waits.
#![cfg(target_os = "linux")]

use std::io::{IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use rmm_lease::protocol::{FrameError, Granted, Lock, Message, encode};
use rmm_lease::{Lease, LeaseError, LeasedMemoryResource, Server, ServerOptions};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// What an owner sends after the handshake and a request: bytes, and files beside them.
type Answer = (Vec<u8>, usize);

fn frame(message: &Message) -> Vec<u8> {
    encode(message).expect("it is small")
}

fn read_frame(stream: &mut UnixStream) {
    let mut header = [0; 4];
    stream.read_exact(&mut header).expect("a request");
    let length = usize::try_from(u32::from_be_bytes(header)).expect("it is small");
    stream.read_exact(&mut vec![0; length]).expect("a request");
}

fn send(stream: &UnixStream, (bytes, count): &Answer) {
    let file = std::fs::File::open("/dev/null").map(OwnedFd::from).expect("it exists");
    let files = vec![file.as_fd(); *count];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if *count > 0 {
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    }
    sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).expect("a client");
}

/// The frame of an owner of memory of this GPU that grants a lock.
fn granted(lock_type: Granted, gpu_uuid: &str) -> Vec<u8> {
    let (server_nonce, gpu_uuid) = (String::new(), gpu_uuid.to_owned());
    frame(&Message::HandshakeResponse { lock_type, server_nonce, gpu_uuid })
}

/// The outcome of an export at an owner that gives this answer, and of the request after it.
fn outcomes(answer: Answer) -> [Result<(), LeaseError>; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("owner.sock");
    let listener = UnixListener::bind(&socket).expect("a new socket");
    let owner = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        read_frame(&mut stream);
        stream.write_all(&granted(Granted::Write, "")).expect("a client");
        read_frame(&mut stream);
        send(&stream, &answer);
    });
    let mut lease = Lease::connect(&socket, Lock::Write, None).expect("it is granted");
    let first = lease.export("weights").map(drop);
    owner.join().expect("it does not panic");
    [first, lease.list().map(drop)]
}

#[test]
fn a_wrong_answer_is_an_error_and_ends_the_session() {
    let export = frame(&Message::ExportResponse {});
    let half = export[..export.len() - 1].to_vec();
    let [first, second] = outcomes((half, 0));
    assert!(matches!(first, Err(LeaseError::Frame(FrameError::Truncated(_)))), "{first:?}");
    assert!(matches!(second, Err(LeaseError::Ended)), "{second:?}");
    for count in [0, 2, 20] {
        let [first, second] = outcomes((export.clone(), count));
        let is_named = matches!(&first, Err(LeaseError::Frame(FrameError::Descriptors { .. })));
        assert!(is_named, "{count} descriptors: {first:?}");
        assert!(matches!(second, Err(LeaseError::Ended)), "{second:?}");
    }
    let [first, _] = outcomes((vec![0x80, 0, 0, 0], 0));
    let is_named =
        matches!(&first, Err(LeaseError::Frame(FrameError::TooLarge(it))) if *it == 2 << 30);
    assert!(is_named, "2 GiB: {first:?}");
    let [first, _] = outcomes((frame(&Message::SuccessResponse {}), 1));
    assert!(matches!(&first, Err(LeaseError::Frame(FrameError::Descriptors { .. }))), "{first:?}");
    let [first, _] = outcomes((frame(&Message::SuccessResponse {}), 0));
    assert!(matches!(first, Err(LeaseError::OtherAnswer)), "{first:?}");
    let [first, _] = outcomes((b"\0\0\0\x01\xc0".to_vec(), 0));
    assert!(matches!(&first, Err(LeaseError::Frame(FrameError::NoMessage(_)))), "{first:?}");
}

/// An owner that grants a lock for memory of this GPU to each that asks, and answers nothing else.
fn owner_of(gpu_uuid: &str, socket: &std::path::Path) -> thread::JoinHandle<()> {
    let listener = UnixListener::bind(socket).expect("a new socket");
    let granted = granted(Granted::Read, gpu_uuid);
    thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().expect("a client");
            read_frame(&mut stream);
            stream.write_all(&granted).expect("a client");
            let _ended = stream.read(&mut [0; 100]);
        }
    })
}

#[test]
fn memory_of_another_gpu_is_refused() {
    let machine = rmm_sim::Machine::new();
    let _here = machine.enter();
    let folder = tempfile::tempdir().expect("a folder");
    let device = rmm_core::Device::new(0).expect("the software device has one");
    let real = folder.path().join("real");
    let real = Server::bind(real, device, ServerOptions::default()).expect("a new socket");
    let own = real.identity().gpu_uuid.clone();
    let other = "GPU-00000000-0000-0000-0000-000000000007";
    // The device has another number in each process, and is found by its UUID.
    let socket = folder.path().join("other.sock");
    let owner = owner_of(other, &socket);
    for _ in 0..2 {
        let lease = Lease::connect(&socket, Lock::Read, None).expect("it is granted");
        let error = LeasedMemoryResource::new(lease).expect_err("no such device");
        let LeaseError::Memory(error) = error else { panic!("{error}") };
        assert!(error.is_unsupported() && error.to_string().contains(other), "{error}");
    }
    owner.join().expect("it does not panic");
    // Another one behind the same socket.
    let socket = folder.path().join("owner.sock");
    let first = owner_of(&own, &socket);
    let lease = Lease::connect(&socket, Lock::Read, None).expect("it is granted");
    let pages = LeasedMemoryResource::new(lease).expect("the device is here");
    // SAFETY: nothing is mapped.
    unsafe { pages.detach() }.expect("it reads");
    drop(Lease::connect(&socket, Lock::Read, None));
    first.join().expect("it does not panic");
    std::fs::remove_file(&socket).expect("it is there");
    let second = owner_of(other, &socket);
    for _ in 0..2 {
        let error = pages.attach_to_any_owner(None).expect_err("another GPU");
        assert!(matches!(&error, LeaseError::Layout(text) if text.contains(other)), "{error}");
        assert_eq!(pages.lock(), None);
    }
    second.join().expect("it does not panic");
}

#[test]
fn an_owner_that_says_nothing_is_not_said_to_be_free() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("owner.sock");
    let _listener = UnixListener::bind(&socket).expect("a new socket");
    let late = Lease::connect(&socket, Lock::Write, Some(Instant::now()));
    let Err(LeaseError::Deadline(holders)) = &late else { panic!("{late:?}") };
    assert_eq!(*holders, []);
    let text = late.expect_err("as above").to_string();
    assert!(text.contains("may be stopped"), "{text}");
}

#[test]
fn a_resource_is_printed_while_a_request_runs() {
    let machine = rmm_sim::Machine::new();
    let here = machine.enter();
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("owner.sock");
    let listener = UnixListener::bind(&socket).expect("a new socket");
    let device = rmm_core::Device::new(0).expect("the software device has one");
    let real = Server::bind(folder.path().join("real"), device, ServerOptions::default());
    let gpu_uuid = real.expect("a new socket").identity().gpu_uuid.clone();
    let (sender, receiver) = mpsc::channel::<LeasedMemoryResource>();
    let owner = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        read_frame(&mut stream);
        stream.write_all(&granted(Granted::Write, &gpu_uuid)).expect("a client");
        let pages = receiver.recv().expect("a resource");
        read_frame(&mut stream);
        let text = format!("{pages:?}");
        let list = Message::ListAllocationsResponse { allocations: Vec::new() };
        stream.write_all(&frame(&list)).expect("a client");
        text
    });
    let lease = Lease::connect(&socket, Lock::Write, None).expect("it is granted");
    let pages = LeasedMemoryResource::new(lease).expect("the device is here");
    sender.send(pages.clone()).expect("the owner waits for it");
    assert_eq!(pages.list().expect("it is answered in time"), []);
    let text = owner.join().expect("it does not panic");
    assert!(text.contains("device") && !text.contains("mapped_bytes"), "{text}");
    assert!(format!("{pages:?}").contains("mapped_bytes: 0"), "no request runs");
    drop((pages, here));
}

#[test]
fn an_owner_that_goes_ends_the_wait_for_its_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("owner.sock");
    let listener = UnixListener::bind(&socket).expect("a new socket");
    let owner = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        read_frame(&mut stream);
    });
    let ended = Lease::connect(&socket, Lock::Read, None);
    assert!(matches!(ended, Err(LeaseError::Ended)), "{ended:?}");
    owner.join().expect("it does not panic");
}

#[test]
fn what_an_owner_says_before_it_closes_the_connection_is_heard() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("owner.sock");
    let listener = UnixListener::bind(&socket).expect("a new socket");
    let owner = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        read_frame(&mut stream);
        let (message, out_of_memory) = ("it has no means left".to_owned(), false);
        let refusal = Message::ErrorResponse { message, out_of_memory };
        stream
            .write_all(&[granted(Granted::Write, ""), frame(&refusal)].concat())
            .expect("a client");
    });
    let mut lease = Lease::connect(&socket, Lock::Write, None).expect("it is granted");
    owner.join().expect("it does not panic");
    let refused = lease.list().expect_err("the connection is closed");
    assert!(refused.to_string().contains("no means"), "{refused}");
    assert!(matches!(lease.list(), Err(LeaseError::Ended)));
}
