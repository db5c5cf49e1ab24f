//! The socket of an owner: who serves it, and who may connect.
#![cfg(target_os = "linux")]

mod owner;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use owner::Owner;
use rmm_core::Device;
use rmm_lease::protocol::{Granted, Lock, Message, encode};
use rmm_lease::{Lease, LeaseError, LeasedMemoryResource, Server, ServerOptions};

fn device() -> Device {
    Device::new(0).expect("the software device has one")
}

/// What the owner sends until it ends the session.
fn rest_of(mut stream: &UnixStream) -> Vec<u8> {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("{error}"),
        _ => answer,
    }
}

#[test]
fn one_owner_serves_a_socket() {
    let owner = Owner::start();
    let _here = owner.machine.enter();
    let mode = fs::metadata(owner.socket()).expect("it exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let second = Server::bind(owner.socket(), device(), ServerOptions::default());
    assert_eq!(second.expect_err("one is enough").kind(), std::io::ErrorKind::AddrInUse);
    assert_eq!(owner.connect(Lock::Write).lock(), Granted::Write, "the first one still serves");
}

#[test]
fn an_owner_replaces_nothing_but_sockets_that_were_left_behind() {
    let mut owner = Owner::start();
    owner.end();
    let _here = owner.machine.enter();
    let bind = || {
        let outcome = Server::bind(owner.socket(), device(), ServerOptions::default());
        outcome.map(drop).map_err(|error| (error.kind(), error.to_string()))
    };
    fs::write(owner.socket(), "weights").expect("a new file");
    let (kind, text) = bind().expect_err("it is a file");
    assert_eq!(kind, std::io::ErrorKind::AlreadyExists, "{text}");
    assert!(text.contains("owner.sock"), "{text}");
    assert_eq!(fs::read(owner.socket()).expect("it is there"), b"weights");
    fs::rename(owner.socket(), owner.socket().parent().expect("a folder").join("file"))
        .expect("it is there");
    std::os::unix::fs::symlink("file", owner.socket()).expect("a new link");
    assert_eq!(bind().expect_err("it is a link").0, std::io::ErrorKind::AlreadyExists);
    fs::remove_file(owner.socket()).expect("it is there");

    // Of an owner that has no lock beside its socket.
    let foreign = std::os::unix::net::UnixListener::bind(owner.socket()).expect("a new socket");
    let (kind, text) = bind().expect_err("someone serves it");
    assert_eq!(kind, std::io::ErrorKind::AddrInUse, "{text}");
    UnixStream::connect(owner.socket()).expect("it still serves");
    drop(foreign);
    bind().expect("it was left behind");
}

#[test]
fn a_connection_that_asks_for_nothing_is_ended() {
    let mut options = ServerOptions::default();
    options.handshake = Duration::from_millis(50);
    let owner = Owner::start_with(options);
    let silent = UnixStream::connect(owner.socket()).expect("an owner");
    let mut half = UnixStream::connect(owner.socket()).expect("an owner");
    half.write_all(b"\0\0").expect("an owner");
    // It asks, and reads no answer.
    let mut deaf = UnixStream::connect(owner.socket()).expect("an owner");
    let holders = encode(&Message::HoldersRequest {}).expect("it is small").repeat(10_000);
    deaf.set_nonblocking(true).expect("a socket");
    let _sent = deaf.write(&holders);
    for stream in [&silent, &half] {
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        let answer = rest_of(stream);
        let is_error = answer.windows(14).any(|part| part == b"error_response");
        assert!(is_error, "{answer:?}");
    }
    assert_eq!(owner.connect(Lock::Write).lock(), Granted::Write);
}

#[test]
fn a_wait_that_is_given_up_leaves_no_request() {
    let owner = Owner::start();
    let here = owner.machine.enter();
    let mut reader = owner.connect(Lock::Write);
    reader.commit().expect("it writes");
    let mut asked = 0;
    let given_up = Lease::connect_while(owner.socket(), Lock::Write, None, || {
        asked += 1;
        asked < 3
    });
    assert!(matches!(given_up, Err(LeaseError::GivenUp)), "{given_up:?}");
    assert_eq!(asked, 3);
    // A writer that waits would hold it up, and free what is committed later.
    let deadline = Some(Instant::now() + Duration::from_secs(20));
    let other = Lease::connect(owner.socket(), Lock::Read, deadline).expect("no one waits");
    drop(other);
    let pages = LeasedMemoryResource::new(reader).expect("the device is here");
    // SAFETY: nothing is mapped.
    unsafe { pages.detach() }.expect("it reads");
    let writer = owner.connect(Lock::Write);
    let given_up = pages.attach_while(None, false, || false);
    assert!(matches!(given_up, Err(LeaseError::GivenUp)), "{given_up:?}");
    assert_eq!(pages.lock(), None);
    drop((writer, pages, here));
    let soon = Some(Instant::now() + Duration::from_secs(20));
    let absent = owner.socket().with_extension("other");
    let given_up = Lease::connect_while(absent, Lock::Read, soon, || false);
    assert!(matches!(given_up, Err(LeaseError::GivenUp)), "{given_up:?}");
}

#[test]
fn a_lock_that_is_free_is_granted_also_at_the_deadline() {
    let owner = Owner::start();
    let _here = owner.machine.enter();
    let now = || Some(Instant::now());
    let mut writer = Lease::connect(owner.socket(), Lock::Write, now()).expect("it is free");
    writer.commit().expect("it writes");
    let pages = LeasedMemoryResource::new(writer).expect("the device is here");
    let late = Lease::connect(owner.socket(), Lock::Write, now());
    assert!(matches!(late, Err(LeaseError::Deadline(_))), "one reads: {late:?}");
    // SAFETY: nothing is mapped.
    unsafe { pages.detach() }.expect("it reads");
    pages.attach(now()).expect("it is free");
}

#[test]
fn an_owner_that_ends_leaves_the_socket_that_another_has_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = rmm_sim::Machine::new();
    let _here = machine.enter();
    let socket = folder.path().join("owner.sock");
    let bind = || Server::bind(&socket, device(), ServerOptions::default()).expect("its own");
    let first = bind();
    fs::remove_file(&socket).expect("it is there");
    fs::remove_file(folder.path().join("owner.sock.lock")).expect("it is there");
    let second = bind();
    drop(first);
    assert!(UnixStream::connect(&socket).is_ok(), "the second serves");
    drop(second);
    assert!(!socket.exists());
}

