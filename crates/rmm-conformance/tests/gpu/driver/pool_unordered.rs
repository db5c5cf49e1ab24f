//! Pool memory that is freed without a stream, by `cuMemFree`: it serves again, but the pool counts
//! it as in use for ever.
//!
//! Undocumented; seen on an H200.

use rmm_conformance::{CheckResult, Failure};
use rmm_sys::{CuMemPoolAttribute, CuResult};

use super::raw::{Stream, driver, synchronize_context};
use super::raw_pool::{BLOCK, Pool};
use super::{all, answers, works};
use crate::run::in_every_place;

/// A pool of which a block was freed without a stream, and the stream that the block was allocated
/// on.
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

/// The pool counts the block as in use after a step, too.
fn stays_in_use(step: impl Fn(&Pool, &Stream) -> CuResult) -> CheckResult {
    let (pool, own) = freed_without_a_stream()?;
    let code = step(&pool, &own);
    all([
        works("the step", code),
        answers("the bytes in use", &used(&pool), &Ok(BLOCK as u64)),
        pool.reserves("after the step", BLOCK),
    ])
}

#[test]
fn it_counts_after_the_call() {
    in_every_place(|| stays_in_use(|_, _| CuResult::SUCCESS));
}

#[test]
fn it_counts_after_a_query_of_the_stream() {
    in_every_place(|| stays_in_use(|_, own| own.query()));
}

#[test]
fn it_counts_after_a_wait_for_the_stream() {
    in_every_place(|| {
        let (pool, own) = freed_without_a_stream()?;
        let code = own.synchronize();
        all([works("the wait", code), answers("in use", &used(&pool), &Ok(BLOCK as u64))])
    });
}

#[test]
fn it_counts_after_a_wait_for_the_context() {
    in_every_place(|| {
        let (pool, _own) = freed_without_a_stream()?;
        let code = synchronize_context();
        all([works("the wait", code), answers("in use", &used(&pool), &Ok(BLOCK as u64))])
    });
}

#[test]
fn it_counts_when_the_memory_has_gone() {
    in_every_place(|| {
        let (pool, _own) = freed_without_a_stream()?;
        let code = pool.trim_to(0);
        all([
            works("the trim", code),
            answers("the bytes in use", &used(&pool), &Ok(BLOCK as u64)),
            pool.reserves("after the trim", 0),
        ])
    });
}

#[test]
fn it_counts_beside_the_next_allocation() {
    in_every_place(|| {
        let (pool, own) = freed_without_a_stream()?;
        let again = pool.allocate(BLOCK, &own)?;
        all([
            answers("the bytes in use", &used(&pool), &Ok(2 * BLOCK as u64)),
            pool.reserves("for both", BLOCK),
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
