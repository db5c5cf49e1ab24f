//! The contents of memory: work reads and writes the bytes of a place here.

use crate::engine::state::State;
use crate::model::mapping;
use crate::model::memory::{Allocation, AllocationKind, Place};
use crate::model::piece::Piece;

impl State {
    /// The host address of the bytes of a usable place from `offset` on, and how many of them are
    /// contiguous there.
    fn host_piece(&self, place: &Place, offset: usize) -> Option<(usize, usize)> {
        let rest = place.address + offset..place.address + place.bytes;
        if rest.is_empty() {
            return None;
        }
        let piece = match place.allocation {
            Some(Allocation { kind: AllocationKind::Mapped, .. }) => {
                self.virtual_memory.pieces(&rest).next()?
            }
            Some(allocation) => allocation.piece(&rest),
            None => Piece::unmapped(&rest),
        };
        let start = piece.backing.start;
        let shadow = self.devices.iter().find_map(|device| device.shadow_of(start));
        Some((shadow.unwrap_or(start), piece.backing.len()))
    }

    /// Copies between places of `from.bytes` bytes that are usable.
    pub(crate) fn copy(&mut self, from: &Place, to: &Place) {
        let mut done = 0;
        while let Some((source, have)) = self.host_piece(from, done)
            && let Some((target, room)) = self.host_piece(to, done)
        {
            let len = have.min(room);
            // SAFETY: both ranges lie in allocations that are alive or in device memory that is
            // mapped, whose mappings in this process the machine owns, or in ordinary memory that
            // the caller of the driver promised for the copy.
            unsafe { mapping::copy(source, target, len) };
            done += len;
        }
    }

    /// Writes `bytes` to a usable place of their length.
    pub(crate) fn store(&mut self, to: &Place, bytes: &[u8]) {
        assert_eq!(bytes.len(), to.bytes, "the place is as long as what goes there");
        let mut done = 0;
        while let Some((target, len)) = self.host_piece(to, done) {
            // SAFETY: as in `copy`.
            unsafe { mapping::store(&bytes[done..done + len], target) };
            done += len;
        }
    }

    /// Reads a usable place into `bytes`, which are of its length.
    pub(crate) fn load(&self, from: &Place, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), from.bytes, "the place is as long as what comes from there");
        let mut done = 0;
        while let Some((source, len)) = self.host_piece(from, done) {
            // SAFETY: as in `copy`.
            unsafe { mapping::load(source, &mut bytes[done..done + len]) };
            done += len;
        }
    }

    /// Fills a usable place with a pattern of one or four bytes.
    pub(crate) fn fill(&mut self, to: &Place, pattern: &[u8]) {
        let mut done = 0;
        while let Some((target, len)) = self.host_piece(to, done) {
            if let &[value] = pattern {
                // SAFETY: as in `copy`.
                unsafe { mapping::fill(target, value, len) };
            } else {
                for offset in (0..len).step_by(pattern.len()) {
                    // SAFETY: as in `copy`; a place that is filled is a whole number of patterns
                    // long and starts at a multiple of their length, which divides the granularity
                    // of mappings too, so each piece is one.
                    unsafe { mapping::store(pattern, target + offset) };
                }
            }
            done += len;
        }
    }
}
