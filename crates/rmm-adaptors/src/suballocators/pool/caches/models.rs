//! Every interleaving of a thread that uses its cache and one that flushes all: each block is in
//! one cache or list, and its own stream's.

use std::sync::Mutex as HiddenFromLoom;

use loom::sync::{Arc, Mutex};
use loom::thread;
use rmm_core::StreamRef;

use super::*;
use crate::sync::thread_token::ThreadRecord;

const SIZE: u64 = 4096;

/// The caches of a pool, with its lock.
struct Pool {
    caches: Caches,
    lock: Mutex<()>,
    /// Blocks that left the caches, and their streams.
    flushed: HiddenFromLoom<Vec<(StreamId, u64)>>,
}

impl Pool {
    /// A pool whose first cache is `me`'s for the stream.
    fn with_cache(me: ThreadToken, stream: StreamId) -> Arc<Self> {
        let caches = Caches::new(CachePolicy::OneSize(SIZE), Fences::of_process());
        caches.set_capacity_from(1 << 30, 1 << 30, 0);
        let pool = Self { caches, lock: Mutex::new(()), flushed: HiddenFromLoom::default() };
        pool.make(me, stream);
        Arc::new(pool)
    }

    fn flush_one(&self, stream: StreamId, address: u64) {
        self.flushed.lock().expect("no thread panics").push((stream, address));
    }

    fn make(&self, me: ThreadToken, stream: StreamId) {
        let _locked = self.lock.lock().expect("no thread panics");
        self.caches.make_as(me, stream, |stream, block| self.flush_one(stream, block.address()));
    }

    fn flush_all(&self, me: ThreadToken) {
        let _locked = self.lock.lock().expect("no thread panics");
        self.caches
            .flush_all_as(Some(me), None, |stream, block| self.flush_one(stream, block.address()));
    }

    fn shrink(&self) {
        let _locked = self.lock.lock().expect("no thread panics");
        self.caches.shrink();
    }

    /// Frees a block into the cache, or to the heap.
    fn put(&self, me: ThreadToken, stream: StreamId, address: u64) {
        let put = |cache: &mut Cache, counters: &_| {
            cache.put(Class::only(SIZE), address, &self.caches.budget, counters, &mut None)
        };
        if self.caches.with_as(me, stream, put) != Some(Put::Done) {
            self.flush_one(stream, address);
        }
    }

    /// Takes a block, and frees it to the heap.
    fn take(&self, me: ThreadToken, stream: StreamId) {
        let take = |cache: &mut Cache, counters: &_| cache.take(Class::only(SIZE), counters);
        if let Some(address) = self.caches.with_as(me, stream, take).flatten() {
            self.flush_one(stream, address);
        }
    }

    /// All blocks, with all caches flushed.
    fn all(&self, me: ThreadToken) -> Vec<(StreamId, u64)> {
        self.flush_all(me);
        let mut flushed = std::mem::take(&mut *self.flushed.lock().expect("no thread panics"));
        flushed.sort_unstable_by_key(|&(_, address)| address);
        flushed
    }
}

fn two_threads() -> [&'static ThreadRecord; 2] {
    [1, 2].map(|number| ThreadRecord::leak(number, number as u64))
}

fn two_streams() -> [StreamId; 2] {
    [StreamRef::legacy(), StreamRef::per_thread()].map(StreamRef::id)
}

#[test]
fn no_block_is_lost_to_a_thread_that_flushes_and_shrinks_caches() {
    loom::model(|| {
        let ([here, there], [stream, _]) = (two_threads(), two_streams());
        let pool = Pool::with_cache(ThreadToken::of_model(here), stream);
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                pool.flush_all(ThreadToken::of_model(there));
                pool.shrink();
            }
        });
        let me = ThreadToken::of_model(here);
        pool.put(me, stream, 1);
        pool.take(me, stream);
        other.join().expect("it does not panic");
        assert_eq!(pool.all(me), [(stream, 1)]);
    });
}

#[test]
fn a_cache_that_changes_streams_keeps_their_blocks_apart() {
    loom::model(|| {
        let ([here, there], [first, second]) = (two_threads(), two_streams());
        let pool = Pool::with_cache(ThreadToken::of_model(here), first);
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                let me = ThreadToken::of_model(there);
                pool.flush_all(me);
                pool.make(me, second);
                pool.put(me, second, 2);
            }
        });
        let me = ThreadToken::of_model(here);
        pool.put(me, first, 1);
        pool.make(me, first);
        other.join().expect("it does not panic");
        assert_eq!(pool.all(me), [(first, 1), (second, 2)]);
    });
}
