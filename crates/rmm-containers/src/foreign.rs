//! Memory that another library allocated, as a resource of one block: it frees that block by a
//! function of the other library, and allocates nothing.

use std::alloc::Layout;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, DeviceAccessible, DevicePtr, Error, HasProperty, Query, Resource,
    StreamRef, SynchronousResource, fork, process_is_exiting,
};

const NAME: &str = "foreign";

/// Frees the block. It owns whatever keeps the block alive.
type Free = Box<dyn FnOnce(StreamRef<'_>) + Send>;

/// The resource of one block. It is a handle: clones share the function.
#[derive(Clone)]
pub(crate) struct ForeignMemory(Arc<Shared>);

struct Shared {
    /// `None` once the block is freed.
    free: Mutex<Option<Free>>,
}

impl ForeignMemory {
    pub(crate) fn new(free: impl FnOnce(StreamRef<'_>) + Send + 'static) -> Self {
        Self(Arc::new(Shared { free: Mutex::new(Some(Box::new(free))) }))
    }

    /// Calls the function, the first time. It may be part of a `Drop`, which must not unwind.
    pub(crate) fn free(&self, stream: StreamRef<'_>) {
        let free = self.0.take();
        if let Some(free) = free {
            catch(|| free(stream));
        }
    }
}

impl Shared {
    fn take(&self) -> Option<Free> {
        fork::lock(&self.free).take()
    }
}

impl Drop for Shared {
    /// The block was never freed: its context was lost, or the container could not be made. The
    /// owner is dropped.
    fn drop(&mut self) {
        let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(free) = free.take() {
            if process_is_exiting() {
                // The driver may be gone, and the destructor of the owner may call it.
                Box::leak(free);
            } else {
                catch(|| drop(free));
            }
        }
    }
}

/// Runs code of the other library, whose panics go no further.
fn catch(theirs: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(theirs)) {
        // The destructor of the payload may panic, too.
        let _leaked = Box::leak(payload);
    }
}

/// The alignment of an address: that of the driver's allocations, or `element` if that is more, or
/// less if the address is aligned less.
pub(crate) fn alignment_of(pointer: DevicePtr, element: usize) -> usize {
    let most = CUDA_ALLOCATION_ALIGNMENT.max(element);
    let exponent = pointer.0.trailing_zeros().min(most.trailing_zeros());
    1 << exponent
}

impl PartialEq for ForeignMemory {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for ForeignMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignMemory").finish_non_exhaustive()
    }
}

fn allocates_nothing(layout: Layout) -> Result<DevicePtr, Error> {
    let message = "memory of another library cannot grow: name the resource of the new memory";
    Err(Error::unsupported(NAME, message).with_layout(layout))
}

// SAFETY: it allocates no memory. The one block is the other library's, which the caller of the
// constructor answers for.
unsafe impl SynchronousResource for ForeignMemory {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        allocates_nothing(layout)
    }

    unsafe fn do_deallocate_sync(&self, _pointer: DevicePtr, _layout: Layout) {
        // All uses are complete, so the block may be freed in the order of any stream.
        self.free(StreamRef::legacy());
    }

    fn name(&self) -> &'static str {
        NAME
    }

    rmm_core::__by_clone!(to_any_sync);

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.properties(self).has::<DeviceAccessible>();
    }
}

// SAFETY: as above. The function frees the block in the order of the stream, by the contract of the
// constructor's caller.
unsafe impl Resource for ForeignMemory {
    fn do_allocate(&self, _stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        allocates_nothing(layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, _pointer: DevicePtr, _layout: Layout) {
        // A reset has freed the block, and ended the stream.
        let is_freed = stream.check_context().is_err_and(|error| error.is_context_lost());
        if !is_freed {
            self.free(stream);
        }
    }

    rmm_core::__by_clone!(to_any);
}

// SAFETY: the block is accessible to the device, by the contract of the constructors of containers
// over it.
unsafe impl HasProperty<DeviceAccessible> for ForeignMemory {}
