//! Checking whole programs: under several schedules, or under every one.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmm_sim::{Checker, Kernel, Machine, Schedule};
use rmm_sys::{CuContext, CuDevice, CuDevicePtr, CuResult};

use crate::common::{Log, MIB, alloc, event, stream};

/// The message of a check that fails.
fn report_of(check: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(check)).expect_err("there is something to find");
    *payload.downcast::<String>().expect("a report is a text")
}

pub(crate) fn make_current() {
    let mut context = CuContext::NULL;
    ok!(cuInit(0));
    ok!(cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(0)));
    ok!(cuCtxSetCurrent(context));
}

fn write(machine: &Machine, stream: rmm_sys::CuStream, memory: CuDevicePtr) {
    let kernel = Kernel::new("write", |_| ()).writes(memory, MIB);
    machine.launch(stream, kernel).expect("the stream and the memory are the machine's");
}

/// Two streams write the same memory, ordered or not.
pub(crate) fn two_writers(machine: &Machine, in_order: bool) {
    make_current();
    let (a, b, done, memory) = (stream(), stream(), event(), alloc(MIB));
    write(machine, a, memory);
    if in_order {
        ok!(cuEventRecord(done, a));
        ok!(cuStreamWaitEvent(b, done, 0));
    }
    write(machine, b, memory);
    ok!(cuEventDestroy_v2(done));
    ok!(cuMemFree_v2(memory));
    ok!(cuStreamDestroy_v2(a));
    ok!(cuStreamDestroy_v2(b));
}

#[test]
fn a_correct_program_passes() {
    rmm_sim::check(|machine| two_writers(machine, true));
}

#[test]
fn a_violation_is_reported_once_with_all_its_schedules() {
    let report = report_of(|| rmm_sim::check(|machine| two_writers(machine, false)));
    assert_eq!(report.matches("race: 1048576 bytes at d0+0x0").count(), 1, "{report}");
    assert!(report.contains("under all 10 schedules:"), "{report}");
}

/// A race on a thread that the program starts.
fn race_elsewhere(machine: &Machine, enters: bool) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _here = enters.then(|| machine.enter());
            two_writers(machine, false);
        });
    });
}

/// For tests of which at most one may run in a process: they give a machine to all threads, or
/// expect that none is given.
fn machine_of_all_threads() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn calls_of_threads_that_entered_no_machine_fail_a_check() {
    let _alone = machine_of_all_threads();
    let schedules = [Schedule::Lazy];
    let report = report_of(|| {
        Checker::new().schedules(schedules).run(|_| {
            std::thread::spawn(make_current).join().expect("it has a machine of its own");
        });
    });
    assert!(report.contains("not checked: 2 driver calls, the first cuInit"), "{report}");
    let report = report_of(|| {
        Checker::new().schedules(schedules).run(|machine| race_elsewhere(machine, true));
    });
    assert!(report.contains("race: 1048576 bytes"), "{report}");
}

#[test]
fn threads_that_cannot_enter_a_machine_use_that_of_all_threads() {
    let _alone = machine_of_all_threads();
    let checker = Checker::new().schedules([Schedule::Lazy]).enter_all_threads(true);
    let report = report_of(|| checker.run(|machine| race_elsewhere(machine, false)));
    assert!(report.contains("race: 1048576 bytes") && !report.contains("not checked"), "{report}");
    checker.run(|machine| {
        std::thread::spawn(make_current).join().expect("the driver is there");
        assert_eq!(machine.calls(), 3);
    });
}

#[test]
fn a_thread_of_a_pool_enters_until_it_ends() {
    Checker::new().schedules([Schedule::Lazy]).run(|machine| {
        let on_start = || machine.enter_until_thread_ends();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                on_start();
                make_current();
            });
        });
        assert_eq!(machine.calls(), 3);
    });
}

