//! Owners, writers and readers that are killed in each state, and owners that are stopped.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::DeviceBuffer;
use rmm_core::CudaStream;
use rmm_core::peer::end_of;
use rmm_lease::protocol::{Granted, Lock, LockHolder, Message, encode};
use rmm_lease::{Lease, LeaseError, LeasedMemoryResource};
use rmm_resources::ImportAccess;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, getpid, kill_process};

use super::{BYTES, Site, TOTAL, apart, fill, free, last_byte, map, owners, soon, stop};

/// What a process of these tests does.
pub(super) fn play(role: &str, socket: &Path, say: impl Fn(&str), wait: impl Fn()) {
    let connect = |lock| Lease::connect(socket, lock, Some(soon())).expect("it is granted");
    match role {
        "writer without a descriptor" | "writer with a descriptor" => {
            let mut lease = connect(Lock::Write);
            lease.allocate("weights", BYTES).expect("there is memory");
            let _file = role.contains("with a").then(|| lease.export("weights"));
            say("has it");
            wait();
        }
        "writer within a request" => {
            let lock_type = Lock::Write;
            let begin = Message::HandshakeRequest { lock_type, expected_identity: None };
            let (allocation_id, aligned_size) = ("weights".to_owned(), BYTES);
            let allocate = Message::AllocateRequest { allocation_id, aligned_size };
            let mut stream = UnixStream::connect(socket).expect("an owner");
            for message in [begin, allocate] {
                stream.write_all(&encode(&message).expect("it is small")).expect("an owner");
                let _answer = stream.read(&mut [0; 1000]).expect("it answers");
            }
            let commit = encode(&Message::CommitRequest {}).expect("it is small");
            stream.write_all(&commit[..commit.len() - 1]).expect("an owner");
            say("has it");
            wait();
        }
        "writer with a child" => {
            let stream = UnixStream::connect(socket).expect("an owner");
            // The child gets the connection, too, as one that was forked does.
            fcntl_setfd(&stream, FdFlags::empty()).expect("it is open");
            let mut child = Command::new("sleep").arg("1000").spawn().expect("it is a program");
            let lock_type = Lock::Write;
            let begin = Message::HandshakeRequest { lock_type, expected_identity: None };
            (&stream).write_all(&encode(&begin).expect("it is small")).expect("an owner");
            let _answer = (&stream).read(&mut [0; 1000]).expect("it answers");
            say("writes");
            wait();
            kill_process(getpid(), Signal::KILL).expect("it is this process");
            let _never = child.wait();
        }
        "writer that is not heard" => {
            let stream = UnixStream::connect(socket).expect("an owner");
            fcntl_setfd(&stream, FdFlags::empty()).expect("it is open");
            let lock_type = Lock::Write;
            let begin = Message::HandshakeRequest { lock_type, expected_identity: None };
            (&stream).write_all(&encode(&begin).expect("it is small")).expect("its queue");
            // It ends with the input that the test gives this process.
            let mut child = Command::new("cat").spawn().expect("it is a program");
            say("asks");
            kill_process(getpid(), Signal::KILL).expect("it is this process");
            let _never = child.wait();
        }
        "reader with a descriptor" => {
            let _file = connect(Lock::Read).export("weights").expect("it is committed");
            say("has it");
            wait();
        }
        "writer of an owner that goes" => {
            let mut lease = connect(Lock::Write);
            lease.allocate("weights", BYTES).expect("there is memory");
            let memory = map(&mut lease, ImportAccess::ReadWrite);
            fill(&memory, 7);
            say("has written");
            wait();
            let error = lease.commit().expect_err("the owner has gone");
            say(&format!("{error}, {}", last_byte(&memory)));
            wait();
        }
        "waiter" => {
            say("asks");
            let error = Lease::connect(socket, Lock::Write, Some(soon())).expect_err("no lock");
            say(&error.to_string());
            wait();
        }
        "sleeper" => {
            let pages = LeasedMemoryResource::new(connect(Lock::Read)).expect("a device");
            pages.map("weights").expect("it is committed");
            // SAFETY: nothing uses the memory.
            unsafe { pages.detach() }.expect("it reads");
            say("sleeps");
            wait();
            let error = pages.attach(None).expect_err("no owner");
            say(if matches!(error, LeaseError::NoOwner(..)) { "no owner" } else { "?" });
            wait();
            let error = pages.attach(None).expect_err("another owner");
            say(&error.to_string());
            wait();
        }
        "writer with a pool" => {
            let pages = LeasedMemoryResource::new(connect(Lock::Write)).expect("a device");
            let pool = PoolMemoryResource::builder(pages).build().expect("a pool");
            let stream = CudaStream::new().expect("a device");
            drop(DeviceBuffer::zeroed_in(1 << 20, &stream, &pool).expect("there is memory"));
            say("holds memory");
            wait();
            for bytes in 1..1000 {
                drop(DeviceBuffer::zeroed_in(bytes, &stream, &pool).expect("the pool holds it"));
            }
            say("was served");
            wait();
        }
        other => owners::play(other, socket, say, wait),
    }
}

#[test]
fn a_killed_writer_leaves_nothing_whatever_it_had() {
    let site = Site::new();
    let (owner, _) = site.start("owner");
    for role in [
        "writer without a descriptor",
        "writer with a descriptor",
        "writer within a request",
        "writer",
    ] {
        let (writer, _) = site.start(role);
        assert!(free() < TOTAL, "{role}");
        writer.kill();
        let mut lease = site.connect(Lock::WriteOrRead);
        assert_eq!(lease.lock(), Granted::Write, "{role}");
        assert_eq!(lease.list().expect("it writes"), [], "{role}");
        assert_eq!(free(), TOTAL, "{role}");
    }
    owner.end();
}

