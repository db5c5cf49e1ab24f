//! Memory pools: stream-ordered allocation by the rules that CUDA documents for `cuMemAllocAsync`.
//!
//! A pool takes memory from its device in segments of 32 MiB (or of the request, rounded up to 2
//! MiB, if that is more) and cuts blocks of multiples of 512 bytes from them, at the lowest address
//! that fits. A freed block carries the point in its stream at which it was freed. A stream may
//! have it if it is that stream, if the point is already before it by event waits, or if the point
//! is complete; and, where nothing else is left, by being made to wait.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use rmm_sys::{CuMemAllocationType, CuMemLocation, CuMemLocationType, CuMemPoolAttribute};

use crate::model::device::UNIT;
use crate::model::vector_clock::Point;

const SEGMENT: usize = 32 << 20;

/// A part of a segment that nobody holds.
#[derive(Clone, Copy, Debug)]
struct Block {
    len: usize,
    /// Where its segment starts; blocks of two segments are never merged, since segments go back
    /// one by one.
    segment: usize,
    /// The point at which it was freed, until that is known to be complete.
    freed: Option<Point>,
}

/// What a pool may do to reuse memory that was freed in another stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reuse {
    /// Reuse it where event waits order the two streams.
    pub(crate) follow_events: bool,
    /// Reuse it where the free is found complete.
    pub(crate) opportunistic: bool,
    /// Make the stream wait for the other one.
    pub(crate) internal_dependencies: bool,
}

/// What a pool's memory is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Medium {
    /// Memory of the device.
    Device,
    /// Managed memory, which host and device may touch; it does not count against the device's
    /// memory.
    Managed,
    /// Pinned memory of the host.
    Host,
}

/// What a pool has to do with other processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sharing {
    Private,
    /// Others may import it.
    Exported,
    /// It stands for the pool with this key.
    Imported(u64),
}

#[derive(Debug)]
pub(crate) struct Pool {
    /// The device that it is on; the first one for memory of the host.
    pub(crate) device: usize,
    pub(crate) medium: Medium,
    /// Where it was asked to be.
    pub(crate) location: CuMemLocation,
    /// Whether the decompression engine may use the memory.
    pub(crate) decompresses: bool,
    pub(crate) sharing: Sharing,
    /// The most bytes that it may reserve; 0 for no limit.
    max_size: usize,
    /// The device's own, which cannot be destroyed.
    pub(crate) is_default: bool,
    /// Destroyed by the program; goes when its last allocation is freed.
    pub(crate) destroyed: bool,
    /// Access of other devices, as set.
    pub(crate) access: BTreeMap<usize, u32>,
    pub(crate) reuse: Reuse,
    pub(crate) threshold: usize,
    reserved: usize,
    reserved_high: usize,
    /// The bytes handed out, as they were asked for. What is freed without a stream is counted for
    /// ever (both seen on an H200).
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

    /// Whether the pool's memory is the device's own, which it cannot be kept from. Managed memory
    /// is every device's, and a real driver tells of no access to it.
    pub(crate) fn is_home(&self, device: usize) -> bool {
        self.medium == Medium::Device && self.device == device
    }

    pub(crate) fn is_exported(&self) -> bool {
        self.sharing == Sharing::Exported
    }

    /// The key of the pool that it stands for, if it was imported.
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

    /// What it was made with, by its attribute.
    pub(crate) fn fact(&self, attribute: CuMemPoolAttribute) -> Option<usize> {
        let allocation_type = match self.medium {
            Medium::Device | Medium::Host => CuMemAllocationType::PINNED,
            Medium::Managed => CuMemAllocationType::MANAGED,
        };
        match attribute {
            CuMemPoolAttribute::ALLOCATION_TYPE => usize::try_from(allocation_type.0).ok(),
            // A file descriptor is the first type, and the only one here.
            CuMemPoolAttribute::EXPORT_HANDLE_TYPES => Some(usize::from(self.is_exported())),
            CuMemPoolAttribute::LOCATION_ID => usize::try_from(self.location.id).ok(),
            CuMemPoolAttribute::LOCATION_TYPE => usize::try_from(self.location.kind.0).ok(),
            CuMemPoolAttribute::MAX_POOL_SIZE => Some(self.max_size),
            CuMemPoolAttribute::HW_DECOMPRESS_ENABLED => Some(usize::from(self.decompresses)),
            _ => None,
        }
    }

    /// Sets a high-watermark back to what it is now.
    pub(crate) fn reset_reserved_high(&mut self) {
        self.reserved_high = self.reserved;
    }

    /// Sets a high-watermark back to what it is now.
    pub(crate) fn reset_used_high(&mut self) {
        self.used_high = self.used;
    }

    /// Forgets points that are complete, and merges neighbours that no longer differ.
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

    /// Takes `len` bytes of free blocks that are `usable`, at the lowest address; returns it with
    /// the points at which they were freed.
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

    /// Counts bytes as handed out.
    pub(crate) fn add_used(&mut self, bytes: usize) {
        self.used += bytes;
        self.used_high = self.used_high.max(self.used);
    }

    /// Counts bytes that were handed out as given back in the order of a stream.
    pub(crate) fn sub_used(&mut self, bytes: usize) {
        self.used -= bytes;
    }

    fn find(&self, len: usize, usable: impl Fn(Option<Point>) -> bool) -> Option<usize> {
        // The run of usable neighbours that ends at the block looked at: its start, end and
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

    /// Gives a block back, freed at `point` (`None`: complete already).
    pub(crate) fn deallocate(&mut self, start: usize, len: usize, freed: Option<Point>) {
        let (&segment, &bytes) = self
            .segments
            .range(..=start)
            .next_back()
            .expect("a segment is there as long as a block of it is handed out");
        assert!(start + len <= segment + bytes, "a block lies in one segment of its pool");
        self.free.insert(start, Block { len, segment, freed });
    }

    /// How much to ask the device for so that `len` bytes fit: what is best, and what would do.
    /// `None` if the limit does not allow it.
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

    /// Takes out all segments, whoever holds what of them; returns them as (start, length).
    pub(crate) fn take_segments(&mut self) -> BTreeMap<usize, usize> {
        self.free.clear();
        self.reserved = 0;
        std::mem::take(&mut self.segments)
    }

    /// Takes out wholly free segments, highest first, as long as `keep` bytes stay; returns them as
    /// (start, length). The pool is tidy.
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
    fn neighbours_of_different_streams_serve_one_request_together() {
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
