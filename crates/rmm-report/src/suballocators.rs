//! The suballocators of a stack of resources, each once, and those that hold its memory.

use std::ptr;

use rmm_adaptors::{PoolBlock, PoolStatistics};
use rmm_core::{AnyResource, Introspect as _, SynchronousResource, TrimmableResource};

/// The suballocators of a stack, which may be a tree: bins and fallbacks are branches.
#[derive(Debug)]
pub(crate) struct Suballocators<'a> {
    /// From the bottom. Branches may share one.
    all: Vec<Suballocator<'a>>,
    /// Indices of the lowest that together hold all memory of the stack, the driver's pools only
    /// where none of ours is above them; `None` if some of it comes from no suballocator.
    lowest: Option<Vec<usize>>,
}

#[derive(Clone, Copy, Debug)]
struct Suballocator<'a> {
    resource: &'a (dyn SynchronousResource + 'static),
    memory: &'a dyn TrimmableResource,
}

impl Suballocator<'_> {
    /// Waits of one stream for another; `None` if it is a pool of the driver, which counts none.
    fn stream_waits(&self) -> Option<u64> {
        Some(self.resource.try_value::<PoolStatistics>()?.stream_waits)
    }
}

impl<'a> Suballocators<'a> {
    /// Finds those of a stack.
    pub(crate) fn of(resource: &'a AnyResource) -> Self {
        let mut found = Self { all: Vec::new(), lowest: None };
        found.lowest = resource.stack().next().and_then(|top| found.visit(top));
        found
    }

    /// Adds those of a branch; returns the lowest that together hold all memory of it.
    fn visit(&mut self, branch: &'a (dyn SynchronousResource + 'static)) -> Option<Vec<usize>> {
        // Pointers are seen through.
        let resource = branch.stack().next()?;
        let others = resource.other_upstreams();
        let mut below: Option<Vec<usize>> = None;
        let mut is_complete = true;
        for upstream in others.into_iter().chain(resource.upstream_resource()) {
            match self.visit(upstream) {
                Some(lowest) => below.get_or_insert_default().extend(lowest),
                None => is_complete = false,
            }
        }
        let below = below.filter(|_| is_complete);
        let own = resource.as_trimmable().map(|memory| self.add(resource, memory));
        let is_counted = |&index: &usize| self.all[index].stream_waits().is_some();
        let is_below = below.as_ref().is_some_and(|below| below.iter().all(is_counted));
        let mut lowest = match own {
            Some(own) if !is_below => vec![own],
            _ => below?,
        };
        lowest.sort_unstable();
        lowest.dedup();
        Some(lowest)
    }

    /// Adds one, unless it is known: clones share what they hold.
    fn add(
        &mut self,
        resource: &'a (dyn SynchronousResource + 'static),
        memory: &'a dyn TrimmableResource,
    ) -> usize {
        let known = self.all.iter().position(|known| ptr::addr_eq(known.memory, memory));
        known.unwrap_or_else(|| {
            self.all.push(Suballocator { resource, memory });
            self.all.len() - 1
        })
    }

    fn lowest(&self) -> Option<Vec<Suballocator<'a>>> {
        Some(self.lowest.as_ref()?.iter().map(|&index| self.all[index]).collect())
    }

    /// Bytes that the stack holds from the driver, if suballocators hold all of them.
    pub(crate) fn reserved_bytes(&self) -> Option<u64> {
        Some(self.lowest()?.iter().map(|lowest| lowest.memory.usage().reserved).sum())
    }

    /// Whether suballocators of ours hold all memory of the stack.
    pub(crate) fn are_ours(&self) -> bool {
        self.lowest().is_some_and(|lowest| lowest.iter().all(|one| one.stream_waits().is_some()))
    }

    /// The counters of the pool that holds all memory of the stack, if one does.
    pub(crate) fn pool_statistics(&self) -> Option<PoolStatistics> {
        match self.lowest()?.as_slice() {
            [pool] => pool.resource.try_value(),
            _ => None,
        }
    }

    /// The peak of [`reserved_bytes`](Self::reserved_bytes), if one suballocator of ours holds all.
    pub(crate) fn peak_reserved_bytes(&self) -> Option<u64> {
        let lowest = self.lowest()?;
        let [one] = lowest.as_slice() else { return None };
        Some(one.resource.try_value::<PoolStatistics>()?.peak_reserved_bytes)
    }

    /// How often a stream was made to wait for another, by any of them.
    pub(crate) fn stream_waits(&self) -> u64 {
        self.all.iter().filter_map(Suballocator::stream_waits).sum()
    }

    /// How often the calling thread waited for the device in any of them.
    pub(crate) fn host_waits(&self) -> u64 {
        let statistics = self.all.iter().filter_map(|pool| pool.resource.try_value());
        statistics.map(|pool: PoolStatistics| pool.host_waits).sum()
    }

    /// The counters of each pool of the stack that has a map of its memory, and that map. The
    /// counters are read first: a map empties the caches of threads.
    pub(crate) fn maps(&self) -> Vec<(PoolStatistics, Vec<PoolBlock>)> {
        let statistics: Vec<Option<PoolStatistics>> =
            self.all.iter().map(|pool| pool.resource.try_value()).collect();
        let maps = self.all.iter().zip(statistics);
        maps.filter_map(|(pool, statistics)| Some((statistics?, pool.resource.try_value()?)))
            .collect()
    }

    /// The counters of the pools whose memory [`map`](Self::map) lists.
    pub(crate) fn mapped(&self) -> Vec<PoolStatistics> {
        let pools = self.lowest().unwrap_or_else(|| self.all.clone());
        pools.iter().filter_map(|pool| pool.resource.try_value()).collect()
    }

    /// A map of the memory that the pools at the bottom hold; of all pools, if other memory is
    /// beside it. Segments are numbered through.
    pub(crate) fn map(&self) -> Vec<PoolBlock> {
        let pools = self.lowest().unwrap_or_else(|| self.all.clone());
        let mut map: Vec<PoolBlock> = Vec::new();
        for pool in pools {
            let first = map.iter().map(|block| block.segment + 1).max().unwrap_or(0);
            let blocks = pool.resource.try_value::<Vec<PoolBlock>>().unwrap_or_default();
            map.extend(blocks.into_iter().map(|block| {
                let segment = first + block.segment;
                PoolBlock { segment, ..block }
            }));
        }
        map
    }
}