#[test]
fn a_writer_that_was_killed_before_it_was_heard_holds_no_one_up() {
    let site = Site::new();
    let (owner, _) = site.start("owner");
    stop(&owner);
    let (mut writer, _) = site.start("writer that is not heard");
    assert!(!writer.child.wait().expect("it was started here").success());
    owner.signal(Signal::CONT);
    let deadline = Some(Instant::now() + Duration::from_secs(20));
    let lease = Lease::connect(site.socket(), Lock::Write, deadline);
    assert_eq!(lease.expect("the writer was killed").lock(), Granted::Write);
}

#[test]
fn a_killed_writer_of_another_namespace_whose_child_lives_on_holds_no_one_up() {
    let Some(apart) = apart() else { return };
    if end_of(&UnixStream::pair().expect("the system has sockets").0).is_err() {
        return; // before Linux 6.5
    }
    let site = Site::new();
    // Neither sees the other.
    let (_owner, _) = site.start_by(apart, "owner");
    // The namespace goes with its first process, which is not the writer.
    let starter = [apart, &["sh", "-c", "\"$0\" \"$@\"; sleep 1000"]].concat();
    let (mut writer, said) = site.start_by(&starter, "writer with a child");
    assert_eq!(said, "writes");
    let late = site.within(Lock::Write, Duration::from_millis(50));
    let holder = LockHolder { process: 0, lock: Granted::Write };
    assert!(matches!(&late, LeaseError::Deadline(holders) if *holders == [holder]), "{late}");
    writer.go_on();
    let deadline = Some(Instant::now() + Duration::from_secs(20));
    let lease = Lease::connect(site.socket(), Lock::Write, deadline);
    assert_eq!(lease.expect("the writer was killed").lock(), Granted::Write);
}

#[test]
fn a_killed_reader_has_nothing_between_export_and_import() {
    let site = Site::new();
    let (owner, _) = site.start("owner");
    site.start("committed writer").0.kill();
    let (reader, _) = site.start("reader with a descriptor");
    reader.kill();
    assert!(free() < TOTAL, "it is the owner's");
    assert_eq!(site.connect(Lock::Write).list().expect("it writes"), []);
    assert_eq!(free(), TOTAL);
    owner.end();
}

#[test]
fn what_an_owner_had_goes_when_it_is_killed_and_what_others_mapped_stays() {
    let site = Site::new();
    let (owner, _) = site.start("owner");
    site.start("committed writer").0.kill();
    assert!(free() < TOTAL);
    owner.kill();
    assert_eq!(free(), TOTAL, "no one had mapped it");
    let late = site.within(Lock::Read, Duration::from_millis(30));
    assert!(matches!(late, LeaseError::NoOwner(..)), "{late}");

    let (owner, _) = site.start("owner");
    let (mut writer, _) = site.start("writer of an owner that goes");
    owner.kill();
    writer.go_on();
    assert_eq!(writer.hear(), "the session with the owner is over, 7");
    let (owner, _) = site.start("owner");
    assert_eq!(site.connect(Lock::Write).list().expect("it writes"), [], "a new owner");
    assert!(free() < TOTAL, "it is mapped");
    writer.end();
    assert_eq!(free(), TOTAL);
    owner.end();
}

#[test]
fn a_killed_owner_ends_the_waits_of_other_processes() {
    let site = Site::new();
    let (owner, _) = site.start("owner");
    site.start("committed writer").0.kill();
    let reader = site.connect(Lock::Read);
    let (mut waiter, _) = site.start("waiter");
    let waits = || {
        let deadline = Some(Instant::now() + Duration::from_millis(50));
        Lease::connect(site.socket(), Lock::Read, deadline).is_err()
    };
    let end = soon();
    while !waits() {
        assert!(Instant::now() < end, "readers wait for a writer that waits");
    }
    owner.kill();
    assert_eq!(waiter.hear(), "the session with the owner is over");
    drop(reader);
}

#[test]
fn a_sleeper_says_that_its_owner_was_killed() {
    let site = Site::new();
    let (owner, _) = site.start("owner");
    site.start("committed writer").0.kill();
    let (mut sleeper, _) = site.start("sleeper");
    owner.kill();
    assert_eq!(free(), TOTAL, "it has mapped nothing");
    sleeper.go_on();
    assert_eq!(sleeper.hear(), "no owner");
    let (owner, _) = site.start("owner");
    site.start("committed writer").0.kill();
    sleeper.go_on();
    let text = sleeper.hear();
    assert!(text.contains("another owner"), "{text}");
    sleeper.kill();
    assert_eq!(site.connect(Lock::Write).lock(), Granted::Write, "it holds no lock");
    owner.end();
}

#[test]
fn a_pool_serves_what_it_holds_while_the_owner_is_stopped() {
    let site = Site::new();
    let (owner, _) = site.start("owner");
    let (mut writer, _) = site.start("writer with a pool");
    stop(&owner);
    writer.go_on();
    assert_eq!(writer.hear(), "was served");
    owner.signal(Signal::CONT);
    writer.end();
    owner.end();
    assert_eq!(free(), TOTAL);
}