#[test]
fn all_threads_enter_one_machine_at_a_time() {
    let _alone = machine_of_all_threads();
    let (first, second) = (Machine::new(), Machine::new());
    let of_first = first.enter_all_threads();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _of_second = second.enter_all_threads();
            ok!(cuInit(0));
        });
        // The other thread waits for this, if it has started.
        std::thread::yield_now();
        assert_eq!(second.calls(), 0);
        drop(of_first);
    });
    assert_eq!((first.calls(), second.calls()), (0, 1));
    let here = first.enter_all_threads();
    let twice = catch_unwind(AssertUnwindSafe(|| second.enter_all_threads()));
    assert!(twice.is_err(), "it would wait for itself");
    drop(here);
}

#[test]
fn a_program_without_driver_calls_fails_a_check() {
    let report = report_of(|| rmm_sim::check(|_| ()));
    assert!(report.contains("nothing was checked: the program made no driver call"), "{report}");
}

#[test]
fn a_violation_is_reported_with_its_call_sites() {
    let report = report_of(|| rmm_sim::check(|machine| two_writers(machine, false)));
    // Each access was made by `write`, which `two_writers` called.
    let sites = report.lines().filter(|line| line.contains("tests/sim/checker.rs:"));
    assert!(sites.count() >= 4, "{report}");
    assert!(report.contains("the second access was made at\n"), "{report}");
    // No frames of the device, the runtime or the test runner.
    assert!(!report.contains("src/") && !report.contains("call_once"), "{report}");
    assert!(report.lines().count() < 20, "{report}");
}

#[test]
fn leaks_are_reported_unless_disabled() {
    let leaks = |_: &Machine| {
        make_current();
        alloc(MIB);
    };
    let report = report_of(|| rmm_sim::check(leaks));
    assert!(report.contains("not released: 1048576 bytes"), "{report}");
    assert!(report.contains("current resource is not dropped: reset it"), "{report}");
    Checker::new().leaks(false).run(leaks);
}

#[test]
fn a_panic_is_reported_with_the_schedules_that_cause_it() {
    let hasty = |machine: &Machine| {
        make_current();
        let stream = stream();
        Log::default().enqueue(machine, stream, 1);
        let done = cu!(cuStreamQuery(stream));
        ok!(cuStreamDestroy_v2(stream));
        assert_eq!(done, CuResult::SUCCESS, "too slow");
    };
    let schedules = [Schedule::Eager, Schedule::Lazy];
    let report = report_of(|| Checker::new().schedules(schedules).run(hasty));
    assert!(report.contains("with Schedule::Lazy:\n  panicked: "), "{report}");
    assert!(report.contains("too slow") && !report.contains("Eager"), "{report}");
}

#[test]
fn work_that_is_left_queued_is_run_and_checked() {
    let report = report_of(|| {
        rmm_sim::check(|machine| {
            make_current();
            let kernel = Kernel::new("broken", |_| panic!("on purpose"));
            machine.launch(rmm_sys::CuStream::NULL, kernel).expect("the device has that stream");
        });
    });
    assert!(report.contains("under all 10 schedules:\n  kernel panicked: broken"), "{report}");
}

#[test]
fn machines_are_built_as_configured() {
    let description = Machine::builder().devices(3).memory(4 * MIB);
    Checker::new().machine(description).run(|_| {
        make_current();
        let mut count = 0;
        ok!(cuDeviceGetCount(&raw mut count));
        assert_eq!(count, 3);
        let mut pointer = CuDevicePtr::NULL;
        assert_eq!(cu!(cuMemAlloc_v2(&raw mut pointer, 5 * MIB)), CuResult::OUT_OF_MEMORY);
    });
}

#[test]
fn an_item_may_run_before_any_call_or_none() {
    let courses = RefCell::new(BTreeSet::new());
    let explored = rmm_sim::explore(100, |machine| {
        make_current();
        let (stream, log) = (stream(), Log::default());
        log.enqueue(machine, stream, 1);
        let mut course = Vec::new();
        for _ in 0..4 {
            let mut context = CuContext::NULL;
            ok!(cuCtxGetCurrent(&raw mut context));
            course.push(log.seen().len());
        }
        courses.borrow_mut().insert(course);
        ok!(cuStreamDestroy_v2(stream));
    });
    // It may run before each of the five later calls, or after the program. The program cannot
    // distinguish the last two.
    assert_eq!((explored.runs, explored.is_complete), (6, true));
    assert_eq!(courses.take().len(), 5);
}

