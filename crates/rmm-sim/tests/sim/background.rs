//! Work that runs while the program makes no call.

use std::sync::mpsc::channel;

use rmm_sim::{Kernel, Schedule};
use rmm_sys::CuResult;

use crate::common::{alloc, event, start, stream};

/// A kernel that reports that it runs.
fn reporting() -> (Kernel, std::sync::mpsc::Receiver<()>) {
    let (sender, has_run) = channel();
    (Kernel::new("report", move |_| sender.send(()).expect("the test receives")), has_run)
}

#[test]
fn work_runs_in_order_without_a_call() {
    let (machine, _here) = start(Schedule::Lazy);
    let _running = machine.run_in_background();
    let (first, second, event) = (stream(), stream(), event());
    let (sender, order) = channel();
    let numbered = |number: u32| {
        let sender = sender.clone();
        Kernel::new("number", move |_| sender.send(number).expect("the test receives"))
    };
    machine.launch(first, numbered(1)).unwrap();
    ok!(cuEventRecord(event, first));
    ok!(cuStreamWaitEvent(second, event, 0));
    machine.launch(second, numbered(2)).unwrap();
    assert_eq!((order.recv(), order.recv()), (Ok(1), Ok(2)));
}

#[test]
fn work_waits_for_calls_again_once_the_guard_is_dropped() {
    let (machine, _here) = start(Schedule::Lazy);
    let stream = stream();
    let running = machine.run_in_background();
    let (kernel, has_run) = reporting();
    machine.launch(stream, kernel).unwrap();
    has_run.recv().expect("it runs");
    drop(running);
    let (kernel, has_run) = reporting();
    machine.launch(stream, kernel).unwrap();
    assert!(has_run.try_recv().is_err());
    assert_eq!(cu!(cuStreamQuery(stream)), CuResult::NOT_READY);
    ok!(cuStreamSynchronize(stream));
    has_run.recv().expect("it runs");
}

#[test]
fn races_are_reported_although_the_work_ran_in_order() {
    let (machine, _here) = start(Schedule::Lazy);
    let (first, second, memory) = (stream(), stream(), alloc(4096));
    let _running = machine.run_in_background();
    let (sender, has_run) = channel();
    let write = Kernel::new("write", move |_| sender.send(()).expect("the test receives"));
    machine.launch(first, write.writes(memory, 4096)).unwrap();
    has_run.recv().expect("it runs");
    machine.launch(second, Kernel::new("read", |_| ()).reads(memory, 4096)).unwrap();
    assert_eq!(machine.violations().len(), 1);
}

#[test]
fn a_kernel_may_wait_for_the_thread_that_polls() {
    for seed in 0..8 {
        let (machine, _here) = start(Schedule::Seeded(seed));
        let stream = stream();
        let _running = machine.run_in_background();
        let (go, gone) = channel::<()>();
        let wait = Kernel::new("wait", move |_| gone.recv().expect("the test sends"));
        machine.launch(stream, wait).unwrap();
        for _ in 0..16 {
            assert_eq!(cu!(cuStreamQuery(stream)), CuResult::NOT_READY);
        }
        go.send(()).expect("the kernel waits");
        while cu!(cuStreamQuery(stream)) == CuResult::NOT_READY {}
    }
}

#[test]
fn a_second_thread_runs_what_a_kernel_waits_for() {
    let (machine, _here) = start(Schedule::Lazy);
    let (first, second) = (stream(), stream());
    let _running = [machine.run_in_background(), machine.run_in_background()];
    let (go, gone) = channel::<()>();
    let (sender, has_run) = channel();
    let wait = Kernel::new("wait", move |_| {
        gone.recv().expect("the other kernel sends");
        sender.send(()).expect("the test receives");
    });
    machine.launch(first, wait).unwrap();
    let release = Kernel::new("release", move |_| go.send(()).expect("the first kernel waits"));
    machine.launch(second, release).unwrap();
    has_run.recv().expect("both run");
}
