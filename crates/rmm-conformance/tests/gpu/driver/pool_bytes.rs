//! Pool statistics, and what makes pools release memory.

use rmm_conformance::CheckResult;
use rmm_sys::{CuMemPoolAttribute, CuResult};

use super::raw::{Event, Stream, synchronize_context};
use super::raw_pool::{BLOCK, Pool};
use super::stall::Stall;
use super::{all, answers, is_refused, report, works};
use crate::run::{in_every_environment, in_every_place, in_every_place_unwatched};

const COUNTERS: [CuMemPoolAttribute; 4] = [
    CuMemPoolAttribute::RESERVED_MEM_CURRENT,
    CuMemPoolAttribute::RESERVED_MEM_HIGH,
    CuMemPoolAttribute::USED_MEM_CURRENT,
    CuMemPoolAttribute::USED_MEM_HIGH,
];
const SWITCHES: [CuMemPoolAttribute; 3] = [
    CuMemPoolAttribute::REUSE_FOLLOW_EVENT_DEPENDENCIES,
    CuMemPoolAttribute::REUSE_ALLOW_OPPORTUNISTIC,
    CuMemPoolAttribute::REUSE_ALLOW_INTERNAL_DEPENDENCIES,
];

#[test]
fn a_new_pool_is_empty_and_may_reuse_in_every_way() {
    in_every_place(|| {
        let pool = Pool::made(0)?;
        for counter in COUNTERS {
            pool.counts("of a new pool", counter, 0)?;
        }
        pool.counts("of a new pool", CuMemPoolAttribute::RELEASE_THRESHOLD, 0)?;
        for switch in SWITCHES {
            answers(&format!("{switch:?} of a new pool"), &pool.is_on(switch), &Ok(true))?;
        }
        Ok(())
    });
}

#[test]
fn a_pool_keeps_what_it_is_told() {
    in_every_place(|| {
        let pool = Pool::made(0)?;
        for switch in SWITCHES {
            for on in [false, true] {
                works("switching", pool.switch(switch, on))?;
                answers(&format!("{switch:?}"), &pool.is_on(switch), &Ok(on))?;
            }
        }
        let threshold = CuMemPoolAttribute::RELEASE_THRESHOLD;
        for bytes in [1, BLOCK as u64, u64::MAX, 0] {
            works("setting the threshold", pool.set(threshold, bytes))?;
            answers("the threshold", &pool.get(threshold), &Ok(bytes))?;
        }
        Ok(())
    });
}

#[test]
fn counters_are_counted_and_not_set() {
    in_every_place_unwatched(|| {
        let pool = Pool::made(0)?;
        for counter in COUNTERS {
            is_refused(&format!("setting {counter:?} to 1"), pool.set(counter, 1))?;
        }
        for counter in
            [CuMemPoolAttribute::RESERVED_MEM_CURRENT, CuMemPoolAttribute::USED_MEM_CURRENT]
        {
            is_refused(&format!("setting {counter:?} to 0"), pool.set(counter, 0))?;
        }
        Ok(())
    });
}

/// A byte counts as one, although no other block lies in the same 512 bytes.
#[test]
fn blocks_count_as_the_bytes_that_were_asked_for() {
    in_every_place(|| {
        let (pool, own) = (Pool::that_keeps(0)?, Stream::non_blocking()?);
        let mut claims = Vec::new();
        for bytes in [1, 2, 255, 511, 512, 513, 1000, 4097, (1 << 20) + 1, (2 << 20) + 1] {
            let block = pool.allocate(bytes, &own)?;
            let found = pool.get(CuMemPoolAttribute::USED_MEM_CURRENT);
            report(&format!("the bytes in use with {bytes} allocated"), &found);
            claims.push(answers(&format!("{bytes} bytes count as"), &found, &Ok(bytes as u64)));
            claims.push(block.free(&own));
            claims.push(works("the wait", own.synchronize()));
            claims.push(pool.hands_out(&format!("with {bytes} bytes freed"), 0));
        }
        all(claims)
    });
}

#[test]
fn blocks_begin_at_multiples_of_512_bytes() {
    in_every_place(|| {
        let (pool, own) = (Pool::that_keeps(0)?, Stream::non_blocking()?);
        let mut claims = Vec::new();
        let sizes = [1, 512, 513, 1, 4097];
        let blocks = sizes.map(|bytes| pool.allocate(bytes, &own));
        for (bytes, block) in sizes.into_iter().zip(blocks) {
            let block = block?;
            let address = block.pointer.0;
            let what = format!("the address of {bytes} bytes, {address:#x}, modulo 512");
            claims.push(answers(&what, &(address % 512), &0));
            claims.push(block.free(&own));
        }
        claims.push(works("the wait", own.synchronize()));
        all(claims)
    });
}

