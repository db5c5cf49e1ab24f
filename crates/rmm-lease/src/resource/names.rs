//! Names for contents, by which another process finds them.

use rmm_core::{DevicePtr, Error, fork};

use super::{LeasedMemoryResource, NAME};
use crate::LeaseError;
use crate::protocol::Content;

/// What a name stands for, mapped here.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NamedRange {
    /// Where it begins.
    pub pointer: DevicePtr,
    /// Its size, in bytes.
    pub size: u64,
    /// What the writer has said of it, such as a shape and a type.
    pub bytes: Vec<u8>,
}

impl LeasedMemoryResource {
    /// Gives a range of this resource's memory a name, or another range to a name; it may be a part
    /// of a block, such as a buffer of a pool above. `bytes` is for the reader, at most 4096.
    ///
    /// # Errors
    /// [`LeaseError::Memory`] if the range is in no block of this resource;
    /// [`LeaseError::Refused`] if the session only reads, or there are too many names or bytes;
    /// [`LeaseError::State`] while detached.
    pub fn put(
        &self,
        name: &str,
        pointer: DevicePtr,
        size: u64,
        bytes: &[u8],
    ) -> Result<(), LeaseError> {
        fork::check()?;
        let mut state = self.shared.state();
        let (id, offset) = state.mappings.place_of(pointer, size).ok_or_else(|| {
            let text = format!("{size} bytes from {:#x} on are in none of its blocks", pointer.0);
            Error::invalid_argument(NAME, text)
        })?;
        let content = Content { allocation_id: id.to_owned(), offset, size, bytes: bytes.to_vec() };
        state.lease()?.put(name, content)
    }

    /// Maps what a name stands for, and returns where it is, as [`map`](Self::map) does.
    ///
    /// # Errors
    /// [`LeaseError::Refused`] if there is no such name; those of `map`.
    pub fn get(&self, name: &str) -> Result<NamedRange, LeaseError> {
        fork::check()?;
        let mut state = self.shared.state();
        let Content { allocation_id, offset, size, bytes } = state.lease()?.get(name)?;
        let range = state.map(&allocation_id, self.shared.device)?;
        if offset.checked_add(size).is_none_or(|end| end > range.bytes) {
            let text = format!("{name:?} is no part of {allocation_id:?}");
            return Err(LeaseError::Layout(text));
        }
        Ok(NamedRange { pointer: DevicePtr(range.pointer.0 + offset), size, bytes })
    }

    /// All names, in their order as text.
    ///
    /// # Errors
    /// [`LeaseError::State`] while detached; or if the owner has gone.
    pub fn names(&self) -> Result<Vec<String>, LeaseError> {
        fork::check()?;
        self.shared.state().lease()?.names()
    }
}
