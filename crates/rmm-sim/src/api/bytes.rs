//! Immediate access of tests to the contents of memory, and reports of the host's accesses to the
//! checks.

use rmm_sys::{CuDevicePtr, CuResult};

use crate::engine::machine::Machine;
use crate::engine::state::State;
use crate::model::memory::{AllocationKind, Place, Side};
use crate::model::operation::Operation;

impl Machine {
    /// Reads bytes of device memory at `pointer` as they are now, regardless of queued work and of
    /// access rights.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the range does not lie within one live allocation or contiguous mappings,
    /// and for memory that the host can access, which the program may be writing now: see
    /// [`read_shared`](Self::read_shared).
    pub fn read(&self, pointer: CuDevicePtr, target: &mut [u8]) -> Result<(), CuResult> {
        let state = self.lock();
        let place = allocated(&state, pointer, target.len())?;
        if !place.on_device_only() {
            return Err(CuResult::INVALID_VALUE);
        }
        state.load(&place, target);
        Ok(())
    }

    /// Reads bytes of pinned or managed memory, which the host can access too, as they are now.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the range does not lie within one live allocation, or was allocated by
    /// the program and registered: the machine cannot know that it still exists.
    ///
    /// # Safety
    /// Until this returns the program does not write these bytes, and holds no `&mut` to them.
    pub unsafe fn read_shared(
        &self,
        pointer: CuDevicePtr,
        target: &mut [u8],
    ) -> Result<(), CuResult> {
        let state = self.lock();
        let place = allocated(&state, pointer, target.len())?;
        state.load(&place, target);
        Ok(())
    }

    /// Writes bytes of device memory at `pointer` now, regardless of queued work.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub fn write(&self, pointer: CuDevicePtr, source: &[u8]) -> Result<(), CuResult> {
        let mut state = self.lock();
        let place = allocated(&state, pointer, source.len())?;
        if !place.on_device_only() {
            return Err(CuResult::INVALID_VALUE);
        }
        state.store(&place, source);
        Ok(())
    }

    /// Reports to the checks that the program reads pinned or managed memory on the host: such
    /// accesses are not visible to them otherwise. It is a race unless the host has waited for all
    /// work that writes the memory.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the range does not lie within one live allocation.
    pub fn host_reads(&self, pointer: CuDevicePtr, bytes: usize) -> Result<(), CuResult> {
        self.host_uses(pointer, bytes, Operation::Read)
    }

    /// Reports to the checks that the program writes pinned or managed memory on the host. It is a
    /// race unless the host has waited for all work that accesses the memory.
    ///
    /// # Errors
    /// The errors of [`host_reads`](Self::host_reads).
    pub fn host_writes(&self, pointer: CuDevicePtr, bytes: usize) -> Result<(), CuResult> {
        self.host_uses(pointer, bytes, Operation::Write)
    }

    fn host_uses(
        &self,
        pointer: CuDevicePtr,
        bytes: usize,
        operation: Operation,
    ) -> Result<(), CuResult> {
        let mut state = self.lock();
        let address = usize::try_from(pointer.0).map_err(|_| CuResult::INVALID_VALUE)?;
        let place = state.place(address, bytes, Side::Host)?;
        state.check_host_use(&place, operation);
        Ok(())
    }
}

/// A range in an allocation that this machine made, rather than registered.
fn allocated(state: &State, pointer: CuDevicePtr, bytes: usize) -> Result<Place, CuResult> {
    let address = usize::try_from(pointer.0).map_err(|_| CuResult::INVALID_VALUE)?;
    let place = state.place(address, bytes, Side::Device)?;
    let own =
        place.allocation.is_some_and(|allocation| allocation.kind != AllocationKind::Registered);
    if own { Ok(place) } else { Err(CuResult::INVALID_VALUE) }
}
