//! Programs that forbid themselves a system call after their start, as sandboxes do. A program of
//! its own, which runs itself: what is forbidden stays so to the end of a process, and the one that
//! is aborted must not be the test.

#![cfg(target_os = "linux")]

use std::alloc::Layout;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};
use std::sync::mpsc;
use std::thread;

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{CudaStream, Resource, StreamFlags};
use rmm_resources::CudaMemoryResource;
use rmm_sim::Machine;

const IN_CHILD: &str = "RMM_TEST_IN_CHILD";

/// Runs the named test of this program in a process of its own, with `RMM_FENCES` as given; `None`
/// if this is that process.
fn in_child(test: &str, fences: &str) -> Option<Output> {
    if std::env::var_os(IN_CHILD).is_some() {
        return None;
    }
    let mut command = Command::new(std::env::current_exe().expect("this program has a file"));
    command.args([test, "--exact", "--nocapture"]).env(IN_CHILD, "1").env("RMM_FENCES", fences);
    Some(command.output().expect("the program runs"))
}

/// Whether the system has `membarrier` for this process.
fn has_membarrier() -> bool {
    // SAFETY: a query, which takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) > 0 }
}

/// Makes `membarrier` fail from now on, on all threads that come.
fn forbid_membarrier() {
    let instruction = |code: u32, jf, k| libc::sock_filter {
        code: u16::try_from(code).expect("codes are small"),
        jt: 0,
        jf,
        k,
    };
    let call = u32::try_from(libc::SYS_membarrier).expect("numbers of system calls are small");
    let refused = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM).expect("errors are small");
    let mut filter = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0), // the call's number
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call),
        instruction(libc::BPF_RET | libc::BPF_K, 0, refused),
        instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: it takes no pointers.
    let promised = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(promised, 0, "{}", std::io::Error::last_os_error());
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program and its four instructions live to the end of the call, which copies them.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Builds a pool, forbids the call, and takes from this thread what another one keeps at hand.
fn trim_in_a_sandbox(symmetric_fences: bool) {
    let machine = Machine::builder().memory(64 << 20).build();
    let _entered = machine.enter();
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(8 << 20);
    let pool = builder.symmetric_fences(symmetric_fences).build().expect("a pool");
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream");
    let layout = Layout::from_size_align(4096, 256).expect("a power of two");
    forbid_membarrier();
    thread::scope(|scope| {
        let ((cached, is_cached), (trimmed, is_trimmed)) = (mpsc::channel(), mpsc::channel());
        let (pool, machine, stream) = (&pool, &machine, &stream);
        scope.spawn(move || {
            let _entered = machine.enter();
            let block = pool.allocate(stream, layout).expect("a block");
            // SAFETY: allocated above with this layout, and not used.
            unsafe { pool.deallocate(stream, block, layout) };
            cached.send(()).expect("the test waits for it");
            // The thread lives while its cache is emptied.
            is_trimmed.recv().expect("the test tells");
        });
        is_cached.recv().expect("the thread tells");
        assert_eq!(pool.trim(0), 8 << 20);
        trimmed.send(()).expect("the thread waits for it");
    });
}

fn assert_success(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_pool_with_symmetric_fences_works_in_a_sandbox() {
    match in_child("a_pool_with_symmetric_fences_works_in_a_sandbox", "") {
        Some(output) => assert_success(&output),
        None => trim_in_a_sandbox(true),
    }
}

#[test]
fn a_process_with_symmetric_fences_works_in_a_sandbox() {
    match in_child("a_process_with_symmetric_fences_works_in_a_sandbox", "symmetric") {
        Some(output) => assert_success(&output),
        None => trim_in_a_sandbox(false),
    }
}

#[test]
fn a_program_that_cannot_go_on_in_a_sandbox_is_told_why() {
    let Some(output) = in_child("a_program_that_cannot_go_on_in_a_sandbox_is_told_why", "") else {
        return trim_in_a_sandbox(false);
    };
    if !has_membarrier() {
        return assert_success(&output);
    }
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    let told = String::from_utf8_lossy(&output.stderr);
    for words in ["membarrier", "RMM_FENCES=symmetric", "symmetric_fences(true)"] {
        assert!(told.contains(words), "{words} is not in: {told}");
    }
}
