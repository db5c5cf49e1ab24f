//! Workload: what each adaptor adds to an allocate/free pair.

use rmm_core::{AnyResource, CudaStream, Device};

use super::bench::{Bench, median, new_stream};
use super::extent::Extent;
use super::pairs::{layout, timed_pairs};
use crate::adaptors::{Adaptor, adaptors};
use crate::allocators::{self, Start};
use crate::nothing::Nothing;
use crate::outcome::Outcome;

/// Pairs of a resource, pairs through an adaptor over it, and what the adaptor adds.
struct Turns {
    bare: f64,
    adapted: f64,
    added: f64,
}

/// Pairs of a pool, and through an adaptor over that pool; and what the adaptor adds to a resource
/// that does nothing.
pub(super) fn adaptor_pairs(bench: &mut Bench<'_>) -> Outcome {
    let stream = new_stream()?;
    for Adaptor { name, over } in adaptors() {
        let pool = allocators::pool_of(Start::Full)?;
        let bare = AnyResource::new(pool.clone());
        let turns = in_turns(bench, &bare, &over(pool)?, &stream)?;
        bench.row("adaptor", name, turns.adapted, "ns/pair")?;
        bench.row("adaptor_bare", name, turns.bare, "ns/pair")?;
        bench.row("adaptor_own", name, turns.added, "ns/pair")?;
    }
    for Adaptor { name, over } in adaptors() {
        // That one would have the driver move the memory, which is not there.
        if name != "prefetch" {
            let turns = in_turns(bench, &AnyResource::new(Nothing), &over(Nothing)?, &stream)?;
            bench.row("adaptor_over_nothing", name, turns.added, "ns/pair")?;
        }
    }
    Ok(())
}

/// The medians of both, and of their differences turn by turn.
fn in_turns(
    bench: &Bench<'_>,
    bare: &AnyResource,
    adapted: &AnyResource,
    stream: &CudaStream,
) -> Outcome<Turns> {
    let turns = if bench.extent == Extent::Full { 51 } else { 3 };
    let (layout, pairs) = (layout(4 << 10)?, bench.extent.scaled(5_000));
    let [mut of_bare, mut of_adapted, mut added] = [const { Vec::new() }; 3];
    for turn in 0..=turns {
        let without = timed_pairs(bare, stream, layout, pairs)?;
        let with = timed_pairs(adapted, stream, layout, pairs)?;
        Device::synchronize_current()?;
        if turn > 0 {
            of_bare.push(without);
            of_adapted.push(with);
            added.push(with - without);
        }
    }
    Ok(Turns { bare: median(of_bare), adapted: median(of_adapted), added: median(added) })
}
