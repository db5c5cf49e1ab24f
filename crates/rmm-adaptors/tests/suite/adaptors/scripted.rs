//! An upstream that records what it is asked and does as it is told. Its memory is never touched:
//! addresses are numbers.

use std::alloc::Layout;
use std::sync::{Arc, Mutex, MutexGuard};

use rmm_core::{
    DeviceAccessible, DevicePtr, Error, HasProperty, Request, Resource, StreamRef, SyncResource,
};

/// Handles share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripted(Arc<Mutex<State>>);

/// Something to do before a free returns.
pub(crate) struct Deed(Box<dyn FnOnce() + Send>);

#[derive(Debug, Default)]
pub(crate) struct State {
    /// The address of the next block; 0 is the first one.
    pub(crate) next: u64,
    /// Whether the address of a block that is freed is the next one.
    pub(crate) reuses: bool,
    /// Errors of the next requests, the next one last.
    pub(crate) errors: Vec<Error>,
    /// What was asked for.
    pub(crate) asked: Vec<Layout>,
    /// What was freed.
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

    /// Blocks that were handed out and not freed.
    pub(crate) fn live(&self) -> usize {
        let state = self.state();
        state.asked.len() - state.freed.len()
    }

    /// Before the next free returns, its address is handed out again to what `deed` asks for.
    pub(crate) fn reuse_in_free(&self, deed: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        state.reuses = true;
        state.in_free = Some(Deed(Box::new(deed)));
    }
}

// SAFETY: its memory is never touched.
unsafe impl SyncResource for Scripted {
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let mut state = self.state();
        if let Some(error) = state.errors.pop() {
            return Err(error);
        }
        state.asked.push(layout);
        if layout.size() == 0 {
            return Ok(DevicePtr::NULL);
        }
        let pointer = FIRST.wrapping_add(state.next);
        state.next = state.next.wrapping_add((layout.size() as u64).next_multiple_of(256));
        Ok(DevicePtr(pointer))
    }

    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
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

    fn provide<'a>(&'a self, request: &mut Request<'a>) {
        request.properties(self).has::<DeviceAccessible>();
    }
}

// SAFETY: as above.
unsafe impl Resource for Scripted {
    fn do_allocate(&self, _: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_sync(layout)
    }

    unsafe fn do_deallocate(&self, _: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract; nobody uses the memory.
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

/// Frees what was allocated for everybody with this layout.
pub(crate) fn free_sync(resource: &impl SyncResource, pointer: DevicePtr, layout: Layout) {
    // SAFETY: every test allocates the block with this layout, or its upstream's memory is never
    // touched.
    unsafe { resource.deallocate_sync(pointer, layout) }
}
