//! Blocks of the program's global allocator, as device addresses.

use std::alloc::Layout;

use rmm_core::{DevicePtr, Error};

/// Allocates; zero bytes get the null address. Errors name `resource`.
pub(crate) fn allocate(resource: &'static str, layout: Layout) -> Result<DevicePtr, Error> {
    if layout.size() == 0 {
        return Ok(DevicePtr::NULL);
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
    let Ok(address) = usize::try_from(pointer.0) else {
        debug_assert!(layout.size() == 0, "no address of this process: {pointer:?}");
        return;
    };
    if layout.size() == 0 {
        return;
    }
    let block: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: by the caller's contract the allocator returned this block for this layout, and it is
    // not freed.
    unsafe { std::alloc::dealloc(block, layout) };
}
