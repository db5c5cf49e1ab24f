//! Stream pools.

use std::collections::{HashMap, HashSet};
use std::thread;

use rmm_core::{CudaStreamPool, StreamFlags, StreamId};
use rmm_sim::Fault;
use rmm_sys::CuResult;

use crate::world::calls_of;

fn ids(pool: &CudaStreamPool, count: usize) -> Vec<StreamId> {
    (0..count).map(|_| pool.get().id()).collect()
}

#[test]
fn streams_are_assigned_round_robin_and_by_index() {
    let _machine = rmm_sim::enter();
    let pool = CudaStreamPool::new(3, StreamFlags::NON_BLOCKING).unwrap();
    assert_eq!((pool.len(), pool.is_empty()), (3, false));
    let first = ids(&pool, 3);
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 3);
    assert_eq!(ids(&pool, 3), first);
    for index in [0, 1, 2, 3, 7, usize::MAX] {
        assert_eq!(pool.get_at(index).id(), first[index % 3]);
    }
    assert_eq!(ids(&pool, 1), first[..1], "to ask by number takes no turn");
    assert!(pool.get().is_non_blocking());
    assert!(!CudaStreamPool::new(1, StreamFlags::empty()).unwrap().get().is_non_blocking());
}

#[test]
fn the_default_is_sixteen() {
    let machine = rmm_sim::enter();
    let pool = CudaStreamPool::with_default_size(StreamFlags::empty()).unwrap();
    assert_eq!(pool.len(), 16);
    assert_eq!(calls_of(&machine, "cuStreamCreateWithPriority"), 16);
    drop(pool);
    assert_eq!(calls_of(&machine, "cuStreamDestroy_v2"), 16);
}

#[test]
fn a_pool_of_none_is_refused() {
    let _machine = rmm_sim::enter();
    assert!(CudaStreamPool::new(0, StreamFlags::empty()).unwrap_err().is_invalid_argument());
}

#[test]
fn a_pool_that_cannot_be_filled_leaves_no_stream() {
    let machine = rmm_sim::enter();
    machine.fail(Fault::nth("cuStreamCreateWithPriority", 3, CuResult::OUT_OF_MEMORY));
    assert!(CudaStreamPool::new(4, StreamFlags::empty()).unwrap_err().is_out_of_memory());
    assert_eq!(machine.leaks(), []);
}

#[test]
fn threads_share_the_round_robin() {
    const ROUNDS: usize = 100;
    let _machine = rmm_sim::enter();
    let pool = CudaStreamPool::new(4, StreamFlags::empty()).unwrap();
    let taken: Vec<StreamId> = thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(|| ids(&pool, ROUNDS)));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut counts: HashMap<StreamId, usize> = HashMap::new();
    for id in taken {
        *counts.entry(id).or_default() += 1;
    }
    assert_eq!(
        counts.into_values().collect::<Vec<_>>(),
        [ROUNDS; 4],
        "each as often as the others"
    );
}

// RMM #2432: a pool's streams were destroyed with it while still in use.
#[test]
fn a_stream_outlives_its_pool() {
    let machine = rmm_sim::enter();
    let pool = CudaStreamPool::new(2, StreamFlags::empty()).unwrap();
    let kept = pool.get().clone();
    drop(pool);
    assert_eq!(calls_of(&machine, "cuStreamDestroy_v2"), 1);
    kept.synchronize().unwrap();
}
