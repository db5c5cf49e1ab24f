//! Pool memory that is freed without a stream, by `cuMemFree`: when the pool notices.
//!
//! Nobody documents it. An H200 was seen to count the memory as in use after the call; the software device does so until somebody
//! waits or the pool's next allocation. What a device does is told, and what may be is all that is claimed.

use rmm_conformance::{Failure, Outcome};
use rmm_sys::{CuMemPoolAttribute, CuResult};

use super::raw::{Stream, driver, synchronize_context};
use super::raw_pool::{BLOCK, Pool};
use super::{all, answers, is_one_of, tell, works};
use crate::run::in_every_place;

/// A pool of which a block was freed without a stream, and the stream that the block was allocated on.
fn freed_without_a_stream() -> Result<(Pool, Stream), Failure> {
    let (pool, own) = (Pool::that_keeps(0)?, Stream::non_blocking()?);
    let block = pool.allocate(BLOCK, &own)?;
    works("the wait for the allocation", own.synchronize())?;
    // SAFETY: allocated above, and no work uses it.
    works("the free", unsafe { driver().cuMemFree_v2(block.pointer) })?;
    Ok((pool, own))
}

fn used(pool: &Pool) -> Result<u64, CuResult> {
    pool.get(CuMemPoolAttribute::USED_MEM_CURRENT)
}

/// Tells whether the pool counts the block as in use after a step.
fn notices(what: &str, step: impl Fn(&Pool, &Stream) -> CuResult) -> Outcome {
    let (pool, own) = freed_without_a_stream()?;
    let code = step(&pool, &own);
    let found = used(&pool);
    tell(&format!("the bytes in use after a free without a stream and {what}"), &found);
    all([works(what, code), is_one_of(what, &found, &[Ok(0), Ok(BLOCK as u64)])])
}

#[test]
fn the_call_is_not_noticed_at_once() {
    in_every_place(|| {
        let (pool, _own) = freed_without_a_stream()?;
        all([
            answers("the bytes in use", &used(&pool), &Ok(BLOCK as u64)),
            pool.reserves("after the free", BLOCK),
        ])
    });
}

#[test]
fn a_query_may_notice() {
    in_every_place(|| notices("a query of the stream", |_, own| own.query()));
}

#[test]
fn a_wait_for_the_stream_may_notice() {
    in_every_place(|| notices("a wait for the stream", |_, own| own.synchronize()));
}

#[test]
fn a_wait_for_another_stream_may_notice() {
    in_every_place(|| {
        let other = Stream::non_blocking()?;
        notices("a wait for another stream", |_, _| other.synchronize())
    });
}

#[test]
fn a_wait_for_the_legacy_stream_may_notice() {
    in_every_place(|| notices("a wait for the legacy stream", |_, _| Stream::LEGACY.synchronize()));
}

#[test]
fn a_wait_for_the_context_may_notice() {
    in_every_place(|| notices("a wait for the context", |_, _| synchronize_context()));
}

#[test]
fn trimming_may_notice() {
    in_every_place(|| {
        let (pool, _own) = freed_without_a_stream()?;
        let code = pool.trim_to(0);
        let reserved = pool.get(CuMemPoolAttribute::RESERVED_MEM_CURRENT);
        let found = used(&pool);
        tell("the bytes in use after a free without a stream and a trim", &found);
        tell("the bytes reserved then", &reserved);
        let either = [Ok(0), Ok(BLOCK as u64)];
        all([
            works("the trim", code),
            is_one_of("the bytes in use", &found, &either),
            is_one_of("the bytes reserved", &reserved, &either),
        ])
    });
}

#[test]
fn the_next_allocation_may_notice() {
    in_every_place(|| {
        let (pool, own) = freed_without_a_stream()?;
        let again = pool.allocate(BLOCK, &own)?;
        let (found, reserved) = (used(&pool), pool.get(CuMemPoolAttribute::RESERVED_MEM_CURRENT));
        tell("the bytes in use after a free without a stream and another allocation", &found);
        tell("the bytes reserved then", &reserved);
        let one_or_both = [Ok(BLOCK as u64), Ok(2 * BLOCK as u64)];
        all([
            is_one_of("the bytes in use", &found, &one_or_both),
            is_one_of("the bytes reserved", &reserved, &one_or_both),
            again.free(&own),
            works("the wait at the end", own.synchronize()),
        ])
    });
}

/// Sooner or later it has to be there for others.
#[test]
fn the_memory_serves_once_more_in_a_pool_that_holds_no_other() {
    in_every_place(|| {
        let (pool, own) = (Pool::that_keeps(BLOCK)?, Stream::non_blocking()?);
        let block = pool.allocate(BLOCK, &own)?;
        works("the wait for the allocation", own.synchronize())?;
        // SAFETY: allocated above, and no work uses it.
        works("the free", unsafe { driver().cuMemFree_v2(block.pointer) })?;
        works("the wait for the context", synchronize_context())?;
        let again = pool.allocate(BLOCK, &own)?;
        all([again.free(&own), works("the wait at the end", own.synchronize())])
    });
}
