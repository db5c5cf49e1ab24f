//! Tests of every suballocator: programs on up to eight threads and 32 streams, and on streams of
//! every kind, keep stream order, a drained suballocator serves the same requests as a fresh one,
//! trimming neither returns nor loses memory that is in use, and any call of the driver or of
//! upstream may fail.

#[path = "all_suballocators/drained.rs"]
mod drained;
#[path = "all_suballocators/failures.rs"]
mod failures;
#[path = "all_suballocators/programs.rs"]
mod programs;
#[path = "all_suballocators/stream_kinds.rs"]
mod stream_kinds;
#[path = "all_suballocators/trims.rs"]
mod trims;

use std::io::Write as _;

/// Prints the seed if the test panics while this is alive.
struct OfSeed(u64);

impl Drop for OfSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // If it cannot be printed, the test still fails.
            let _ignored = writeln!(std::io::stderr(), "RMM_SIM_SEED={}", self.0);
        }
    }
}

/// Defines the tests of each suballocator.
macro_rules! suballocators {
    ($($kind:ident),*) => {$(
        mod $kind {
            use crate::suballocators::$kind as make;

            #[test]
            fn programs_keep_stream_order_and_drain_to_fresh() {
                super::programs::keep_the_order(make);
            }

            #[test]
            fn every_kind_of_stream_keeps_its_order() {
                super::stream_kinds::keep_the_order(make);
            }

            #[test]
            fn trim_neither_returns_nor_loses_memory_in_use() {
                super::trims::count_pending_frees(make);
            }

            #[test]
            fn any_call_of_the_driver_may_fail() {
                super::failures::of_the_driver(make);
            }

            #[test]
            fn any_call_of_upstream_may_fail() {
                super::failures::of_upstream(make);
            }
        }
    )*};
}

suballocators! {
    pool,
    compact_pool,
    deterministic_pool,
    virtual_pool,
    arena,
    fixed_size,
    binning
}
