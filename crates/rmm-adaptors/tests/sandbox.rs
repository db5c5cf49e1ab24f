//! Tests of programs that forbid themselves a system call after their start, as sandboxes do. A
//! separate binary, which runs itself as a child process: a seccomp filter lasts to the end of a
//! process, and the process that aborts must not be the test.

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

/// Runs the named test of this binary in a child process, with `RMM_FENCES` as given; returns
/// `None` in that child process.
fn in_child(test: &str, fences: &str) -> Option<Output> {
    if std::env::var_os(IN_CHILD).is_some() {
        return None;
    }
    let mut command = Command::new(std::env::current_exe().expect("this program has a file"));
    command.args([test, "--exact", "--nocapture"]).env(IN_CHILD, "1").env("RMM_FENCES", fences);
    Some(command.output().expect("the program runs"))
}

/// Whether the kernel offers `membarrier` to this process.
fn has_membarrier() -> bool {
    // SAFETY: a query, which takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) > 0 }
}

/// Makes `membarrier` fail from now on, on this thread and all threads created later.
fn forbid_membarrier() {
    let instruction = |code: u32, jf, k| libc::sock_filter {
        code: u16::try_from(code).expect("codes are small"),
        jt: 0,
        jf,
        k,
    };
    let call = u32::try_from(libc::SYS_membarrier).expect("numbers of system calls are small");
    let denied = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM).expect("errors are small");
    let mut filter = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0), // the call's number
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call),
        instruction(libc::BPF_RET | libc::BPF_K, 0, denied),
        instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: it takes no pointers.
    let promised = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(promised, 0, "{}", std::io::Error::last_os_error());
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the filter and its four instructions live to the end of the call, which copies them.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Builds a pool, forbids the call, and takes blocks from the cache of another thread.
fn trim_in_a_sandbox(symmetric_fences: bool) {
    let machine = Machine::builder().memory(64 << 20).enter();
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
            // The thread is still alive when its cache is flushed.
            is_trimmed.recv().expect("the test sends");
        });
        is_cached.recv().expect("the thread sends");
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
fn an_abort_in_a_sandbox_explains_itself() {
    let Some(output) = in_child("an_abort_in_a_sandbox_explains_itself", "") else {
        return trim_in_a_sandbox(false);
    };
    if !has_membarrier() {
        return assert_success(&output);
    }
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    let output_text = String::from_utf8_lossy(&output.stderr);
    for words in ["membarrier", "RMM_FENCES=symmetric", "symmetric_fences(true)"] {
        assert!(output_text.contains(words), "{words} is not in: {output_text}");
    }
}
