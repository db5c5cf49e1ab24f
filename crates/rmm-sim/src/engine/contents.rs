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
            // SAFETY: `from` and `to` are usable places, and by the invariant of `Place` each lies
            // in an allocation or mapping whose memory the machine has mapped accessible, or in
            // pageable memory that the caller of the driver function promised for the copy. The
            // program holds no reference to it by the same promise.
            unsafe { mapping::copy(source, target, len) };
            done += len;
        }
    }

    /// Writes `bytes` to a usable place of their length.
    pub(crate) fn store(&mut self, to: &Place, bytes: &[u8]) {
        assert_eq!(bytes.len(), to.bytes, "the place is as long as the bytes to write");
        let mut done = 0;
        while let Some((target, len)) = self.host_piece(to, done) {
            // SAFETY: `to` is a usable place, and by the invariant of `Place` it lies in an
            // allocation or mapping whose memory the machine has mapped accessible, or in pageable
            // memory that the caller of the driver function promised for this write, and to which
            // no reference is in use.
            unsafe { mapping::store(&bytes[done..done + len], target) };
            done += len;
        }
    }

    /// Reads a usable place into `bytes`, which are of its length.
    pub(crate) fn load(&self, from: &Place, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), from.bytes, "the place is as long as the bytes to read");
        let mut done = 0;
        while let Some((source, len)) = self.host_piece(from, done) {
            // SAFETY: `from` is a usable place, and by the invariant of `Place` it lies in an
            // allocation or mapping whose memory the machine has mapped accessible, or in pageable
            // memory that the caller of the driver function promised for this read, and to which no
            // reference is in use.
            unsafe { mapping::load(source, &mut bytes[done..done + len]) };
            done += len;
        }
    }

    /// Fills a usable place with a pattern of one or four bytes.
    pub(crate) fn fill(&mut self, to: &Place, pattern: &[u8]) {
        let mut done = 0;
        while let Some((target, len)) = self.host_piece(to, done) {
            if let &[value] = pattern {
                // SAFETY: `to` is a usable place, and by the invariant of `Place` it lies in an
                // allocation or mapping whose memory the machine has mapped accessible, or in
                // pageable memory that the caller of the driver function promised for this write,
                // and to which no reference is in use.
                unsafe { mapping::fill(target, value, len) };
            } else {
                for offset in (0..len).step_by(pattern.len()) {
                    // SAFETY: `to` is a usable place, and by the invariant of `Place` it lies in an
                    // allocation or mapping whose memory the machine has mapped accessible, or in
                    // pageable memory that the caller of the driver function promised for this
                    // write, and to which no reference is in use. The pattern lies within the
                    // piece: a place that is filled is a multiple of the pattern long and aligned
                    // to it, and the pattern's length divides the granularity of mappings.
                    unsafe { mapping::store(pattern, target + offset) };
                }
            }
            done += len;
        }
    }
}
