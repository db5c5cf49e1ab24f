//! Host memory registered with the driver.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ffi::{c_uint, c_void};

use rmm_core::Device;
use rmm_sys::{CuDeviceAttribute, CuDevicePtr, CuResult};

use super::memory::{free_pinned, pinned};
use super::raw::{Memory, Stream, driver};
use super::{answers, is_refused, works};
use crate::run::{in_every_place, in_every_place_unwatched};

const LAYOUT: Layout = match Layout::from_size_align(1 << 20, 1 << 16) {
    Ok(layout) => layout,
    Err(_) => panic!("a valid layout"),
};

/// Whole pages of the host, which are unregistered before they go.
struct Pages {
    start: *mut u8,
    is_registered: Cell<bool>,
}

impl Pages {
    fn new() -> Self {
        // SAFETY: the layout is not of no bytes.
        let pages = unsafe { alloc_zeroed(LAYOUT) };
        if pages.is_null() {
            handle_alloc_error(LAYOUT);
        }
        Self { start: pages, is_registered: Cell::new(false) }
    }

    fn register(&self, bytes: usize, flags: c_uint) -> CuResult {
        // SAFETY: so much memory is there, and is unregistered before it goes.
        let code =
            unsafe { driver().cuMemHostRegister_v2(self.start.cast::<c_void>(), bytes, flags) };
        self.is_registered.set(self.is_registered.get() || code.is_success());
        code
    }

    fn unregister(&self) -> CuResult {
        self.is_registered.set(false);
        // SAFETY: no work uses the memory.
        unsafe { driver().cuMemHostUnregister(self.start.cast::<c_void>()) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.is_registered.get() {
            // If this fails, it has failed before.
            let _ignored = self.unregister();
        }
        // SAFETY: allocated by `new` with this layout.
        unsafe { dealloc(self.start, LAYOUT) };
    }
}

fn can_register() -> Result<bool, rmm_core::Error> {
    let supported = CuDeviceAttribute::HOST_REGISTER_SUPPORTED;
    Ok(Device::current()?.attribute(supported)? == 1)
}

#[test]
fn memory_is_registered_once_at_a_time() {
    in_every_place_unwatched(|| {
        if !can_register()? {
            return Ok(());
        }
        let pages = Pages::new();
        let never = CuResult::HOST_MEMORY_NOT_REGISTERED;
        answers("unregistering it before", &pages.unregister(), &never)?;
        works("registering it", pages.register(LAYOUT.size(), 0))?;
        let again = CuResult::HOST_MEMORY_ALREADY_REGISTERED;
        answers("registering it again", &pages.register(LAYOUT.size(), 0), &again)?;
        works("unregistering it", pages.unregister())?;
        answers("unregistering it again", &pages.unregister(), &never)?;
        works("registering it anew", pages.register(LAYOUT.size(), 0))?;
        works("unregistering it at the end", pages.unregister())
    });
}

#[test]
fn registering_is_refused_where_it_makes_no_sense() {
    in_every_place_unwatched(|| {
        let pages = Pages::new();
        is_refused("no bytes", pages.register(0, 0))?;
        is_refused("an unknown flag", pages.register(LAYOUT.size(), 1 << 8))?;
        // SAFETY: there is no memory, which the driver finds out.
        let null = unsafe { driver().cuMemHostRegister_v2(std::ptr::null_mut(), 1 << 16, 0) };
        is_refused("null", null)
    });
}

#[test]
fn pinned_memory_is_not_registered() {
    in_every_place_unwatched(|| {
        let pointer = pinned(LAYOUT.size(), 0)?;
        // SAFETY: so much memory is there.
        let code = unsafe { driver().cuMemHostRegister_v2(pointer, LAYOUT.size(), 0) };
        if code.is_success() {
            // SAFETY: registered just now.
            works("unregistering it", unsafe { driver().cuMemHostUnregister(pointer) })?;
        }
        // SAFETY: allocated above, and no work uses it.
        works("the free", unsafe { free_pinned(pointer) })?;
        is_refused("registering it", code)
    });
}

#[test]
fn registered_memory_serves_copies() {
    in_every_place(|| {
        if !can_register()? {
            return Ok(());
        }
        let (memory, own, pages) = (Memory::words()?, Stream::non_blocking()?, Pages::new());
        works("registering it", pages.register(LAYOUT.size(), 0))?;
        let source = pages.start.cast::<c_void>();
        // SAFETY: both are longer; the wait below ends the copy.
        let code = unsafe { driver().cuMemcpyHtoDAsync_v2(memory.pointer, source, 64, own.raw()) };
        works("the copy", code)?;
        works("the wait for it", own.synchronize())?;
        works("unregistering it", pages.unregister())?;
        memory.holds(0)
    });
}

#[test]
fn registered_memory_has_one_address_where_the_device_says_so() {
    in_every_place(|| {
        let device = Device::current()?;
        let same = CuDeviceAttribute::CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM;
        if !can_register()? || device.attribute(same)? != 1 {
            return Ok(());
        }
        let pages = Pages::new();
        works("registering it", pages.register(LAYOUT.size(), 0))?;
        let mut found = CuDevicePtr::NULL;
        // SAFETY: `found` may be written to; the memory is registered.
        let code =
            unsafe { driver().cuMemHostGetDevicePointer_v2(&raw mut found, pages.start.cast(), 0) };
        works("unregistering it", pages.unregister())?;
        works("the question", code)?;
        answers("the device's address", &found, &CuDevicePtr(pages.start.addr() as u64))
    });
}
