//! A scripted upstream that records all calls. Its memory is never touched: addresses are numbers.

use std::alloc::Layout;
use std::sync::{Arc, Mutex, MutexGuard};

use rmm_core::{
    DeviceAccessible, DevicePtr, Error, HasProperty, Query, Resource, StreamRef,
    SynchronousResource,
};

/// A handle: clones share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripted(Arc<Mutex<State>>);

/// An action before a free returns.
pub(crate) struct Deed(Box<dyn FnOnce() + Send>);

#[derive(Debug, Default)]
pub(crate) struct State {
    /// The address of the next block; 0 means the first.
    pub(crate) next: u64,
    /// Whether the next block reuses the address of the block that was freed last.
    pub(crate) reuses: bool,
    /// Errors of the next requests, in reverse order.
    pub(crate) errors: Vec<Error>,
    /// All requests.
    pub(crate) asked: Vec<Layout>,
    /// All frees.
    pub(crate) freed: Vec<(DevicePtr, Layout)>,
    pub(crate) in_free: Option<Deed>,
}

impl std::fmt::Debug for Deed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Deed")
    }
}

pub(crate) const FIRST: u64 = 0x7f00_0000_0000;

impl Scripted {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic under it")
    }

    /// The number of live blocks.
    pub(crate) fn live(&self) -> usize {
        let state = self.state();
        state.asked.len() - state.freed.len()
    }

    /// Before the next free returns, its address is allocated again by `deed`.
    pub(crate) fn reuse_in_free(&self, deed: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        state.reuses = true;
        state.in_free = Some(Deed(Box::new(deed)));
    }
}

// SAFETY: its memory is never touched.
unsafe impl SynchronousResource for Scripted {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let mut state = self.state();
        if let Some(error) = state.errors.pop() {
            return Err(error);
        }
        state.asked.push(layout);
        let pointer = FIRST.wrapping_add(state.next);
        state.next = state.next.wrapping_add((layout.size() as u64).next_multiple_of(256));
        Ok(DevicePtr(pointer))
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        let deed = {
            let mut state = self.state();
            state.freed.push((pointer, layout));
            if state.reuses {
                state.next = pointer.0 - FIRST;
            }
            state.in_free.take()
        };
        if let Some(Deed(deed)) = deed {
            deed();
        }
    }

    fn name(&self) -> &'static str {
        "scripted"
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.properties(self).has::<DeviceAccessible>();
    }
}

// SAFETY: its memory is never touched.
unsafe impl Resource for Scripted {
    fn do_allocate(&self, _: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_sync(layout)
    }

    unsafe fn do_deallocate(&self, _: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract; nothing uses the memory.
        unsafe { self.deallocate_sync(pointer, layout) };
    }
}

// SAFETY: its memory is never touched.
unsafe impl HasProperty<DeviceAccessible> for Scripted {}

impl PartialEq for Scripted {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Frees a block that was allocated synchronously with this layout.
pub(crate) fn free_sync(resource: &impl SynchronousResource, pointer: DevicePtr, layout: Layout) {
    // SAFETY: every test allocates the block with this layout; the memory is not in use, or is
    // never touched.
    unsafe { resource.deallocate_sync(pointer, layout) }
}
