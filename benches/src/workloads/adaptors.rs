//! What each adaptor adds to a pair of calls.

use rmm_core::{AnyResource, Device};

use super::pairs::{layout, timed_pairs};
use super::{Bench, Extent, Outcome, median, new_stream};
use crate::adaptors::{ADAPTORS, Adaptor};
use crate::allocators::{self, Start};

/// Pairs of a pool, and through an adaptor over that pool, in turns; what the adaptor adds is the median of the turns' differences.
pub(super) fn adaptor_pairs(bench: &mut Bench<'_>) -> Outcome {
    let turns = if bench.extent == Extent::Full { 51 } else { 3 };
    let (layout, pairs) = (layout(4 << 10)?, bench.extent.scaled(5_000));
    for Adaptor { name, over } in ADAPTORS {
        let (pool, stream) = (allocators::pool_of(Start::Full)?, new_stream()?);
        let (bare, adapted) = (AnyResource::new(pool.clone()), over(pool)?);
        let [mut of_bare, mut of_adapted, mut added] = [const { Vec::new() }; 3];
        for turn in 0..=turns {
            let without = timed_pairs(&bare, &stream, layout, pairs)?;
            let with = timed_pairs(&adapted, &stream, layout, pairs)?;
            Device::synchronize_current()?;
            if turn > 0 {
                of_bare.push(without);
                of_adapted.push(with);
                added.push(with - without);
            }
        }
        bench.row("adaptor", *name, median(of_adapted), "ns/pair")?;
        bench.row("adaptor_bare", *name, median(of_bare), "ns/pair")?;
        bench.row("adaptor_own", *name, median(added), "ns/pair")?;
    }
    Ok(())
}