#[cfg(test)]
mod tests {
    //! Stacks with branches.

    use std::alloc::Layout;

    use rmm_core::{CudaStream, Error, Resource as _};
    use rmm_spec::ResourceSpec;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// The stack, after a request of each size that is live; what is held of it, and how many
    /// suballocators there are.
    fn after(spec: &str, sizes: &[usize]) -> Result<(Option<u64>, usize), Error> {
        let resource = spec.parse::<ResourceSpec>().expect("a specification").build()?;
        let stream = CudaStream::new()?;
        for &bytes in sizes {
            let layout = Layout::from_size_align(bytes, 256).expect("a layout");
            resource.allocate(&stream, layout)?;
        }
        let found = Suballocators::of(&resource);
        Ok((found.reserved_bytes(), found.all.len()))
    }

    #[test]
    fn the_lowest_suballocators_hold_what_the_stack_has() -> Result<(), Error> {
        let _machine = rmm_sim::enter();
        let cases: [(&str, &[usize], Option<u64>, usize); 10] = [
            ("cuda", &[1000], None, 0),
            ("statistics(cuda-async)", &[1000], Some(32 * MIB), 1),
            ("pool(cuda-async, initial=4MiB)", &[1000], Some(4 * MIB), 2),
            ("statistics(pool(cuda, initial=4MiB))", &[1000], Some(4 * MIB), 1),
            ("pool(pool(cuda, initial=4MiB), initial=1MiB)", &[1000], Some(4 * MIB), 2),
            ("arena(pool(cuda, initial=8MiB), size=4MiB)", &[1000], Some(8 * MIB), 2),
            ("binning(pool(cuda, initial=512MiB), bins=18..20)", &[1000], Some(512 * MIB), 4),
            ("binning(cuda, bins=18..20)", &[1000], None, 3),
            ("fallback(pool(cuda, max=2MiB), pool(cuda))", &[2 << 20, 2 << 20], Some(4 * MIB), 2),
            ("pool(fallback(pool(cuda, max=2MiB), managed))", &[4 << 20], Some(4 * MIB), 2),
        ];
        for (spec, sizes, held, count) in cases {
            assert_eq!(after(spec, sizes)?, (held, count), "{spec}");
        }
        Ok(())
    }
}
