//! The checks can fail: each resource here breaks the contract in one way, and a check says so.

#[path = "broken/resource.rs"]
mod resource;

use resource::{Broken, Fault};
use rmm_conformance::{
    CheckResult, DeviceHandle, Environment, Place, StreamChoice, Subject, run_in, suite,
};

type Check = fn(&Subject<'_, Broken>) -> CheckResult;

fn run(fault: Fault, check: Check) -> CheckResult {
    // The software device would report some of these itself; a GPU reports none.
    run_on(&Environment::open_unwatched(Place::Lazy)?, fault, check)
}

fn run_on(environment: &Environment, fault: Fault, check: Check) -> CheckResult {
    run_in(environment, StreamChoice::NonBlocking, None, || Ok(Broken::new(fault)), check)
}

/// Asserts that the check finds the fault, and says it in words that hold `what`.
#[track_caller]
fn is_caught(fault: Fault, check: Check, what: &str) {
    match run(fault, check) {
        Ok(()) => panic!("{fault:?} was not caught"),
        Err(failure) => {
            assert!(failure.to_string().contains(what), "{fault:?} was caught, but: {failure}");
        }
    }
}

#[test]
fn a_resource_without_fault_passes_every_check() {
    let checks: &[Check] = &[
        suite::adopted_streams_may_be_destroyed,
        suite::alignments_are_honoured,
        suite::buffers_hold_their_bytes,
        suite::buffers_move_between_streams,
        suite::current_resource_serves_containers,
        suite::equality_and_erasure_keep_the_resource,
        suite::exhaustion_is_an_error_and_passes,
        suite::freed_on_another_stream_keeps_order,
        suite::halves_are_written_by_two_streams,
        suite::handed_over_between_streams_keeps_order,
        suite::live_blocks_never_overlap,
        suite::logs_name_each_allocation_and_its_free,
        suite::memory_is_usable,
        suite::merged_blocks_keep_order,
        suite::pinned_vectors_wait_for_their_copies,
        suite::reuse_on_one_stream_keeps_order,
        suite::synchronous_memory_is_free_of_earlier_work,
        suite::synchronous_memory_is_usable_on_every_stream,
        suite::threads_share_a_resource,
        suite::values_travel_with_the_call,
        suite::vectors_hold_their_elements,
        suite::zero_bytes_are_free,
    ];
    for check in checks {
        assert_eq!(run(Fault::None, *check), Ok(()));
    }
}

#[test]
fn a_block_handed_out_twice_is_caught() {
    let fault = Fault::HandsOutTwice;
    is_caught(fault, suite::live_blocks_never_overlap, "live blocks overlap");
    is_caught(fault, suite::threads_share_a_resource, "words are wrong");
    is_caught(fault, suite::logs_name_each_allocation_and_its_free, "words are wrong");
}

#[test]
fn memory_that_overlaps_unseen_is_caught_by_its_contents() {
    let fault = Fault::HandsOutTwice;
    let contents: Check = |subject| {
        let errors = subject.counter()?;
        let first = subject.allocate(subject.stream(), 100)?;
        first.fill(1, 0)?;
        let second = subject.allocate(subject.stream(), 100)?;
        second.fill(2, 0)?;
        first.check(1, &errors)?;
        errors.expect_none(subject.stream(), "overlap")
    };
    assert_eq!(run(Fault::None, contents), Ok(()));
    is_caught(fault, contents, "overlap: 100 words are wrong");
}

#[test]
fn memory_shared_by_streams_without_order_is_caught() {
    let fault = Fault::IgnoresStreamOrder;
    let what = "written to by earlier work";
    is_caught(fault, suite::handed_over_between_streams_keeps_order, what);
    is_caught(fault, suite::freed_on_another_stream_keeps_order, what);
    is_caught(fault, suite::adopted_streams_may_be_destroyed, what);
    is_caught(fault, suite::buffers_move_between_streams, what);
    let what = "written to by another";
    is_caught(fault, suite::synchronous_memory_is_free_of_earlier_work, what);
}

#[test]
fn memory_joined_from_several_streams_without_order_is_caught() {
    let fault = Fault::JoinsWithoutOrder;
    is_caught(fault, suite::merged_blocks_keep_order, "written to by earlier work");
}

#[test]
fn memory_written_to_on_a_stream_of_the_resource_is_caught() {
    let fault = Fault::ClearsOutOfOrder;
    is_caught(fault, suite::reuse_on_one_stream_keeps_order, "written to by earlier work");
    let what = "written to by another";
    is_caught(fault, suite::synchronous_memory_is_usable_on_every_stream, what);
}

#[test]
fn the_software_device_sees_missing_order_even_when_nothing_goes_wrong() {
    let unordered: [(Fault, Check); 4] = [
        (Fault::IgnoresStreamOrder, suite::handed_over_between_streams_keeps_order),
        (Fault::IgnoresStreamOrder, suite::synchronous_memory_is_free_of_earlier_work),
        (Fault::JoinsWithoutOrder, suite::merged_blocks_keep_order),
        (Fault::ClearsOutOfOrder, suite::reuse_on_one_stream_keeps_order),
    ];
    for (fault, check) in unordered {
        let environment = Environment::open(Place::Lazy).unwrap();
        let DeviceHandle::Software(machine) = environment.handle() else {
            panic!("a software device was asked for")
        };
        let _ignored = run_on(&environment, fault, check);
        let races = machine.violations();
        assert!(races.iter().any(|race| race.missing.is_some()), "{fault:?}: {races:?}");
    }
    let environment = Environment::open(Place::Lazy).unwrap();
    let sound = run_on(&environment, Fault::None, suite::merged_blocks_keep_order);
    assert_eq!(sound, Ok(()));
}

#[test]
fn misaligned_memory_is_caught() {
    is_caught(Fault::Misaligns, suite::alignments_are_honoured, "aligned to 16");
}

#[test]
fn memory_for_no_bytes_is_caught() {
    is_caught(Fault::AllocatesNothing, suite::zero_bytes_are_free, "no bytes lie at");
}

#[test]
fn memory_that_is_never_given_back_is_caught() {
    is_caught(Fault::NeverFrees, suite::memory_is_usable, "left behind");
}

#[test]
fn another_error_than_out_of_memory_is_caught() {
    let what = "but not for lack of memory";
    is_caught(Fault::HidesExhaustion, suite::exhaustion_is_an_error_and_passes, what);
}

#[test]
fn a_resource_that_is_not_equal_to_itself_is_caught() {
    let fault = Fault::EqualsNobody;
    is_caught(fault, suite::equality_and_erasure_keep_the_resource, "not equal");
    is_caught(fault, suite::current_resource_serves_containers, "not the current");
    is_caught(fault, suite::buffers_hold_their_bytes, "another resource");
}

#[test]
fn a_resource_that_does_not_tell_what_its_type_claims_is_caught() {
    let what = "not reported at run time";
    is_caught(Fault::TellsNothing, suite::equality_and_erasure_keep_the_resource, what);
}
