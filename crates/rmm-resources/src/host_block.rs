//! Blocks of the program's global allocator, as device addresses.

use std::alloc::Layout;

use rmm_core::{DevicePtr, Error};

/// Allocates; zero bytes are refused. Errors name `resource`.
pub(crate) fn allocate(resource: &'static str, layout: Layout) -> Result<DevicePtr, Error> {
    if layout.size() == 0 {
        // Nothing but a direct call of a hook asks for them, and that is a safe call.
        return Err(Error::invalid_argument(resource, "zero bytes").with_layout(layout));
    }
    // SAFETY: the layout is not of zero bytes.
    let block = unsafe { std::alloc::alloc(layout) };
    if block.is_null() {
        return Err(Error::out_of_memory(resource).with_layout(layout));
    }
    Ok(DevicePtr(block.expose_provenance() as u64))
}

/// Frees.
///
/// # Safety
/// The block came from [`allocate`] with this layout, is not freed already, and nothing uses it any
/// more.
pub(crate) unsafe fn free(pointer: DevicePtr, layout: Layout) {
    // An address that came from `allocate` fits.
    let address = usize::try_from(pointer.0);
    debug_assert!(address.is_ok(), "no address of this process: {pointer:?}");
    let Ok(address) = address else { return };
    let block: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: by the caller's contract the allocator returned this block for this layout, and it is
    // not freed.
    unsafe { std::alloc::dealloc(block, layout) };
}
