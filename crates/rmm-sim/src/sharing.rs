//! Pools that are shared with another process: what names them outside, and what is imported again.
//!
//! The other process is played by another thread, or by the same one: it is of the same machine.
//! What is imported has addresses of its own, which name the exporter's memory, so that the checks
//! see what either does to it.
#![forbid(unsafe_code)]

use rmm_sys::{CuDeviceAttribute, CuMemHandleType, CuResult};

use crate::check::{Violation, ViolationKind};
use crate::memory::{Allocation, Kind, Place};
use crate::operation::Operation;
use crate::pool::Pool;
use crate::session::Session;
use crate::state::State;
use crate::stream::Work;

/// What begins the names that the software device gives.
const MAGIC: [u8; 8] = *b"rmm-sim\0";
/// The bytes of a name.
pub(crate) const NAME: usize = 64;

/// What an exported pool or an allocation of it is called outside of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    pub(crate) machine: u32,
    pub(crate) pool: u64,
    /// The allocation's id and address; 0 for the pool itself.
    pub(crate) allocation: (u64, usize),
}

impl Name {
    pub(crate) fn to_bytes(self) -> [u8; NAME] {
        let words = [
            u64::from_ne_bytes(MAGIC),
            u64::from(std::process::id()),
            u64::from(self.machine),
            self.pool,
            self.allocation.0,
            self.allocation.1 as u64,
            0,
            0,
        ];
        let mut bytes = [0; NAME];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// # Errors
    /// `INVALID_VALUE` for what no machine of this process has given.
    pub(crate) fn from_bytes(bytes: &[u8; NAME]) -> Result<Self, CuResult> {
        let (words, _) = bytes.as_chunks::<8>();
        let mut numbers = [0; NAME / 8];
        for (number, word) in numbers.iter_mut().zip(words) {
            *number = u64::from_ne_bytes(*word);
        }
        let [magic, process, machine, pool, id, start, 0, 0] = numbers else {
            return Err(CuResult::INVALID_VALUE);
        };
        if magic != u64::from_ne_bytes(MAGIC) || process != u64::from(std::process::id()) {
            return Err(CuResult::INVALID_VALUE);
        }
        let invalid = |_| CuResult::INVALID_VALUE;
        let machine = u32::try_from(machine).map_err(invalid)?;
        let start = usize::try_from(start).map_err(invalid)?;
        Ok(Self { machine, pool, allocation: (id, start) })
    }
}

impl Allocation {
    pub(crate) fn is_imported(&self) -> bool {
        matches!(self.kind, Kind::Imported { .. })
    }
}

impl State {
    /// Whether pools of a device can be shared by handles of this type.
    pub(crate) fn shares_pools(&self, device: usize, kind: CuMemHandleType) -> bool {
        let attribute = CuDeviceAttribute::MEMPOOL_SUPPORTED_HANDLE_TYPES;
        let types = self.devices[device].attribute(attribute).unwrap_or(0);
        kind == CuMemHandleType::POSIX_FILE_DESCRIPTOR && types.cast_unsigned() & kind.0 != 0
    }

    /// An allocation is freed by who made it: whoever has imported it has to have let go of it.
    pub(crate) fn end_imports(&mut self, allocation: &Allocation) {
        let of_it = |imported: &&Allocation| matches!(imported.kind, Kind::Imported { id, .. } if id == allocation.id);
        let imports: Vec<Allocation> = self.allocations.iter().filter(of_it).copied().collect();
        for imported in imports {
            let place = (self.describe(imported.start), imported.bytes);
            let mut violation = Violation::new(ViolationKind::ReturnedInUse)
                .with_detail("it was freed where it was made before it was where it is imported");
            violation.place = Some(place);
            self.checks.report(violation);
            self.end_import(&imported);
            self.allocations.bury(imported.id);
        }
    }

    /// The program no longer names memory by its imported address.
    fn end_import(&mut self, imported: &Allocation) {
        self.check_freed(imported, None);
        self.allocations.forget(imported);
        self.virtual_memory.give_addresses(imported.start, imported.bytes);
    }
}

impl Session<'_> {
    /// Names an allocation of a shared pool once more.
    pub(crate) fn import(&mut self, pool: u64, name: Name) -> Result<usize, CuResult> {
        let of = self.pools.get(&pool).and_then(Pool::imported_from);
        let (id, start) = name.allocation;
        let source = self.allocations.at(start).filter(|source| source.id == id);
        let source = source.ok_or(CuResult::INVALID_VALUE)?;
        let is_of_pool = matches!(source.kind, Kind::Pool(key, _) if Some(key) == of);
        if !is_of_pool || of != Some(name.pool) || name.machine != self.state_machine() {
            return Err(CuResult::INVALID_VALUE);
        }
        self.open_addresses()?;
        let address = self.virtual_memory.take_addresses(source.bytes);
        let address = address.ok_or(CuResult::OUT_OF_MEMORY)?;
        let kind = Kind::Imported { pool, source: start, id };
        self.allocations.insert(address, source.bytes, kind, source.device);
        self.note(address);
        Ok(address)
    }

    /// Ends the use of an imported address in the order of a stream. The memory stays the
    /// exporter's, who has to free it behind that.
    pub(crate) fn release_import(
        &mut self,
        imported: &Allocation,
        stream: u64,
    ) -> Result<(), CuResult> {
        self.note(imported.start);
        let point = self.enqueue(stream, Work::Release { allocation: imported.id })?;
        let (address, bytes) = (imported.start, imported.bytes);
        let place = Place { address, bytes, allocation: Some(*imported) };
        if self.checks.is_on() {
            self.check_work(point, "the end of an import", &[(place, Operation::Read)]);
        }
        self.end_import(imported);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_it_was_made_of_and_nothing_else_is_one() {
        let name = Name { machine: 3, pool: 70, allocation: (9, 0x7000) };
        let bytes = name.to_bytes();
        assert_eq!(Name::from_bytes(&bytes), Ok(name));
        assert_eq!(Name::from_bytes(&[0; NAME]), Err(CuResult::INVALID_VALUE));
        for at in [0, 8, 63] {
            let mut altered = bytes;
            altered[at] ^= 1;
            assert_eq!(Name::from_bytes(&altered), Err(CuResult::INVALID_VALUE), "byte {at}");
        }
    }
}
