//! What holds of every suballocator, whatever it is used for: programs on up to eight threads and
//! 32 streams keep the order of streams, a drained one is as good as a fresh one, memory whose
//! streams are still at work is not given back and not lost, and any call of the driver or of
//! upstream may fail.

#[path = "every/failures.rs"]
mod failures;
#[path = "every/good_as_new.rs"]
mod good_as_new;
#[path = "every/programs.rs"]
mod programs;
#[path = "every/trims.rs"]
mod trims;

use std::io::Write as _;

/// Says which seed it was, if a test fails while this lives.
struct OfSeed(u64);

impl Drop for OfSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // If that cannot be said, the failure is still there.
            let _unsaid = writeln!(std::io::stderr(), "RMM_SIM_SEED={}", self.0);
        }
    }
}

/// Defines the tests of each suballocator.
macro_rules! suballocators {
    ($($kind:ident),*) => {$(
        mod $kind {
            use crate::kinds::$kind as make;

            #[test]
            fn programs_keep_the_order_and_leave_it_as_good_as_new() {
                super::programs::keep_the_order(make);
            }

            #[test]
            fn memory_in_use_is_neither_given_back_nor_lost() {
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
