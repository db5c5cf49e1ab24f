//! Reuse of memory by a driver's pool, within a stream and across streams. Blocks are so large that
//! a pool that does not reuse one has to grow.

use rmm_conformance::{CheckResult, Environment, ensure};
use rmm_sys::{CuMemPoolAttribute, CuResult};

use super::raw::{Event, Stream};
use super::raw_pool::{BLOCK, CheckedBlock, Pool};
use super::stall::Stall;
use super::{answers, waits, works};
use crate::run::in_every_environment;

/// What orders the second stream behind the free.
enum Between {
    Nothing,
    /// It waits for an event that was recorded before the free.
    EarlierEvent,
    /// It waits for an event that was recorded after the free.
    Event,
    /// It waits for an event of a stream that waits for that one.
    EventOfAnother,
    /// The host has asked until the first stream had no work left.
    Query,
    /// The host has waited for the first stream.
    Host,
}

/// What an allocation was served with.
#[derive(PartialEq, Eq, Debug)]
struct Served {
    with_what_was_freed: bool,
    reserved: u64,
}

/// With the memory that the first stream freed; the pool did not grow.
const SAME_MEMORY: Served = Served { with_what_was_freed: true, reserved: BLOCK as u64 };
/// With other memory, by which the pool grew.
const OTHER_MEMORY: Served = Served { with_what_was_freed: false, reserved: 2 * BLOCK as u64 };

fn served(pool: &Pool, freed: u64, block: &CheckedBlock) -> Result<Served, CuResult> {
    let reserved = pool.get(CuMemPoolAttribute::RESERVED_MEM_CURRENT)?;
    Ok(Served { with_what_was_freed: block.pointer.0 == freed, reserved })
}

/// Frees a block in a busy stream, allocates as much in another one, and looks what serves it.
fn between_streams(
    environment: &Environment,
    prepare: impl FnOnce(&Pool) -> CuResult,
    between: &Between,
) -> Result<Served, rmm_conformance::Failure> {
    let pool = Pool::that_keeps(0)?;
    works("setting the pool up", prepare(&pool))?;
    let (event, busy, other) = (Event::new()?, Stream::non_blocking()?, Stream::non_blocking()?);
    let third = Stream::non_blocking()?;
    let first = pool.allocate(BLOCK, &busy)?;
    works("the first use", first.write(&busy, 0))?;
    works("the wait for it", busy.synchronize())?;
    let address = first.pointer.0;

    // Where the host learns of the free, no other thread waits for the stream: such a wait could
    // end after the free.
    let stall = match between {
        Between::Query | Between::Host => None,
        _ => Some(Stall::on(environment.handle(), &busy)?),
    };
    works("the first stream's work", first.write(&busy, 1))?;
    if matches!(between, Between::EarlierEvent) {
        works("the record before the free", event.record(&busy))?;
    }
    first.free(&busy)?;
    if !matches!(between, Between::EarlierEvent) {
        works("the record", event.record(&busy))?;
    }
    match between {
        Between::Nothing => {}
        Between::Event | Between::EarlierEvent => {
            works("the wait for the event", other.wait_for(&event))?;
        }
        Between::EventOfAnother => {
            works("the wait in between", third.wait_for(&event))?;
            works("the record in between", event.record(&third))?;
            works("the wait for the event", other.wait_for(&event))?;
        }
        Between::Query => while busy.query() == CuResult::NOT_READY {},
        Between::Host => works("the wait of the host", busy.synchronize())?,
    }
    let second = pool.allocate(BLOCK, &other)?;
    works("the second stream's work", second.write(&other, 2))?;
    let seen = served(&pool, address, &second)?;
    if matches!(between, Between::Nothing) {
        works("the wait for the second stream", other.synchronize())?;
    }
    if let Some(stall) = stall {
        waits("the query of the first stream", busy.query())?;
        stall.release()?;
    }
    second.holds(&other, 2)?;
    second.free(&other)?;
    works("the wait at the end", other.synchronize())?;
    works("the first stream at the end", busy.synchronize())?;
    Ok(seen)
}

fn all_off(_: &Pool) -> CuResult {
    CuResult::SUCCESS
}

fn follows_events(pool: &Pool) -> CuResult {
    pool.switch(CuMemPoolAttribute::REUSE_FOLLOW_EVENT_DEPENDENCIES, true)
}

#[test]
fn a_stream_gets_back_at_once_what_it_freed() {
    in_every_environment(|environment| {
        let (pool, busy) = (Pool::that_keeps(0)?, Stream::non_blocking()?);
        let first = pool.allocate(BLOCK, &busy)?;
        works("the first use", first.write(&busy, 0))?;
        works("the wait for it", busy.synchronize())?;
        let address = first.pointer.0;
        let stall = Stall::on(environment.handle(), &busy)?;
        works("the first work", first.write(&busy, 1))?;
        first.free(&busy)?;
        let second = pool.allocate(BLOCK, &busy)?;
        works("the second work", second.write(&busy, 2))?;
        answers("what serves it", &served(&pool, address, &second), &Ok(SAME_MEMORY))?;
        stall.release()?;
        second.holds(&busy, 2)?;
        second.free(&busy)?;
        works("the wait at the end", busy.synchronize())
    });
}

#[test]
fn nobody_gets_what_a_busy_stream_freed_without_order() {
    in_every_environment(|environment| {
        let seen = between_streams(environment, all_off, &Between::Nothing)?;
        answers("what serves the other stream", &seen, &OTHER_MEMORY)
    });
}

