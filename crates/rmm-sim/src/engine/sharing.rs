//! Pools that are shared between processes: imported allocations, and the end of exported ones.
//!
//! The other process is simulated by another thread, or the same one, on the same machine. An
//! imported allocation has its own address, which maps to the exporter's memory, so that the checks
//! see the accesses of both.
#![forbid(unsafe_code)]

use rmm_sys::{CuDeviceAttribute, CuMemHandleType, CuResult};

use crate::engine::session::Session;
use crate::engine::state::State;
use crate::model::memory::{Allocation, AllocationKind, Place};
use crate::model::operation::Operation;
use crate::model::pool::Pool;
use crate::model::pool_name::Name;
use crate::model::trace::LeakKind;
use crate::model::violation::{Violation, ViolationKind};
use crate::model::work::Work;

impl State {
    /// Whether pools of a device can be shared by handles of this type.
    pub(crate) fn shares_pools(&self, device: usize, kind: CuMemHandleType) -> bool {
        let attribute = CuDeviceAttribute::MEMPOOL_SUPPORTED_HANDLE_TYPES;
        let types = self.devices[device].attribute(attribute).unwrap_or(0);
        kind == CuMemHandleType::POSIX_FILE_DESCRIPTOR && types.cast_unsigned() & kind.0 != 0
    }

    /// Ends the imports of an allocation that its exporter frees; each should have been freed
    /// before.
    pub(crate) fn end_imports(&mut self, allocation: &Allocation) {
        let of_it = |imported: &&Allocation| matches!(imported.kind, AllocationKind::Imported { id, .. } if id == allocation.id);
        let imports: Vec<Allocation> = self.allocations.iter().filter(of_it).copied().collect();
        for imported in imports {
            let place = self.located(&(imported.start..imported.start + imported.bytes));
            let violation = Violation::new(ViolationKind::FreedInUse)
                .with_detail("its exporter freed it before the importer did");
            self.checks.report(violation.with_place(place));
            self.end_import(&imported);
            self.allocations.release(imported.id);
        }
    }

    /// Ends the use of an imported address.
    fn end_import(&mut self, imported: &Allocation) {
        self.check_freed(imported, None);
        self.allocations.forget(imported);
        self.virtual_memory.return_addresses(imported.start, imported.bytes);
    }
}

impl Session<'_> {
    /// Imports an allocation of a shared pool; returns its new address.
    pub(crate) fn import(&mut self, pool: u64, name: Name) -> Result<usize, CuResult> {
        let of = self.pools.get(&pool).and_then(Pool::imported_from);
        let (id, start) = name.allocation;
        let source = self.allocations.at(start).filter(|source| source.id == id);
        let source = source.ok_or(CuResult::INVALID_VALUE)?;
        let is_of_pool = matches!(source.kind, AllocationKind::Pool(key, _) if Some(key) == of);
        if !is_of_pool || of != Some(name.pool) || name.machine != self.machine_id() {
            return Err(CuResult::INVALID_VALUE);
        }
        self.open_addresses()?;
        let address = self.virtual_memory.take_addresses(source.bytes);
        let address = address.ok_or(CuResult::OUT_OF_MEMORY)?;
        let kind = AllocationKind::Imported { pool, source: start, id };
        self.allocations.insert(address, source.bytes, kind, source.device);
        self.note_origin(LeakKind::Allocation, address as u64);
        self.trace_address(address);
        Ok(address)
    }

    /// Frees an imported address in stream order. The memory still belongs to the exporter, whose
    /// free must be ordered after this.
    pub(crate) fn release_import(
        &mut self,
        imported: &Allocation,
        stream: u64,
    ) -> Result<(), CuResult> {
        self.trace_address(imported.start);
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
