//! Memory pools: stream-ordered allocation by the rules that CUDA documents for `cuMemAllocAsync`.
//!
//! A pool takes memory from its device in segments of 32 MiB (or of the request, rounded up to 2
//! MiB, if that is larger) and splits them into blocks of multiples of 512 bytes, at the lowest
//! address that fits. A freed block records the point in its stream at which it was freed. A stream
//! can reuse it if it is the same stream, if event waits order it after that point, or if the point
//! is complete; as a last resort, the stream is made to wait for the point. Other pools, and
//! allocations without a pool, get the memory only after a wait of the host: then it is released
//! down to the release threshold, and the rest by a trim, or when the device is out of memory.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use rmm_sys::{CuMemAllocationType, CuMemLocation, CuMemLocationType, CuMemPoolAttribute};

use crate::model::device::UNIT;
use crate::model::vector_clock::Point;

const SEGMENT: usize = 32 << 20;

/// A free part of a segment.
#[derive(Clone, Copy, Debug)]
struct Block {
    len: usize,
    /// The start of its segment; blocks of different segments are not coalesced, since segments are
    /// released one by one.
    segment: usize,
    /// The point at which it was freed, until the host has waited for it.
    freed: Option<Point>,
}

/// The ways in which a pool may reuse memory that was freed on another stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reuse {
    /// `CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES`: where event waits order the two streams.
    pub(crate) follow_events: bool,
    /// `CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC`: where the free is complete.
    pub(crate) opportunistic: bool,
    /// `CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES`: by making the stream wait for the
    /// other.
    pub(crate) internal_dependencies: bool,
}

/// The kind of memory that a pool allocates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Medium {
    /// Memory of the device.
    Device,
    /// Managed memory, which host and devices can access; it does not count against the device's
    /// memory.
    Managed,
    /// Pinned memory of the host.
    Host,
}

/// Whether a pool is shared with other processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sharing {
    Private,
    /// Other processes may import it.
    Exported,
    /// It was imported, from the pool with this key.
    Imported(u64),
}

#[derive(Debug)]
pub(crate) struct Pool {
    /// Its device; the first one for host memory.
    pub(crate) device: usize,
    pub(crate) medium: Medium,
    /// The location that it was created with.
    pub(crate) location: CuMemLocation,
    /// Whether the decompression engine may use the memory.
    pub(crate) decompresses: bool,
    pub(crate) sharing: Sharing,
    /// The maximum of reserved bytes; 0 for no limit.
    max_size: usize,
    /// Whether it is a default pool, which cannot be destroyed.
    pub(crate) is_default: bool,
    /// Whether the program has destroyed it; it is removed when its last allocation is freed.
    pub(crate) destroyed: bool,
    /// The access flags of other devices that were set.
    pub(crate) access: BTreeMap<usize, u32>,
    pub(crate) reuse: Reuse,
    pub(crate) threshold: usize,
    reserved: usize,
    reserved_high: usize,
    /// Allocated bytes as requested. Memory that is freed without a stream stays counted (both seen
    /// on an H200).
    used: usize,
    used_high: usize,
    /// Segments by start.
    segments: BTreeMap<usize, usize>,
    /// Free blocks by start.
    free: BTreeMap<usize, Block>,
}

impl Pool {
    pub(crate) fn new(device: usize, medium: Medium, max_size: usize, is_default: bool) -> Self {
        let kind = match medium {
            Medium::Device | Medium::Managed => CuMemLocationType::DEVICE,
            Medium::Host => CuMemLocationType::HOST,
        };
        Self {
            device,
            medium,
            location: CuMemLocation {
                kind,
                id: i32::try_from(device).expect("fewer than 2^31 devices"),
            },
            decompresses: false,
            sharing: Sharing::Private,
            max_size,
            is_default,
            destroyed: false,
            access: BTreeMap::new(),
            reuse: Reuse { follow_events: true, opportunistic: true, internal_dependencies: true },
            threshold: 0,
            reserved: 0,
            reserved_high: 0,
            used: 0,
            used_high: 0,
            segments: BTreeMap::new(),
            free: BTreeMap::new(),
        }
    }

