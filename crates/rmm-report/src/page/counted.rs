//! What pools count of their memory at one moment, beside what follows from addresses.

use std::cmp::Reverse;
use std::collections::HashMap;

use rmm_adaptors::{PoolBlock, PoolStatistics};

use super::view::{CountedPart, ViewCounted};

/// The most streams that are named.
const STREAMS: usize = 3;

impl ViewCounted {
    /// At a position, by the counters of the pools, read before their blocks: a map of these
    /// empties the caches. `stream` names the stream that a free block waits for.
    pub(crate) fn of(
        position: u32,
        pools: &[PoolStatistics],
        blocks: &[PoolBlock],
        stream: impl Fn(&PoolBlock) -> String,
    ) -> Self {
        let sum = |bytes: fn(&PoolStatistics) -> u64| pools.iter().map(bytes).sum();
        let mut parts = vec![CountedPart {
            what: "in caches of threads".to_owned(),
            bytes: sum(|pool| pool.cached_bytes),
        }];
        parts.extend(waiting(blocks, stream));
        parts.push(CountedPart {
            what: "kept for graphs".to_owned(),
            bytes: sum(|pool| pool.graph_bytes),
        });
        parts.push(CountedPart {
            what: "asleep, without memory".to_owned(),
            bytes: sum(|pool| pool.asleep_bytes),
        });
        parts.retain(|part| part.bytes > 0);
        Self { position, parts }
    }
}

/// Free blocks that may still be in use on the stream that freed them, by stream.
fn waiting(blocks: &[PoolBlock], stream: impl Fn(&PoolBlock) -> String) -> Vec<CountedPart> {
    let mut sums: HashMap<_, (&PoolBlock, u64)> = HashMap::new();
    for block in blocks {
        if let Some(owner) = block.owner {
            sums.entry(owner).or_insert((block, 0)).1 += block.size;
        }
    }
    let mut sums: Vec<(String, u64)> =
        sums.into_values().map(|(block, bytes)| (stream(block), bytes)).collect();
    sums.sort_unstable_by(|one, other| (Reverse(one.1), &one.0).cmp(&(Reverse(other.1), &other.0)));
    let others = sums.split_off(sums.len().min(STREAMS));
    let part = |(name, bytes)| CountedPart { what: format!("waits for stream {name}"), bytes };
    let mut parts: Vec<CountedPart> = sums.into_iter().map(part).collect();
    if !others.is_empty() {
        let bytes = others.iter().map(|(_, bytes)| bytes).sum();
        parts
            .push(CountedPart { what: format!("waits for {} other streams", others.len()), bytes });
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::alloc::Layout;

    use rmm_adaptors::PoolMemoryResource;
    use rmm_core::{CudaStream, Error, Resource as _};
    use rmm_resources::CudaMemoryResource;

    use super::*;

    #[test]
    fn what_waits_is_told_by_stream_and_beside_what_is_cached() -> Result<(), Error> {
        let _machine = rmm_sim::enter();
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new())
            .initial_size(64 << 20)
            .build()?;
        let streams: Vec<CudaStream> =
            (0..5).map(|_| CudaStream::new()).collect::<Result<_, _>>()?;
        for (size, stream) in (1..).zip(&streams) {
            let layout = Layout::from_size_align(size << 21, 256).expect("a layout");
            let block = pool.allocate(stream, layout)?;
            // SAFETY: allocated above with this layout, and not used.
            unsafe { pool.deallocate(stream, block, layout) };
        }
        let mut statistics = pool.statistics();
        (statistics.cached_bytes, statistics.asleep_bytes) = (1000, 0);
        let name = |block: &PoolBlock| format!("of {}", block.size >> 21);
        let counted = ViewCounted::of(7, &[statistics], &pool.blocks(), name);
        let parts: Vec<(&str, u64)> =
            counted.parts.iter().map(|part| (part.what.as_str(), part.bytes)).collect();
        let expected = [
            ("in caches of threads", 1000),
            ("waits for stream of 5", 10 << 20),
            ("waits for stream of 4", 8 << 20),
            ("waits for stream of 3", 6 << 20),
            ("waits for 2 other streams", 6 << 20),
        ];
        assert_eq!((counted.position, parts.as_slice()), (7, expected.as_slice()));
        Ok(())
    }
}
