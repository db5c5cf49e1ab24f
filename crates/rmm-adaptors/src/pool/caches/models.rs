//! Every interleaving of a thread that uses its cache and one that empties all: each block is in
//! one place, and its own stream's.

use std::sync::Mutex as Unseen;

use loom::sync::{Arc, Mutex};
use loom::thread;
use rmm_core::StreamRef;

use super::thread::Thread;
use super::*;

const SIZE: u64 = 4096;

/// The caches of a pool, with its lock.
struct Pool {
    caches: Caches,
    lock: Mutex<()>,
    /// Blocks that came out of caches, and whose they were.
    out: Unseen<Vec<(StreamId, u64)>>,
}

impl Pool {
    /// One whose first cache is `me`'s for the stream.
    fn with_cache(me: Me, stream: StreamId) -> Arc<Self> {
        let caches = Caches::new(CachePolicy::OneSize(SIZE), Fences::of_process());
        caches.set_capacity_from(1 << 30);
        let pool = Self { caches, lock: Mutex::new(()), out: Unseen::default() };
        pool.claim(me, stream);
        Arc::new(pool)
    }

    fn flush_one(&self, stream: StreamId, address: u64) {
        self.out.lock().expect("no thread panics").push((stream, address));
    }

    fn claim(&self, me: Me, stream: StreamId) {
        let _locked = self.lock.lock().expect("no thread panics");
        self.caches.make_as(me, stream, |stream, address| self.flush_one(stream, address));
    }

    fn drain(&self, me: Me) {
        let _locked = self.lock.lock().expect("no thread panics");
        self.caches.flush_all_as(Some(me), None, |stream, address| self.flush_one(stream, address));
    }

    fn shrink(&self, me: Me) {
        let _locked = self.lock.lock().expect("no thread panics");
        self.caches.shrink_as(Some(me));
    }

    /// Frees a block into the cache, or else past it.
    fn put(&self, me: Me, stream: StreamId, address: u64) {
        let put = |cache: &mut Cache, counters: &_| {
            cache.put(Class::only(SIZE), address, u64::MAX, counters)
        };
        if self.caches.with_as(me, stream, put) != Some(Put::Done) {
            self.flush_one(stream, address);
        }
    }

    /// Asks for a block, and passes it on.
    fn take(&self, me: Me, stream: StreamId) {
        let take = |cache: &mut Cache, counters: &_| cache.take(Class::only(SIZE), counters);
        if let Some(address) = self.caches.with_as(me, stream, take).flatten() {
            self.flush_one(stream, address);
        }
    }

    /// All blocks, once all have come out.
    fn all(&self, me: Me) -> Vec<(StreamId, u64)> {
        self.drain(me);
        let mut out = std::mem::take(&mut *self.out.lock().expect("no thread panics"));
        out.sort_unstable_by_key(|&(_, address)| address);
        out
    }
}

fn two_threads() -> [&'static Thread; 2] {
    [1, 2].map(|number| Thread::leak(number, number as u64))
}

fn two_streams() -> [StreamId; 2] {
    [StreamRef::legacy(), StreamRef::per_thread()].map(StreamRef::id)
}

#[test]
fn no_block_is_lost_to_a_thread_that_empties_and_frees_the_caches() {
    loom::model(|| {
        let ([here, there], [stream, _]) = (two_threads(), two_streams());
        let pool = Pool::with_cache(Me::new(here), stream);
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                pool.drain(Me::new(there));
                pool.shrink(Me::new(there));
            }
        });
        let me = Me::new(here);
        pool.put(me, stream, 1);
        pool.take(me, stream);
        other.join().expect("it does not panic");
        assert_eq!(pool.all(me), [(stream, 1)]);
    });
}

#[test]
fn a_cache_that_becomes_another_stream_s_keeps_their_blocks_apart() {
    loom::model(|| {
        let ([here, there], [first, second]) = (two_threads(), two_streams());
        let pool = Pool::with_cache(Me::new(here), first);
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                let me = Me::new(there);
                pool.drain(me);
                pool.claim(me, second);
                pool.put(me, second, 2);
            }
        });
        let me = Me::new(here);
        pool.put(me, first, 1);
        pool.claim(me, first);
        other.join().expect("it does not panic");
        assert_eq!(pool.all(me), [(first, 1), (second, 2)]);
    });
}
