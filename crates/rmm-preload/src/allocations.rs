//! Allocation and free, and the addresses that are ours.

use std::alloc::Layout;
use std::sync::LazyLock;

use dashmap::DashMap;
use rmm_core::sys::{CuResult, CuStream, Driver};
use rmm_core::{AnyResource, CUDA_ALLOCATION_ALIGNMENT, DevicePtr, Resource, SyncResource};

use crate::{devices, report, streams};

/// Bytes of each allocation, by its address.
static LIVE: LazyLock<DashMap<DevicePtr, (devices::Number, usize)>> = LazyLock::new(DashMap::new);

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
    let (Some(layout), Some(device)) = (layout(bytes), devices::current(driver)) else {
        return Served::No;
    };
    let allocated = match stream {
        Some(stream) if streams::is_capturing(driver, stream) => return Served::No,
        Some(stream) => streams::with(stream, |stream| device.resource.allocate(stream, layout))
            .and_then(|allocated| allocated),
        None => device.resource.allocate_sync(layout),
    };
    match allocated {
        Ok(pointer) => {
            LIVE.insert(pointer, (device.number, bytes));
            report::count_served();
            to(pointer);
            Served::Yes(CuResult::SUCCESS)
        }
        Err(error) if error.is_out_of_memory() => Served::Yes(CuResult::OUT_OF_MEMORY),
        Err(_) => Served::No,
    }
}

/// Frees an address of ours, in the order of a stream or after all work.
pub(crate) fn free(driver: &Driver, stream: Option<CuStream>, pointer: DevicePtr) -> Served {
    let Some((_, (number, bytes))) = LIVE.remove(&pointer) else { return Served::No };
    let (Some(layout), Some(device)) = (layout(bytes), devices::with_number(number)) else {
        // The device was reset, and the memory with it.
        return Served::Yes(CuResult::SUCCESS);
    };
    let code = match stream {
        Some(stream) => free_in_order(&device.resource, stream, pointer, layout),
        None => free_after_all(driver, &device.resource, pointer, layout),
    };
    if code != CuResult::SUCCESS {
        // The program may try again.
        LIVE.insert(pointer, (number, bytes));
    }
    Served::Yes(code)
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
    LIVE.retain(|_, (of, _)| *of != number);
}
