//! The stress can fail: the allocator with the bug of RMM #2490 is found by what memory holds, on a
//! GPU as on the software device, and on the latter by its missing order too.

use rmm_conformance::{DeviceHandle, Environment, Failure, Place};
use rmm_sim::ViolationKind;

use super::rounds::{Plan, round};
use super::worker::Figures;
use crate::merging::{Bug, Merging};

/// Rounds at most. Whether a wrong order shows in what memory holds is up to the device: mostly in
/// the first.
const ROUNDS: u64 = 50;
/// Steps of each thread of such a round.
const STEPS: u32 = 100;
/// About half as many as the threads would hold, so that lists are merged all the time.
const BLOCKS: usize = 20;

/// A round over the allocator with its bug.
fn stress_the_bug(environment: &Environment, seed: u64) -> Result<Figures, Failure> {
    round(environment, |_| Merging::new(Bug::Present, 4 << 20, BLOCKS), |_| (), seed, STEPS)
}

/// The seed of the first round in which words were wrong, and what was said.
fn wrong_words(place: Place) -> Result<Option<(u64, Failure)>, Failure> {
    let first = Plan::from_environment()?.seed;
    // On the software device too, what is seen is only what a GPU would show.
    let environment = Environment::open_unwatched(place)?;
    Ok((first..first + ROUNDS)
        .find_map(|seed| stress_the_bug(&environment, seed).err().map(|failure| (seed, failure))))
}

#[test]
fn a_merge_without_record_is_found_by_wrong_words() {
    for place in Place::selected().unwrap_or_else(|failure| panic!("{failure}")) {
        match wrong_words(place) {
            Ok(Some((seed, failure))) if failure.to_string().contains("words are wrong") => {
                eprintln!("{place:?}: found in the round of seed {seed}: {failure}");
            }
            other => panic!("{place:?}: not found: {other:?}"),
        }
    }
}

#[test]
fn a_merge_without_record_is_found_by_its_missing_order() {
    for place in Place::selected().unwrap_or_else(|failure| panic!("{failure}")) {
        let environment = Environment::open(place).unwrap_or_else(|failure| panic!("{failure}"));
        let DeviceHandle::Software(machine) = environment.handle().clone() else { continue };
        let is_found = (0..ROUNDS).any(|seed| {
            // The words may be right.
            let _ignored = stress_the_bug(&environment, seed);
            let mut found = machine.violations().into_iter();
            found.any(|violation| violation.kind == ViolationKind::AllocatedInUse)
        });
        assert!(is_found, "{place:?}: {:?}", machine.violations());
    }
}
