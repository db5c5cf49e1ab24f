//! What is mapped, by its address and by its name.

use std::collections::{BTreeMap, HashMap};
use std::mem::ManuallyDrop;

use rmm_core::DevicePtr;
use rmm_resources::{ImportAccess, ImportedMemory, Piece, PieceRange, ShareableHandle};

use crate::protocol::Granted;
use crate::{Lease, LeaseError};

/// An allocation of the owner's that is mapped here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeasedRange {
    /// Where it is mapped.
    pub pointer: DevicePtr,
    /// Its size.
    pub bytes: u64,
}

pub(super) struct Mapping {
    pub(super) id: String,
    pub(super) memory: ImportedMemory,
    /// Whether it is a block: it was allocated by this resource, and is not freed.
    is_block: bool,
    /// Whether it was found by a name: then it stays mapped to the end, also if it is freed.
    is_kept: bool,
}

/// The owner's allocations that are mapped here.
#[derive(Default)]
pub(super) struct Mappings {
    by_address: BTreeMap<u64, Mapping>,
    /// The addresses by name.
    addresses: HashMap<String, u64>,
    /// The sizes of what is committed, once they were asked for: they do not change while this
    /// session reads.
    sizes: Option<HashMap<String, u64>>,
}

impl Mappings {
    pub(super) fn add(&mut self, id: String, memory: ImportedMemory, is_block: bool) -> DevicePtr {
        let pointer = memory.as_ptr();
        self.addresses.insert(id.clone(), pointer.0);
        self.by_address.insert(pointer.0, Mapping { id, memory, is_block, is_kept: !is_block });
        pointer
    }

    /// Takes a block out that is freed, unless it is kept.
    pub(super) fn remove(&mut self, pointer: DevicePtr) -> Option<Mapping> {
        let mapping = self.by_address.get_mut(&pointer.0)?;
        mapping.is_block = false;
        if mapping.is_kept {
            return None;
        }
        let mapping = self.by_address.remove(&pointer.0)?;
        self.addresses.remove(&mapping.id);
        Some(mapping)
    }

    /// Where an allocation is mapped, which stays so from now on.
    ///
    /// # Errors
    /// If it is unmapped, since the driver has refused a part of `detach`.
    pub(super) fn keep(&mut self, id: &str) -> Result<Option<LeasedRange>, LeaseError> {
        let address = self.addresses.get(id);
        let Some(mapping) = address.and_then(|address| self.by_address.get_mut(address)) else {
            return Ok(None);
        };
        if !mapping.memory.is_mapped() {
            return Err(LeaseError::State("detach did not complete: call it again"));
        }
        mapping.is_kept = true;
        let (pointer, bytes) = (mapping.memory.as_ptr(), mapping.memory.bytes());
        Ok(Some(LeasedRange { pointer, bytes }))
    }

    /// The mapping that contains a range, and where the range begins there.
    pub(super) fn place_of(&self, pointer: DevicePtr, size: u64) -> Option<(&str, u64)> {
        let (&start, mapping) = self.by_address.range(..=pointer.0).next_back()?;
        let (offset, whole) = (pointer.0 - start, mapping.memory.bytes());
        let is_inside = offset.checked_add(size).is_some_and(|end| end <= whole);
        is_inside.then_some((&*mapping.id, offset))
    }

    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Mapping> {
        self.by_address.values_mut()
    }

    pub(super) fn bytes(&self) -> u64 {
        let mapped = self.by_address.values().filter(|one| one.memory.is_mapped());
        mapped.map(|one| one.memory.bytes()).sum()
    }

    /// Changes what work of this process may do to all of it.
    pub(super) fn set_access(&mut self, access: ImportAccess) -> Result<(), LeaseError> {
        for mapping in self.by_address.values_mut() {
            mapping.memory.grant_access(mapping.memory.device(), access)?;
        }
        Ok(())
    }

    /// To be called when another session begins.
    pub(super) fn forget_sizes(&mut self) {
        self.sizes = None;
    }

    /// The sizes of what is committed.
    pub(super) fn sizes(&mut self, lease: &mut Lease) -> Result<&HashMap<String, u64>, LeaseError> {
        if lease.lock() == Granted::Write || self.sizes.is_none() {
            let records = lease.list()?.into_iter();
            self.sizes = Some(records.map(|one| (one.allocation_id, one.aligned_size)).collect());
        }
        Ok(self.sizes.get_or_insert_default())
    }

    /// Unmaps what was mapped by name. Blocks stay, since someone may use them.
    pub(super) fn end(&mut self) {
        for (_, mapping) in std::mem::take(&mut self.by_address) {
            if mapping.is_block {
                let _leaked = ManuallyDrop::new(mapping.memory);
            }
        }
    }
}

/// What work of this process may do to memory of a session.
pub(super) fn access(lease: &Lease) -> ImportAccess {
    match lease.lock() {
        Granted::Write => ImportAccess::ReadWrite,
        Granted::Read => ImportAccess::ReadOnly,
    }
}

/// An allocation as what is to be mapped: one piece.
pub(super) fn pieces(lease: &mut Lease, id: &str, bytes: u64) -> Result<Vec<Piece>, LeaseError> {
    let handle = ShareableHandle::from(lease.export(id)?);
    let range = PieceRange { export: 0, index: 0, count: 1, handle_bytes: bytes, offset: 0, bytes };
    Ok(vec![Piece { handle, range }])
}
