//! Requests for no bytes. That they are granted was seen on an H200; no documentation says which
//! address they get, so the address is printed and not asserted.

use rmm_sys::{CuDevicePtr, CuResult};

use super::memory::{free_pinned, pinned};
use super::raw::{Stream, driver};
use super::raw_pool::Pool;
use super::{all, answers, report, works};
use crate::run::in_every_place_unwatched;

#[test]
fn no_bytes_of_pinned_memory_are_given_and_taken_back() {
    in_every_place_unwatched(|| {
        let given = pinned(0, 0);
        report("no bytes of pinned memory", &given);
        let Ok(pointer) = given else {
            return answers("asking for them", &given.err(), &None);
        };
        // SAFETY: given above, and there is nothing to use.
        works("the free", unsafe { free_pinned(pointer) })
    });
}

#[test]
fn no_bytes_of_a_pool_are_given_and_taken_back() {
    in_every_place_unwatched(|| {
        let (pool, own) = (Pool::made(0)?, Stream::non_blocking()?);
        let given = pool.allocate(0, &own).map(|block| block.pointer);
        report("no bytes of a pool", &given);
        let Ok(pointer) = given else {
            return answers("asking for them", &given.err(), &None);
        };
        all([
            pool.hands_out("with no bytes allocated", 0),
            // SAFETY: given above, and there is nothing to use.
            works("the free", unsafe { driver().cuMemFreeAsync(pointer, own.raw()) }),
            works("the wait at the end", own.synchronize()),
        ])
    });
}

#[test]
fn no_bytes_of_the_current_pool_are_given_and_taken_back() {
    in_every_place_unwatched(|| {
        let own = Stream::non_blocking()?;
        let mut pointer = CuDevicePtr::NULL;
        // SAFETY: `pointer` may be written to, and the stream exists.
        let code = unsafe { driver().cuMemAllocAsync(&raw mut pointer, 0, own.raw()) };
        report("no bytes of the current pool", &(code, pointer));
        if code != CuResult::SUCCESS {
            return works("asking for them", code);
        }
        all([
            // SAFETY: given above, and there is nothing to use.
            works("the free", unsafe { driver().cuMemFreeAsync(pointer, own.raw()) }),
            works("the wait at the end", own.synchronize()),
        ])
    });
}
