//! No block is handed out while another stream may still use it: random programs on several
//! streams, in which each block is written when it is allocated and read back, in stream order,
//! just before it is freed.

use crate::program::{Op, ops};
use crate::short::base_seed;
use crate::world::World;
use proptest::prelude::*;
use rmm_sim::{Machine, Schedule};

fn run(ops: &[Op], schedule: Schedule, limit: usize) {
    let machine = Machine::builder().memory(64 << 20).schedule(schedule).build();
    let entered = machine.enter();
    let mut world = World::new(&machine, limit);
    for op in ops {
        world.step(op);
    }
    world.finish();
    assert_eq!(world.refused, 0, "the driver refuses nothing here");
    assert!(world.pool().reserved_bytes() <= limit as u64);
    drop(world);
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    drop(entered);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_never_shared(ops in ops(150), seed in any::<u64>(), granules in 100usize..3000) {
        run(&ops, Schedule::Seeded(seed ^ base_seed()), granules * 256);
    }

    #[test]
    fn blocks_are_never_shared_when_everything_is_late(ops in ops(150), granules in 100usize..3000) {
        run(&ops, Schedule::Lazy, granules * 256);
    }
}
