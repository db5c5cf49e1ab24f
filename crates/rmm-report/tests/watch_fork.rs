//! A program that is watched, its children, and a watcher that is gone before its answer.

#![cfg(target_os = "linux")]

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, thread};

use rmm_adaptors::monitor;
use rmm_report::watch;

/// Runs `act` in a child of `fork`, which ends after it; returns its number, and whether it was
/// well.
fn in_child(act: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child runs `act`, for which glibc keeps the heap usable, and ends without running
    // exit handlers of the parent.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let is_well = act();
        // SAFETY: it ends the process.
        unsafe { libc::_exit(i32::from(!is_well)) };
    }
    assert!(pid > 0, "no child");
    pid
}

fn is_well(child: i32) -> bool {
    let mut status = 0;
    // SAFETY: `status` may be written to.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    waited == child && status == 0
}

/// Tests share the socket of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two ends of which each sees when the other is shut.
fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("a pair")
}

#[test]
fn a_child_neither_serves_nor_removes_the_socket_of_its_parent() {
    let _alone = alone();
    let watched = watch::serve().unwrap();
    let path = watched.path().to_owned();
    let watched = Cell::new(Some(watched));
    let (told, end) = pair();
    let (mut ready, is_ready) = pair();
    // The child closes its handle to the parent's socket, and serves itself.
    let child = in_child(|| {
        let before = path.exists();
        drop(watched.take());
        let kept = path.exists();
        let Ok(own) = watch::serve() else { return false };
        let differs = own.path() != path;
        let sent = (&is_ready).write_all(b"1").is_ok();
        let waited = (&told).read(&mut [0; 1]).is_ok();
        drop(own);
        before && kept && differs && sent && waited
    });
    ready.read_exact(&mut [0; 1]).unwrap();
    let pid = u32::try_from(child).unwrap();
    assert_eq!(watch::figures(pid).unwrap().pid, pid);
    assert_eq!(watch::figures(std::process::id()).unwrap().pid, std::process::id());
    let listed = watch::watched();
    assert!(listed.contains(&pid) && listed.contains(&std::process::id()), "{listed:?}");
    end.shutdown(Shutdown::Both).unwrap();
    assert!(is_well(child));
    assert!(watch::figures(pid).is_err());
    assert_eq!(watch::figures(std::process::id()).unwrap().pid, std::process::id());
    drop(watched.take());
    assert!(!path.exists());
    let refused = watch::figures(std::process::id()).unwrap_err().to_string();
    assert!(refused.contains("it does not let itself be watched"), "{refused}");
}

#[test]
fn a_watcher_that_is_gone_sends_no_signal() {
    let _alone = alone();
    let (told, end) = pair();
    let (mut ready, is_ready) = pair();
    let child = in_child(|| {
        // As in a program of C, or one of Python that ends with its reader.
        // SAFETY: the signal's default action replaces a handler that is of no use here.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let Ok(_own) = watch::serve() else { return false };
        (&is_ready).write_all(b"1").is_ok() && (&told).read(&mut [0; 1]).is_ok()
    });
    ready.read_exact(&mut [0; 1]).unwrap();
    let pid = u32::try_from(child).unwrap();
    let own = watch::serve().unwrap();
    let path = own.path().with_file_name(format!("{pid}.sock"));
    for _ in 0..20 {
        UnixStream::connect(&path).unwrap().write_all(b"page\n").unwrap();
    }
    assert_eq!(watch::figures(pid).unwrap().pid, pid);
    end.shutdown(Shutdown::Both).unwrap();
    assert!(is_well(child));
}

#[test]
fn a_child_serves_even_if_its_parent_was_about_to() {
    let _alone = alone();
    // Forks are noticed from the first call on.
    drop(watch::serve().unwrap());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(watch::serve().unwrap());
            }
        });
        for _ in 0..100 {
            let child = in_child(|| {
                // SAFETY: it ends the child where it waits for ever.
                unsafe { libc::alarm(20) };
                watch::serve().is_ok()
            });
            assert!(is_well(child));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_child_reads_even_if_its_parent_was_about_to() {
    let _alone = alone();
    // Forks are noticed from the first call on.
    drop(monitor::read());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                monitor::unregister("none");
            }
        });
        let reads = || {
            // SAFETY: it ends the child where it waits for ever.
            unsafe { libc::alarm(20) };
            monitor::read().pools.is_empty()
        };
        let are_well = (0..200).all(|_| is_well(in_child(reads)));
        stop.store(true, Ordering::Relaxed);
        assert!(are_well);
    });
}

#[test]
fn handles_that_come_and_go_leave_the_socket_to_the_others() {
    let _alone = alone();
    let kept = watch::serve().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| drop(watch::serve().unwrap())));
        }
    });
    assert!(watch::figures(std::process::id()).is_ok());
    drop(kept);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let served = watch::serve().unwrap();
                    assert!(served.path().exists());
                }
            });
        }
    });
}

#[test]
fn the_thread_takes_no_signals() {
    let _alone = alone();
    let _watched = watch::serve().unwrap();
    // The thread may not have its name yet; when it has answered, it does.
    watch::figures(std::process::id()).unwrap();
    let blocked = fs::read_dir("/proc/self/task").unwrap().flatten().find_map(|task| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
        let is_it = of("Name:")?.trim() == "rmm-watch";
        is_it.then(|| of("SigBlk:").unwrap_or_default().trim().to_owned())
    });
    let blocked = u64::from_str_radix(&blocked.expect("the thread"), 16).unwrap();
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGCHLD];
    assert!(signals.iter().all(|signal| blocked >> (signal - 1) & 1 == 1), "{blocked:x}");
}
