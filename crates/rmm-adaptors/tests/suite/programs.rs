//! The steps of random programs.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Streams of a program: non-blocking ones, blocking ones, the two default streams, and a foreign
/// one.
pub(crate) const STREAMS: usize = 8;

/// The most granules of one allocation.
pub(crate) const MOST_GRANULES: usize = 399;

/// A step of a program.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Allocate {
        stream: usize,
        granules: usize,
    },
    /// Allocates synchronously, then writes on a stream.
    AllocateSync {
        stream: usize,
        granules: usize,
    },
    Free {
        which: usize,
    },
    /// Frees on a stream other than that of the last use, after making it wait; unless the two are
    /// implicitly ordered, as the legacy default stream and blocking streams are.
    FreeElsewhere {
        which: usize,
        stream: usize,
    },
    /// Frees on another stream, after synchronizing the one of the last use.
    FreeAfterWaiting {
        which: usize,
        stream: usize,
    },
    /// Frees synchronously, after synchronizing the stream of the last use.
    FreeSync {
        which: usize,
    },
    /// Hands over a block with an event after its last use, to be freed by any thread.
    HandOver {
        which: usize,
    },
    /// Frees a block that was handed over, on a stream that waits for its event.
    FreeHandedOver {
        stream: usize,
    },
    Replace {
        stream: usize,
    },
    Synchronize {
        stream: usize,
    },
    Wait {
        stream: usize,
        other: usize,
    },
    Trim,
}

/// Programs of up to `most` steps.
pub(crate) fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    ops_on(STREAMS, most)
}

/// Programs of up to `most` steps on this many streams.
pub(crate) fn ops_on(streams: usize, most: usize) -> impl Strategy<Value = Vec<Op>> {
    let (stream, which) = (0..streams, any::<usize>());
    // Some sizes are frequent, so that blocks are reused without splitting.
    let granules = prop_oneof![Just(8usize), Just(64), 1..=MOST_GRANULES];
    let op = prop_oneof![
        8 => (stream.clone(), granules.clone()).prop_map(|(stream, granules)| Op::Allocate { stream, granules }),
        1 => (stream.clone(), granules).prop_map(|(stream, granules)| Op::AllocateSync { stream, granules }),
        7 => which.prop_map(|which| Op::Free { which }),
        2 => (which, stream.clone()).prop_map(|(which, stream)| Op::FreeElsewhere { which, stream }),
        1 => (which, stream.clone()).prop_map(|(which, stream)| Op::FreeAfterWaiting { which, stream }),
        1 => which.prop_map(|which| Op::FreeSync { which }),
        1 => which.prop_map(|which| Op::HandOver { which }),
        1 => stream.clone().prop_map(|stream| Op::FreeHandedOver { stream }),
        1 => stream.clone().prop_map(|stream| Op::Replace { stream }),
        1 => stream.clone().prop_map(|stream| Op::Synchronize { stream }),
        1 => (stream.clone(), stream).prop_map(|(stream, other)| Op::Wait { stream, other }),
        1 => Just(Op::Trim),
    ];
    proptest::collection::vec(op, 1..most)
}

/// The steps of one thread for a seed.
pub(crate) fn drawn(ops: impl Strategy<Value = Vec<Op>>, seed: u64, thread: u64) -> Vec<Op> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&thread.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    ops.new_tree(&mut runner).expect("nothing is rejected").current()
}
