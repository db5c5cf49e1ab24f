//! Owners that fork, or have no file descriptors left.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rmm_lease::protocol::Lock;
use rmm_lease::{Lease, LeaseError, Server, ServerOptions};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::{BYTES, Site, device, soon};

/// What a process of these tests does.
pub(super) fn play(role: &str, socket: &Path, say: impl Fn(&str), wait: impl Fn()) {
    if role == "owner with one descriptor left" {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = Some(64);
        setrlimit(Resource::Nofile, limit).expect("a lower one");
    }
    let options = ServerOptions::default();
    let mut server = Server::bind(socket, device(), options).expect("a new socket");
    match role {
        "owner with one descriptor left" => {
            let mut files: Vec<File> =
                std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
            drop(files.pop());
            say("serves");
            server.run(std::io::stdin()).expect("the system can wait");
        }
        "owner that forks" => {
            let (_stop, other) = UnixStream::pair().expect("the system has sockets");
            thread::scope(|scope| {
                scope.spawn(|| server.run(other));
                say("serves");
                wait();
                fork_one_that_waits();
                say("has forked");
            });
        }
        other => panic!("unknown role {other}"),
    }
}

/// Forks a child that lives until the standard input ends.
fn fork_one_that_waits() {
    // SAFETY: the child makes system calls alone, and ends.
    if unsafe { libc::fork() } == 0 {
        let mut byte = 0_u8;
        // SAFETY: the place is of one byte.
        while unsafe { libc::read(0, (&raw mut byte).cast(), 1) } > 0 {}
        // SAFETY: it ends this process alone.
        unsafe { libc::_exit(0) };
    }
}

#[test]
fn a_child_that_a_killed_owner_has_forked_does_not_seem_to_serve() {
    let site = Site::new();
    let (mut owner, _) = site.start("owner that forks");
    let mut lease = site.connect(Lock::Write);
    lease.set_answer_time(Duration::from_secs(20));
    owner.go_on();
    assert_eq!(owner.hear(), "has forked");
    lease.allocate("weights", BYTES).expect("the owner goes on");
    let _input_of_the_child = owner.input.take();
    owner.kill();
    assert!(matches!(lease.list(), Err(LeaseError::Ended)));
    let refused = Lease::connect(site.socket(), Lock::Write, None).expect_err("no one serves");
    assert!(matches!(refused, LeaseError::NoOwner(..)), "{refused}");
    let (_owner, said) = site.start("owner");
    assert_eq!(said, "serves");
}

#[test]
fn a_session_whose_process_the_owner_cannot_watch_is_refused() {
    let site = Site::new();
    let (owner, _) = site.start("owner with one descriptor left");
    let refused = Lease::connect(site.socket(), Lock::Write, Some(soon())).expect_err("no means");
    assert!(matches!(refused, LeaseError::Refused(_)), "{refused}");
    assert!(refused.to_string().contains("Too many open files"), "{refused}");
    owner.end();
}