#[test]
fn unordered_items_run_in_every_order() {
    let orders = RefCell::new(BTreeSet::new());
    let explored = rmm_sim::explore(1000, |machine| {
        make_current();
        let (streams, log) = ([stream(), stream(), stream()], Log::default());
        for (number, &stream) in (0..).zip(&streams) {
            log.enqueue(machine, stream, number);
        }
        ok!(cuCtxSynchronize());
        orders.borrow_mut().insert(log.seen());
        for stream in streams {
            ok!(cuStreamDestroy_v2(stream));
        }
    });
    assert!(explored.is_complete);
    assert_eq!(orders.take().len(), 6);
}

/// Fails only if the first stream's work runs after one query and before the next.
fn rarely_wrong(machine: &Machine) {
    make_current();
    let (a, b, log) = (stream(), stream(), Log::default());
    log.enqueue(machine, a, 1);
    log.enqueue(machine, b, 2);
    let first = cu!(cuStreamQuery(a)).is_success();
    let seen = log.seen();
    ok!(cuStreamDestroy_v2(a));
    ok!(cuStreamDestroy_v2(b));
    assert!(!(first && seen == [2, 1]), "the rare schedule");
}

#[test]
fn a_failed_exploration_reports_a_script_that_reproduces_it() {
    let report = report_of(|| {
        rmm_sim::explore(1000, rarely_wrong);
    });
    assert!(report.contains("Schedule::Scripted(&[2, 1])"), "{report}");
    let again = [Schedule::Lazy, Schedule::Scripted(&[2, 1])];
    let report = report_of(|| Checker::new().schedules(again).run(rarely_wrong));
    assert!(report.contains("with Schedule::Scripted(&[2, 1]):\n  panicked: "), "{report}");
    assert!(report.contains("the rare schedule") && !report.contains("Lazy"), "{report}");
}

#[test]
fn exploration_ends_at_the_limit() {
    let explored = rmm_sim::explore(7, |machine| two_writers(machine, true));
    assert_eq!((explored.runs, explored.is_complete), (7, false));
}

/// Allocates two blocks and frees them. The careless program leaks the first if the second
/// allocation fails.
fn two_blocks(machine: &Machine, careful: bool) {
    machine.without_faults(make_current);
    let allocate = || {
        let mut pointer = CuDevicePtr::NULL;
        cu!(cuMemAlloc_v2(&raw mut pointer, MIB)).result().map(|()| pointer)
    };
    let Ok(first) = allocate() else { return };
    let second = allocate();
    if careful || second.is_ok() {
        let _ = cu!(cuMemFree_v2(first));
    }
    if let Ok(second) = second {
        let _ = cu!(cuMemFree_v2(second));
    }
}

#[test]
fn each_call_fails_in_turn() {
    let outcomes = RefCell::new(Vec::new());
    let failed = rmm_sim::fail_each_call(CuResult::UNKNOWN, |machine| {
        two_blocks(machine, true);
        outcomes.borrow_mut().push((machine.failed_calls(), machine.leaks().len()));
    });
    assert_eq!(failed, 4);
    let [allocation, free] = ["cuMemAlloc_v2", "cuMemFree_v2"].map(|name| vec![name]);
    let expected =
        [(allocation.clone(), 0), (allocation, 0), (free.clone(), 1), (free, 1), (vec![], 0)];
    assert_eq!(outcomes.take(), expected);
}

#[test]
fn a_leak_after_a_failed_call_is_reported_with_the_call() {
    let report = report_of(|| {
        rmm_sim::fail_each_call(CuResult::OUT_OF_MEMORY, |machine| two_blocks(machine, false));
    });
    assert!(report.contains("if cuMemAlloc_v2 returns"), "{report}");
    assert!(report.contains("Fault::any_call(2, ..)\n  not released: 1048576 bytes"), "{report}");
}

#[test]
fn a_program_that_fails_without_faults_is_reported() {
    let report = report_of(|| {
        rmm_sim::fail_each_call(CuResult::UNKNOWN, |_| {
            panic!("hopeless");
        });
    });
    assert!(report.contains("if no call fails\n  panicked: "), "{report}");
}
