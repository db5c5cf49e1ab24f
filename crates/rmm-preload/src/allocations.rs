//! Allocation and free, and the addresses that are ours.

use std::alloc::Layout;
use std::sync::LazyLock;

use dashmap::DashMap;
use rmm_core::sys::{CuDevicePtr, CuResult, CuStream, Driver};
use rmm_core::{
    AnyResource, CUDA_ALLOCATION_ALIGNMENT, DevicePtr, Error, Resource, SynchronousResource,
};

use crate::next::next;
use crate::{devices, report, streams};

/// A block that the program has.
#[derive(Clone, Copy, Debug)]
struct Block {
    of: devices::Number,
    /// Bytes of the resource's block.
    bytes: usize,
    /// How many of them come before the program's address.
    before: usize,
}

/// Each block by the program's address.
static LIVE: LazyLock<DashMap<DevicePtr, Block>> = LazyLock::new(DashMap::new);

/// The bytes before a block at the start of upstream's memory.
const OFFSET: usize = CUDA_ALLOCATION_ALIGNMENT;

/// What became of a call.
pub(crate) enum Served {
    /// The program gets this code.
    Yes(CuResult),
    /// The driver is to be called.
    No,
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, CUDA_ALLOCATION_ALIGNMENT).ok().filter(|_| bytes > 0)
}

/// Allocates from the resource of the current device, in the order of a stream or for all.
pub(crate) fn allocate(
    driver: &Driver,
    stream: Option<CuStream>,
    bytes: usize,
    to: impl FnOnce(DevicePtr),
) -> Served {
    let (Some(_), Some(device)) = (layout(bytes), devices::current(driver)) else {
        return Served::No;
    };
    if stream.is_some_and(|stream| streams::is_capturing(driver, stream)) {
        return Served::No;
    }
    let block_of = |before| allocate_block(&device, stream, bytes, before);
    let mut allocated = block_of(0);
    if let Ok((pointer, block)) = allocated
        && device.divides
        && starts_memory(pointer)
        && free_block(driver, stream, pointer, block) == CuResult::SUCCESS
    {
        // Where there is no room for more, the program gets what it asks for all the same.
        allocated = block_of(OFFSET).or_else(|_| block_of(0));
    }
    match allocated {
        Ok((pointer, block)) => {
            LIVE.insert(pointer, block);
            report::count_served();
            to(pointer);
            Served::Yes(CuResult::SUCCESS)
        }
        Err(error) if error.is_out_of_memory() => Served::Yes(CuResult::OUT_OF_MEMORY),
        Err(_) => Served::No,
    }
}

/// Allocates a block of the device's resource, and the program's address in it.
fn allocate_block(
    device: &devices::Device,
    stream: Option<CuStream>,
    bytes: usize,
    before: usize,
) -> Result<(DevicePtr, Block), Error> {
    let bytes = bytes.saturating_add(before);
    let layout = layout(bytes).ok_or_else(|| Error::out_of_memory("preload"))?;
    let pointer = match stream {
        Some(stream) => streams::with(stream, |stream| device.resource.allocate(stream, layout))
            .and_then(|allocated| allocated),
        None => device.resource.allocate_sync(layout),
    }?;
    Ok((DevicePtr(pointer.0 + before as u64), Block { of: device.number, bytes, before }))
}

/// Whether an address is the first of what the driver has allocated. A library that has the
/// driver's own functions, such as the CUDA runtime, may free there what the program allocated
/// here: the driver then frees the whole chunk of a pool. Any other address it refuses.
fn starts_memory(pointer: DevicePtr) -> bool {
    type Function = unsafe extern "C" fn(*mut CuDevicePtr, *mut usize, CuDevicePtr) -> CuResult;
    static FUNCTION: LazyLock<Option<Function>> = LazyLock::new(|| {
        // SAFETY: this is the function's type in every version of the driver.
        unsafe { next(c"cuMemGetAddressRange_v2") }
    });
    let Some(range_of) = *FUNCTION else { return true };
    let (mut base, mut bytes) = (DevicePtr::NULL, 0);
    // SAFETY: both may be written to.
    let code = unsafe { range_of(&raw mut base, &raw mut bytes, pointer) };
    code != CuResult::SUCCESS || base == pointer
}

/// Frees an address of ours, in the order of a stream or after all work.
pub(crate) fn free(driver: &Driver, stream: Option<CuStream>, pointer: DevicePtr) -> Served {
    let Some((_, block)) = LIVE.remove(&pointer) else { return Served::No };
    let code = free_block(driver, stream, pointer, block);
    if code != CuResult::SUCCESS {
        // The program may try again.
        LIVE.insert(pointer, block);
    }
    Served::Yes(code)
}

/// Frees a block that is in the table no more.
fn free_block(
    driver: &Driver,
    stream: Option<CuStream>,
    pointer: DevicePtr,
    block: Block,
) -> CuResult {
    let (Some(layout), Some(device)) = (layout(block.bytes), devices::with_number(block.of)) else {
        // The device was reset, and the memory with it.
        return CuResult::SUCCESS;
    };
    let pointer = DevicePtr(pointer.0 - block.before as u64);
    match stream {
        Some(stream) => free_in_order(&device.resource, stream, pointer, layout),
        None => free_after_all(driver, &device.resource, pointer, layout),
    }
}

fn free_in_order(
    resource: &AnyResource,
    stream: CuStream,
    pointer: DevicePtr,
    layout: Layout,
) -> CuResult {
    let freed = streams::with(stream, |stream| {
        // SAFETY: it was allocated with this layout, and left the table: it is freed once. What
        // uses it is enqueued on the stream, as the driver's own function demands.
        unsafe { resource.deallocate(stream, pointer, layout) };
    });
    match freed {
        Ok(()) => CuResult::SUCCESS,
        Err(error) => error.code().unwrap_or(CuResult::INVALID_HANDLE),
    }
}

fn free_after_all(
    driver: &Driver,
    resource: &AnyResource,
    pointer: DevicePtr,
    layout: Layout,
) -> CuResult {
    // SAFETY: it takes no argument.
    let code = unsafe { driver.cuCtxSynchronize() };
    if code == CuResult::SUCCESS {
        // SAFETY: it was allocated with this layout, and left the table: it is freed once. All work
        // of the context is complete.
        unsafe { resource.deallocate_sync(pointer, layout) };
    }
    code
}

/// Forgets the allocations of a device that is reset.
pub(crate) fn forget(number: devices::Number) {
    LIVE.retain(|_, block| block.of != number);
}
