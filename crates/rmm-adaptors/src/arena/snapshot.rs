//! Statistics and reports: all arenas and the global one at one moment.

#![forbid(unsafe_code)]

use rmm_core::fork;
use std::sync::atomic::Ordering;

use super::arenas::Arenas;
use super::report::{ArenaOfStream, ArenaReport, longest_run};
use super::statistics::ArenaStatistics;
use crate::pool::PoolBlock;

impl Arenas {
    /// The counters at one moment.
    pub(super) fn statistics(&self) -> ArenaStatistics {
        let arenas = self.all();
        let states: Vec<_> = arenas.iter().map(|arena| arena.lock()).collect();
        let past = *fork::lock(&self.past);
        let (global, in_pieces) = self.base.statistics();
        let mut sum = ArenaStatistics {
            allocations: past.0 + global.allocations,
            slow_allocations: self.slow_allocations.load(Ordering::Relaxed),
            frees: past.1 + global.frees,
            unknown_frees: global.unknown_frees + self.unknown_frees.load(Ordering::Relaxed),
            live_bytes: global.live_bytes - in_pieces,
            graph_bytes: global.graph_bytes,
            reserved_bytes: global.reserved_bytes,
            arenas: states.len() as u64,
            superblocks: 0,
            superblock_free_bytes: 0,
            events_recorded: global.events_recorded,
            event_queries: global.event_queries,
            stream_waits: global.stream_waits,
            host_waits: global.host_waits,
        };
        for state in &states {
            sum.allocations += state.allocations;
            sum.frees += state.frees;
            sum.live_bytes += state.superblocks.live_bytes();
            sum.superblocks += state.superblocks.len() as u64;
            sum.superblock_free_bytes += state.superblocks.free_bytes();
        }
        sum
    }

    /// The report. `blocks` returns the blocks of the global arena. Takes time in the number of all
    /// blocks.
    pub(super) fn report(&self, blocks: impl FnOnce() -> Vec<PoolBlock>) -> ArenaReport {
        let arenas = self.all();
        let states: Vec<_> = arenas.iter().map(|arena| arena.lock()).collect();
        let blocks = blocks();
        let mut free: Vec<(u64, u64)> = blocks
            .iter()
            .filter(|block| !block.is_live)
            .map(|block| (block.segment_base.0 + block.offset, block.size))
            .collect();
        let mut of_streams = Vec::new();
        for (arena, state) in arenas.iter().zip(&states) {
            let parts = state.superblocks.slices().filter(|(_, part)| !part.is_live);
            free.extend(parts.map(|(start, part)| (start, part.bytes)));
            of_streams.push(ArenaOfStream {
                stream: arena.stream,
                superblocks: state.superblocks.len(),
                live_bytes: state.superblocks.live_bytes(),
                free_bytes: state.superblocks.free_bytes(),
            });
        }
        let arena_size = blocks.iter().map(|block| block.size).sum();
        let total_free = free.iter().map(|(_, bytes)| bytes).sum();
        ArenaReport {
            arena_size,
            live_bytes: arena_size - total_free,
            total_free,
            largest_free: longest_run(free),
            arenas: of_streams,
        }
    }
}