#[test]
fn events_alone_are_no_order_for_a_pool_that_does_not_follow_them() {
    in_every_environment(|environment| {
        let seen = between_streams(environment, all_off, &Between::Event)?;
        answers("what serves the other stream", &seen, &OTHER_MEMORY)
    });
}

#[test]
fn a_pool_that_follows_events_reuses_what_they_order() {
    in_every_environment(|environment| {
        let seen = between_streams(environment, follows_events, &Between::Event)?;
        answers("what serves the other stream", &seen, &SAME_MEMORY)
    });
}

#[test]
fn an_event_from_before_a_free_is_no_order_for_it() {
    in_every_environment(|environment| {
        let seen = between_streams(environment, follows_events, &Between::EarlierEvent)?;
        answers("what serves the other stream", &seen, &OTHER_MEMORY)
    });
}

#[test]
fn a_pool_follows_events_through_other_streams() {
    in_every_environment(|environment| {
        let seen = between_streams(environment, follows_events, &Between::EventOfAnother)?;
        answers("what serves the other stream", &seen, &SAME_MEMORY)
    });
}

#[test]
fn a_pool_that_follows_events_needs_one() {
    in_every_environment(|environment| {
        let seen = between_streams(environment, follows_events, &Between::Nothing)?;
        answers("what serves the other stream", &seen, &OTHER_MEMORY)
    });
}

#[test]
fn what_the_host_has_seen_freed_is_free_for_every_stream() {
    in_every_environment(|environment| {
        let seen = between_streams(environment, all_off, &Between::Host)?;
        answers("what serves the other stream", &seen, &SAME_MEMORY)
    });
}

fn is_opportunistic(pool: &Pool) -> CuResult {
    pool.switch(CuMemPoolAttribute::REUSE_ALLOW_OPPORTUNISTIC, true)
}

#[test]
fn a_free_that_is_not_complete_is_no_opportunity() {
    in_every_environment(|environment| {
        let seen = between_streams(environment, is_opportunistic, &Between::Nothing)?;
        answers("what serves the other stream", &seen, &OTHER_MEMORY)
    });
}

#[test]
fn a_free_that_is_complete_is_an_opportunity() {
    in_every_environment(|environment| {
        let seen = between_streams(environment, is_opportunistic, &Between::Query)?;
        answers("what serves the other stream", &seen, &SAME_MEMORY)
    });
}

#[test]
fn a_query_makes_no_free_complete_for_a_pool_that_takes_no_opportunity() {
    in_every_environment(|environment| {
        let seen = between_streams(environment, all_off, &Between::Query)?;
        answers("what serves the other stream", &seen, &OTHER_MEMORY)
    });
}

/// A pool grows before it makes a stream wait.
#[test]
fn a_pool_that_may_grow_makes_no_stream_wait() {
    in_every_environment(|environment| {
        let dependencies =
            |pool: &Pool| pool.switch(CuMemPoolAttribute::REUSE_ALLOW_INTERNAL_DEPENDENCIES, true);
        let seen = between_streams(environment, dependencies, &Between::Nothing)?;
        answers("what serves the other stream", &seen, &OTHER_MEMORY)
    });
}

#[test]
fn a_full_pool_makes_a_stream_wait_for_what_another_one_freed() {
    in_every_environment(|environment| {
        let pool = Pool::that_keeps(BLOCK)?;
        let switch = CuMemPoolAttribute::REUSE_ALLOW_INTERNAL_DEPENDENCIES;
        works("setting the pool up", pool.switch(switch, true))?;
        let (busy, other) = (Stream::non_blocking()?, Stream::non_blocking()?);
        let first = pool.allocate(BLOCK, &busy)?;
        works("the first use", first.write(&busy, 0))?;
        works("the wait for it", busy.synchronize())?;
        let address = first.pointer.0;
        let stall = Stall::on(environment.handle(), &busy)?;
        works("the first work", first.write(&busy, 1))?;
        first.free(&busy)?;
        let second = pool.allocate(BLOCK, &other)?;
        works("the second work", second.write(&other, 2))?;
        answers("what serves it", &served(&pool, address, &second), &Ok(SAME_MEMORY))?;
        waits("the query of the other stream", other.query())?;
        stall.release()?;
        second.holds(&other, 2)?;
        second.free(&other)?;
        works("the wait at the end", other.synchronize())
    });
}

#[test]
fn live_memory_of_a_pool_is_never_handed_out_twice() {
    in_every_environment(|_| {
        let (pool, own) = (Pool::that_keeps(0)?, Stream::non_blocking()?);
        let blocks = (0..4).map(|_| pool.allocate(BLOCK, &own));
        let mut blocks = blocks.collect::<Result<Vec<_>, _>>()?;
        blocks.sort_by_key(|block| block.pointer.0);
        let apart = |pair: &[CheckedBlock]| pair[1].pointer.0 - pair[0].pointer.0 >= BLOCK as u64;
        let are_apart = blocks.windows(2).all(apart);
        let outcome: CheckResult = ensure(are_apart, || {
            let starts: Vec<_> = blocks.iter().map(|block| block.pointer).collect();
            format!("blocks of {BLOCK} bytes start at {starts:x?}")
        });
        for block in blocks {
            block.free(&own)?;
        }
        works("the wait at the end", own.synchronize())?;
        outcome
    });
}