    /// Whether the pool's memory belongs to the device, whose access cannot be revoked. Managed
    /// memory belongs to all devices, and a real driver reports no access to it.
    pub(crate) fn is_home(&self, device: usize) -> bool {
        self.medium == Medium::Device && self.device == device
    }

    pub(crate) fn is_exported(&self) -> bool {
        self.sharing == Sharing::Exported
    }

    /// The key of the exported pool, if it was imported.
    pub(crate) fn imported_from(&self) -> Option<u64> {
        match self.sharing {
            Sharing::Imported(key) => Some(key),
            Sharing::Private | Sharing::Exported => None,
        }
    }

    pub(crate) fn reserved(&self) -> usize {
        self.reserved
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// A counter by its attribute.
    pub(crate) fn counter(&self, attribute: CuMemPoolAttribute) -> Option<usize> {
        match attribute {
            CuMemPoolAttribute::RELEASE_THRESHOLD => Some(self.threshold),
            CuMemPoolAttribute::RESERVED_MEM_CURRENT => Some(self.reserved),
            CuMemPoolAttribute::RESERVED_MEM_HIGH => Some(self.reserved_high),
            CuMemPoolAttribute::USED_MEM_CURRENT => Some(self.used),
            CuMemPoolAttribute::USED_MEM_HIGH => Some(self.used_high),
            _ => None,
        }
    }

    /// A property that it was created with, by its attribute.
    pub(crate) fn fact(&self, attribute: CuMemPoolAttribute) -> Option<usize> {
        let allocation_type = match self.medium {
            Medium::Device | Medium::Host => CuMemAllocationType::PINNED,
            Medium::Managed => CuMemAllocationType::MANAGED,
        };
        match attribute {
            CuMemPoolAttribute::ALLOCATION_TYPE => usize::try_from(allocation_type.0).ok(),
            // A file descriptor (1) is the only handle type here.
            CuMemPoolAttribute::EXPORT_HANDLE_TYPES => Some(usize::from(self.is_exported())),
            CuMemPoolAttribute::LOCATION_ID => usize::try_from(self.location.id).ok(),
            CuMemPoolAttribute::LOCATION_TYPE => usize::try_from(self.location.kind.0).ok(),
            CuMemPoolAttribute::MAX_POOL_SIZE => Some(self.max_size),
            CuMemPoolAttribute::HW_DECOMPRESS_ENABLED => Some(usize::from(self.decompresses)),
            _ => None,
        }
    }

    /// Resets a high watermark to the current value.
    pub(crate) fn reset_reserved_high(&mut self) {
        self.reserved_high = self.reserved;
    }

    /// Resets a high watermark to the current value.
    pub(crate) fn reset_used_high(&mut self) {
        self.used_high = self.used;
    }

    /// Whether memory was freed at points that are not known to be complete.
    pub(crate) fn has_pending_frees(&self) -> bool {
        self.free.values().any(|block| block.freed.is_some())
    }

    /// Clears points that are complete, and coalesces adjacent blocks with equal points.
    pub(crate) fn coalesce(&mut self, is_complete: impl Fn(Point) -> bool) {
        let mut merged: BTreeMap<usize, Block> = BTreeMap::new();
        for (start, mut block) in std::mem::take(&mut self.free) {
            block.freed = block.freed.filter(|&point| !is_complete(point));
            match merged.iter_mut().next_back() {
                Some((&before, last))
                    if before + last.len == start
                        && last.segment == block.segment
                        && last.freed == block.freed =>
                {
                    last.len += block.len;
                }
                _ => {
                    merged.insert(start, block);
                }
            }
        }
        self.free = merged;
    }

    /// Allocates `len` bytes of adjacent free blocks that are `usable`, at the lowest address;
    /// returns it with the points at which the blocks were freed.
    pub(crate) fn allocate(
        &mut self,
        len: usize,
        usable: impl Fn(Option<Point>) -> bool,
    ) -> Option<(usize, Vec<Point>)> {
        let start = self.find(len, usable)?;
        let (mut points, mut at) = (Vec::new(), start);
        while at < start + len {
            let block = self.free.remove(&at)?;
            points.extend(block.freed);
            let rest = (at + block.len).saturating_sub(start + len);
            if rest > 0 {
                self.free.insert(start + len, Block { len: rest, ..block });
            }
            at += block.len;
        }
        Some((start, points))
    }

    /// Counts bytes as allocated.
    pub(crate) fn add_used(&mut self, bytes: usize) {
        self.used += bytes;
        self.used_high = self.used_high.max(self.used);
    }

    /// Counts allocated bytes as freed in stream order.
    pub(crate) fn sub_used(&mut self, bytes: usize) {
        self.used -= bytes;
    }

    fn find(&self, len: usize, usable: impl Fn(Option<Point>) -> bool) -> Option<usize> {
        // The run of adjacent usable blocks that ends at the current one: its start, end and
        // segment.
        let mut run = (0, 0, 0);
        for (&start, block) in &self.free {
            if !usable(block.freed) {
                run = (0, 0, 0);
                continue;
            }
            let continues = run.1 == start && run.2 == block.segment;
            run = (if continues { run.0 } else { start }, start + block.len, block.segment);
            if run.1 - run.0 >= len {
                return Some(run.0);
            }
        }
        None
    }

    /// Frees a block at a point of a stream (`None`: complete already).
    pub(crate) fn deallocate(&mut self, start: usize, len: usize, freed: Option<Point>) {
        let (&segment, &bytes) = self
            .segments
            .range(..=start)
            .next_back()
            .expect("a segment exists while a block of it is allocated");
        assert!(start + len <= segment + bytes, "a block lies in one segment of its pool");
        self.free.insert(start, Block { len, segment, freed });
    }

    /// The segment size to request so that `len` bytes fit: the preferred and the least one. `None`
    /// if the limit does not allow it.
    pub(crate) fn growth(&self, len: usize) -> Option<[usize; 2]> {
        let least = len.checked_next_multiple_of(UNIT)?;
        let room = if self.max_size == 0 {
            usize::MAX
        } else {
            self.max_size.next_multiple_of(UNIT).saturating_sub(self.reserved)
        };
        let best = if least.max(SEGMENT) <= room { least.max(SEGMENT) } else { least };
        (least <= room).then_some([best, least])
    }

    /// Adds a segment.
    pub(crate) fn grow(&mut self, start: usize, len: usize) {
        self.segments.insert(start, len);
        self.free.insert(start, Block { len, segment: start, freed: None });
        self.reserved += len;
        self.reserved_high = self.reserved_high.max(self.reserved);
    }

    /// Removes all segments, also those with allocations; returns them as (start, length).
    pub(crate) fn take_segments(&mut self) -> BTreeMap<usize, usize> {
        self.free.clear();
        self.reserved = 0;
        std::mem::take(&mut self.segments)
    }

    /// Removes free segments, highest address first, keeping at least `keep` bytes; returns them as
    /// (start, length). The pool must be coalesced.
    pub(crate) fn shrink(&mut self, keep: usize) -> Vec<(usize, usize)> {
        let mut out = Vec::new();
        for (&start, &len) in self.segments.iter().rev() {
            let is_free = self
                .free
                .get(&start)
                .is_some_and(|block| block.len == len && block.freed.is_none());
            if is_free && self.reserved - len >= keep {
                self.reserved -= len;
                out.push((start, len));
            }
        }
        for (start, _) in &out {
            self.segments.remove(start);
            self.free.remove(start);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_blocks_of_different_streams_serve_one_request() {
        let mut pool = Pool::new(0, Medium::Device, 0, false);
        pool.grow(0, 4096);
        let blocks = [0, 1024, 2048].map(|_| pool.allocate(1024, |_| true).unwrap().0);
        assert_eq!(blocks, [0, 1024, 2048]);
        let (a, b) = (Point { stream: 1, position: 5 }, Point { stream: 2, position: 6 });
        pool.deallocate(0, 1024, Some(a));
        pool.deallocate(1024, 1024, Some(b));
        assert!(pool.allocate(2048, |point| point.is_none_or(|point| point == a)).is_none());
        assert_eq!(pool.allocate(2048, |_| true), Some((0, vec![a, b])));
        pool.deallocate(0, 2048, None);
        pool.deallocate(2048, 1024, Some(b));
        pool.coalesce(|_| true);
        assert_eq!(pool.shrink(1), []);
        assert_eq!(pool.shrink(0), [(0, 4096)]);
        assert_eq!(pool.reserved(), 0);
    }
}