/// A folder whose path is too long for a socket's.
fn deep_folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = folder.path().join("d".repeat(100));
    fs::create_dir(&deep).expect("a new folder");
    (folder, deep)
}

#[test]
fn a_name_that_is_too_long_is_refused_and_leaves_nothing() {
    let (_folder, deep) = deep_folder();
    let _here = rmm_sim::enter();
    let refused = Server::bind(deep.join("s"), device(), ServerOptions::default());
    let error = refused.expect_err("it is too long");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidFilename);
    assert!(error.to_string().contains("107"), "{error}");
    assert_eq!(fs::read_dir(&deep).expect("it is ours").count(), 0);
}

#[test]
fn an_owner_is_found_by_a_path_that_is_too_long_for_a_socket() {
    let (folder, deep) = deep_folder();
    let machine = rmm_sim::Machine::new();
    let _here = machine.enter();
    // As by a relative path.
    let short = folder.path().join("short");
    std::os::unix::fs::symlink(&deep, &short).expect("a new name");
    let options = ServerOptions::default();
    let mut server = Server::bind(short.join("s"), device(), options).expect("a new socket");
    let (stop, other) = UnixStream::pair().expect("the system has sockets");
    let there = machine.clone();
    let thread = std::thread::spawn(move || {
        let _here = there.enter();
        server.run(other).expect("the system can wait");
    });
    let mut lease = Lease::connect(deep.join("s"), Lock::Write, None).expect("it is free");
    lease.commit().expect("it writes");
    let pages = LeasedMemoryResource::new(lease).expect("the device is here");
    // SAFETY: nothing is mapped.
    unsafe { pages.detach() }.expect("it reads");
    pages.attach(None).expect("no one writes");
    drop((pages, stop));
    thread.join().expect("it does not panic");
    let absent = Lease::connect(deep.join("s"), Lock::Write, None);
    assert!(matches!(absent, Err(LeaseError::NoOwner(..))), "{absent:?}");
}

#[test]
fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return; // only root can become another user
    }
    let owner = Owner::start();
    let _here = owner.machine.enter();
    let open = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(owner.socket().parent().expect("a folder"), open(0o755))
        .expect("it is ours");
    let other = rustix::process::Uid::from_raw(65534);
    let as_other = |attempt: fn(PathBuf) -> bool| {
        let socket = owner.socket();
        let thread = std::thread::spawn(move || {
            rustix::thread::set_thread_res_uid(other, other, other).expect("root may");
            attempt(socket)
        });
        thread.join().expect("it does not panic")
    };
    let is_no_owner = |socket: PathBuf| {
        matches!(Lease::connect(socket, Lock::Write, None), Err(LeaseError::NoOwner(..)))
    };
    assert!(as_other(is_no_owner), "by the mode");
    fs::set_permissions(owner.socket(), open(0o666)).expect("it is ours");
    assert!(as_other(is_no_owner), "an owner of another user is not trusted");
    let is_ended = |socket: PathBuf| {
        let mut stream = UnixStream::connect(socket).expect("the mode allows it");
        let request = Message::HandshakeRequest { lock_type: Lock::Write, expected_identity: None };
        let _ended = stream.write_all(&encode(&request).expect("it is small"));
        rest_of(&stream).is_empty()
    };
    assert!(as_other(is_ended), "nor does the owner serve one");
}

#[test]
fn no_owner_is_an_error_by_the_deadline() {
    let mut owner = Owner::start();
    owner.end();
    for deadline in [None, Some(Instant::now() + Duration::from_millis(30))] {
        let error = Lease::connect(owner.socket(), Lock::Read, deadline).expect_err("no owner");
        assert!(matches!(error, LeaseError::NoOwner(..)), "{error}");
    }
}
