//! Stream order of pools: no block is handed to a stream while another may still use it. In random
//! programs on several streams, each block is written when it is allocated and read back, in stream
//! order, just before it is freed.

use crate::harness::Runner;
use crate::programs::{Op, ops};
use crate::support::base_seed;
use proptest::prelude::*;
use rmm_sim::{Machine, Schedule};

fn run(ops: &[Op], schedule: Schedule, limit: u64) {
    let machine = Machine::builder().memory(64 << 20).schedule(schedule).build();
    let entered = machine.enter();
    let mut runner = Runner::new(&machine, limit);
    for op in ops {
        runner.step(op);
    }
    runner.finish();
    assert_eq!(runner.failed_calls, 0, "no driver call fails here");
    assert!(runner.pool().reserved_bytes() <= limit);
    drop(runner);
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    drop(entered);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_never_shared(ops in ops(150), seed in any::<u64>(), granules in 100u64..3000) {
        run(&ops, Schedule::Seeded(seed ^ base_seed()), granules * 256);
    }

    #[test]
    fn blocks_are_never_shared_under_the_lazy_schedule(ops in ops(150), granules in 100u64..3000) {
        run(&ops, Schedule::Lazy, granules * 256);
    }
}