#[test]
fn freed_memory_is_not_in_use_from_the_call_on() {
    in_every_environment(|environment| {
        let (pool, own) = (Pool::that_keeps(0)?, Stream::non_blocking()?);
        let block = pool.allocate(BLOCK, &own)?;
        works("the wait", own.synchronize())?;
        pool.hands_out("before the free", BLOCK)?;
        let stall = Stall::on(environment.handle(), &own)?;
        block.free(&own)?;
        pool.hands_out("while the free is pending", 0)?;
        pool.reserves("while the free is pending", BLOCK)?;
        stall.release()?;
        works("the wait at the end", own.synchronize())?;
        pool.reserves("after the wait", BLOCK)
    });
}

#[test]
fn trimming_takes_what_nobody_has() {
    in_every_place(|| {
        let (pool, own) = (Pool::that_keeps(0)?, Stream::non_blocking()?);
        let (first, second) = (pool.allocate(BLOCK, &own)?, pool.allocate(BLOCK, &own)?);
        pool.reserves("for two blocks", 2 * BLOCK)?;
        works("trimming a pool in use", pool.trim_to(0))?;
        pool.reserves("after trimming a pool in use", 2 * BLOCK)?;
        first.free(&own)?;
        works("the wait", own.synchronize())?;
        works("trimming to all there is", pool.trim_to(2 * BLOCK))?;
        pool.reserves("after trimming to all there is", 2 * BLOCK)?;
        works("trimming beside a live block", pool.trim_to(0))?;
        pool.reserves("after trimming beside a live block", BLOCK)?;
        pool.hands_out("after trimming beside a live block", BLOCK)?;
        second.free(&own)?;
        works("the wait at the end", own.synchronize())?;
        works("trimming to what is left", pool.trim_to(BLOCK))?;
        pool.reserves("after trimming to what is left", BLOCK)?;
        works("trimming to a byte less", pool.trim_to(BLOCK - 1))?;
        pool.reserves("at least what was to be kept", BLOCK)?;
        works("trimming to nothing", pool.trim_to(0))?;
        pool.reserves("after trimming to nothing", 0)
    });
}

/// Also what the device has completed, as far as the host has asked.
#[test]
fn trimming_takes_nothing_that_the_host_has_not_waited_for() {
    in_every_place(|| {
        let (pool, own) = (Pool::that_keeps(0)?, Stream::non_blocking()?);
        let block = pool.allocate(BLOCK, &own)?;
        block.free(&own)?;
        while own.query() == CuResult::NOT_READY {}
        works("trimming before the wait", pool.trim_to(0))?;
        pool.reserves("after trimming before the wait", BLOCK)?;
        works("the wait", own.synchronize())?;
        works("trimming after the wait", pool.trim_to(0))?;
        pool.reserves("after trimming after the wait", 0)
    });
}

fn gives_back(threshold: u64, kept: usize, wait: impl Fn(&Stream) -> CuResult) -> CheckResult {
    let (pool, own) = (Pool::that_keeps(0)?, Stream::non_blocking()?);
    works("the threshold", pool.set(CuMemPoolAttribute::RELEASE_THRESHOLD, threshold))?;
    let block = pool.allocate(BLOCK, &own)?;
    block.free(&own)?;
    pool.reserves("before the wait", BLOCK)?;
    works("the wait", wait(&own))?;
    pool.reserves("after the wait", kept)
}

#[test]
fn waiting_for_a_stream_gives_back_beyond_the_threshold() {
    in_every_place(|| {
        gives_back(0, 0, Stream::synchronize)?;
        gives_back(BLOCK as u64, BLOCK, Stream::synchronize)?;
        gives_back(u64::MAX, BLOCK, Stream::synchronize)
    });
}

#[test]
fn waiting_for_an_event_gives_back_beyond_the_threshold() {
    in_every_place(|| {
        let event = Event::new()?;
        let wait = |own: &Stream| match event.record(own) {
            CuResult::SUCCESS => event.synchronize(),
            refused => refused,
        };
        gives_back(0, 0, wait)?;
        gives_back(u64::MAX, BLOCK, wait)
    });
}

#[test]
fn waiting_for_the_context_gives_back_beyond_the_threshold() {
    in_every_place(|| {
        gives_back(0, 0, |_| synchronize_context())?;
        gives_back(u64::MAX, BLOCK, |_| synchronize_context())
    });
}

#[test]
fn high_watermarks_stay_until_they_are_reset() {
    in_every_place(|| {
        let (pool, own) = (Pool::that_keeps(0)?, Stream::non_blocking()?);
        let (first, second) = (pool.allocate(BLOCK, &own)?, pool.allocate(BLOCK, &own)?);
        first.free(&own)?;
        works("the wait", own.synchronize())?;
        works("the trim", pool.trim_to(0))?;
        for (high, now) in [
            (CuMemPoolAttribute::USED_MEM_HIGH, CuMemPoolAttribute::USED_MEM_CURRENT),
            (CuMemPoolAttribute::RESERVED_MEM_HIGH, CuMemPoolAttribute::RESERVED_MEM_CURRENT),
        ] {
            pool.counts("with one of two blocks left", high, 2 * BLOCK)?;
            pool.counts("with one of two blocks left", now, BLOCK)?;
            works("the reset", pool.set(high, 0))?;
            pool.counts("after the reset", high, BLOCK)?;
        }
        second.free(&own)?;
        works("the wait at the end", own.synchronize())
    });
}
