//! Stream order: which stream may reuse freed memory, and when.

use rmm_core::Resource;

use super::blocks::{BLOCK_WORDS, SLOW, keep_busy, stays_intact, take_over};
use crate::{CheckResult, Subject};

/// Clause 2: memory freed on a stream may go to the next request on it at once; the work before the
/// free comes first.
///
/// # Errors
/// What is wrong.
pub fn reuse_on_one_stream_keeps_order<R: Resource>(subject: &Subject<'_, R>) -> CheckResult {
    let errors = subject.counter()?;
    for _ in 0..3 {
        let first = subject.allocate(subject.stream(), BLOCK_WORDS)?;
        keep_busy(&first)?;
        drop(first);
        let second = subject.allocate(subject.stream(), BLOCK_WORDS)?;
        stays_intact(&second, 0xb000_0000, &errors)?;
    }
    Ok(())
}

/// Clauses 1 and 2: memory freed on one stream goes to another only when the work before the free
/// comes first there: from the subject's stream to a new one, back, and from a stream that was
/// destroyed meanwhile.
///
/// In a resource whose capacity is one block of [`BLOCK_WORDS`] words, the same block must be
/// reused.
///
/// # Errors
/// What is wrong.
pub fn handed_over_between_streams_keeps_order<R: Resource>(
    subject: &Subject<'_, R>,
) -> CheckResult {
    let errors = subject.counter()?;
    let (own, other, third) = (subject.stream(), subject.other_stream()?, subject.other_stream()?);
    for (giver, taker) in [(own, &other), (&other, own), (&other, &third)] {
        let given = subject.allocate(giver, BLOCK_WORDS)?;
        keep_busy(&given)?;
        let pointer = given.pointer();
        drop(given);
        drop(take_over(subject, taker, pointer, BLOCK_WORDS, &errors)?);
    }
    for taker in [own, &other] {
        let retiring = subject.other_stream()?;
        let given = subject.allocate(&retiring, BLOCK_WORDS)?;
        keep_busy(&given)?;
        let pointer = given.pointer();
        drop(given);
        drop(retiring);
        drop(take_over(subject, taker, pointer, BLOCK_WORDS, &errors)?);
    }
    Ok(())
}

/// A block that was coalesced of neighbours, which were freed on several streams, is handed to
/// another stream only after the work of all of them, as in
/// [`handed_over_between_streams_keeps_order`].
///
/// # Errors
/// What is wrong.
pub fn merged_blocks_keep_order<R: Resource>(subject: &Subject<'_, R>) -> CheckResult {
    let errors = subject.counter()?;
    let streams = [subject.stream().clone(), subject.other_stream()?, subject.other_stream()?];
    let mut quarters = Vec::new();
    for number in 0..4 {
        let quarter = subject.allocate(&streams[number % 3], BLOCK_WORDS / 4)?;
        keep_busy(&quarter)?;
        quarters.push(quarter);
    }
    let lowest = quarters.iter().map(crate::CheckedBlock::pointer).min().unwrap_or_default();
    drop(quarters);
    let taker = subject.other_stream()?;
    drop(take_over(subject, &taker, lowest, BLOCK_WORDS, &errors)?);
    Ok(())
}

/// Clause 2: memory may be freed on another stream than it was allocated on, once its uses are
/// ordered before that.
///
/// # Errors
/// What is wrong.
pub fn freed_on_another_stream_keeps_order<R: Resource>(subject: &Subject<'_, R>) -> CheckResult {
    let errors = subject.counter()?;
    let (own, other, third) = (subject.stream(), subject.other_stream()?, subject.other_stream()?);
    for (from, to) in [(own, &other), (&other, own)] {
        for next in [to, from, &third] {
            let mut moved = subject.allocate(from, BLOCK_WORDS)?;
            moved.fill(0xa000_0000, SLOW)?;
            moved.move_to(to)?;
            moved.check(0xa000_0000, &errors)?;
            keep_busy(&moved)?;
            let pointer = moved.pointer();
            drop(moved);
            drop(take_over(subject, next, pointer, BLOCK_WORDS, &errors)?);
        }
    }
    errors.expect_none(&other, "work was not ordered behind the event")?;
    errors.expect_none(own, "work was not ordered behind the event")
}
