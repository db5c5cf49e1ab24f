//! Checks of requests that fail for lack of memory.

use std::alloc::Layout;

use rmm_core::{Error, Resource};

use crate::failure::ensure;
use crate::{CheckResult, Failure, Subject};

/// Checks the error of a request that is too large, and that a resource with a limit can be filled
/// up to that limit.
///
/// 1. A refused request is an out-of-memory error that names the bytes requested. Live blocks keep
///    their contents, and the resource serves later requests.
/// 2. If the resource has a [capacity](Subject::capacity), blocks of one size fill it without a
///    byte left over. This is repeated in three sizes on two streams.
///
/// # Errors
/// A description of the first check that failed, or the error of a call.
pub fn exhaustion_is_an_error_and_passes<R: Resource>(subject: &Subject<'_, R>) -> CheckResult {
    let errors = subject.counter()?;
    let before = subject.allocate(subject.stream(), 1000)?;
    before.fill(17, 0)?;
    if let Some(too_much) = subject.too_much() {
        refused(subject, too_much)?;
    }
    if subject.capacity().is_some() {
        // Only with a limit: the resource then refuses before it calls the driver. The driver's own
        // error for a size beyond the address space may be another one.
        refused(subject, isize::MAX.unsigned_abs() - 255)?;
    }
    before.check(17, &errors)?;
    errors.expect_none(subject.stream(), "a refused request changed a live block")?;
    drop(before);
    super::memory::memory_is_usable(subject)?;

    let Some(capacity) = subject.capacity() else { return Ok(()) };
    let eighth = u32::try_from(capacity / 32).map_err(Failure::new)?;
    for words in [eighth, 8 * eighth, 2 * eighth, 8 * eighth] {
        let mut live = Vec::new();
        let other = subject.other_stream()?;
        let last = loop {
            let stream = if live.len() % 2 == 0 { subject.stream() } else { &other };
            match subject.allocate(stream, words) {
                Ok(block) => {
                    block.fill(words, 0)?;
                    live.push(block);
                }
                Err(error) => break error,
            }
        };
        is_out_of_memory(&last)?;
        let held = live.len() * usize::try_from(words).map_err(Failure::new)? * 4;
        ensure(held == capacity, || {
            format!(
                "only {held} of {capacity} bytes could be allocated in blocks of {words} words: {last}"
            )
        })?;
        for block in &live {
            block.check(words, &errors)?;
        }
        errors.expect_none(subject.stream(), "blocks up to the limit share memory")?;
        errors.expect_none(&other, "blocks up to the limit share memory")?;
    }
    Ok(())
}

/// Checks that both ways to allocate refuse `bytes` with an out-of-memory error that names them.
fn refused<R: Resource>(subject: &Subject<'_, R>, bytes: usize) -> CheckResult {
    let layout = Layout::from_size_align(bytes, 256).map_err(Failure::new)?;
    let (resource, stream) = (subject.resource(), subject.stream().as_stream_ref());
    for outcome in [resource.allocate(stream, layout), resource.allocate_sync(layout)] {
        match outcome {
            Ok(pointer) => {
                return Err(Failure::new(format!(
                    "a request for {bytes} bytes returned {pointer:?}"
                )));
            }
            Err(error) => {
                is_out_of_memory(&error)?;
                ensure(error.requested() == Some(bytes), || {
                    format!("the error does not name the {bytes} bytes requested: {error}")
                })?;
            }
        }
    }
    Ok(())
}

/// Checks that the error is an out-of-memory error.
fn is_out_of_memory(error: &Error) -> CheckResult {
    ensure(error.is_out_of_memory(), || {
        format!("the request failed, but not for lack of memory: {error}")
    })
}
