//! An allocator for host collections over a memory resource.

use std::alloc::Layout;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use rmm_core::known_contexts::context_of_memory;
use rmm_core::{
    Context, DevicePtr, HasProperty, HasResource, HostAccessible, SynchronousResource,
    process_is_exiting,
};

/// An allocator for host collections over a host-accessible resource: pinned or managed memory for
/// a vector that the host and devices read.
///
/// It allocates with [`allocate_sync`](SynchronousResource::allocate_sync). All clones share one
/// resource, which lives as long as the last of them. If the resource is out of memory, methods
/// such as `try_reserve` report it and all others abort, as with any allocator.
///
/// Device work that uses the memory must be complete before the collection accesses, moves or frees
/// it.
///
/// Memory of the driver belongs to the context that was current when the allocator, or a clone of
/// it, allocated first, and so does all that it allocates later. If that context ends, because its
/// device was reset, the memory is gone: a collection must not access it any more, dropping one
/// frees nothing, since another allocation may be at its address, and the allocator allocates
/// nothing any more.
///
/// With the feature `allocator-api2` it implements the trait of version 0.2 of that crate, which
/// `hashbrown` and `bumpalo` use; with `allocator-api2-04`, also that of version 0.4.
///
#[cfg_attr(feature = "allocator-api2", doc = "```")]
#[cfg_attr(not(feature = "allocator-api2"), doc = "```text")] // private without the feature
/// use std::alloc::{Layout, alloc, dealloc};
///
/// use allocator_api2::vec::Vec;
/// use rmm_containers::HostAllocator;
/// use rmm_core::{DevicePtr, Error, HasProperty, HostAccessible, SynchronousResource};
///
/// #[derive(Debug)]
/// struct Heap; // stands for a resource of pinned or managed memory
/// # // SAFETY: the system allocator keeps the contract.
/// # unsafe impl SynchronousResource for Heap {
/// #     fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
/// #         // SAFETY: the layout is not empty, as `HostAllocator` says.
/// #         let pointer = unsafe { alloc(layout) };
/// #         Ok(DevicePtr(pointer.expose_provenance() as u64))
/// #     }
/// #     unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
/// #         // SAFETY: allocated above with this layout.
/// #         unsafe { dealloc(std::ptr::with_exposed_provenance_mut(pointer.0 as usize), layout) };
/// #     }
/// #     fn name(&self) -> &'static str {
/// #         "heap"
/// #     }
/// # }
/// # // SAFETY: it is host memory.
/// # unsafe impl HasProperty<HostAccessible> for Heap {}
/// let mut numbers = Vec::new_in(HostAllocator::new(Heap));
/// numbers.extend([1, 2, 3]);
/// assert_eq!(numbers.as_slice(), [1, 2, 3]);
/// assert_eq!(numbers.allocator().resource().name(), "heap");
/// ```
///
/// A hash map in pinned memory:
///
#[cfg_attr(feature = "allocator-api2", doc = "```")]
#[cfg_attr(not(feature = "allocator-api2"), doc = "```text")] // private without the feature
/// use std::hash::RandomState;
///
/// use hashbrown::HashMap;
/// use rmm_containers::HostAllocator;
/// use rmm_resources::PinnedHostMemoryResource;
///
/// # let machine = rmm_sim::enter();
/// let pinned = HostAllocator::new(PinnedHostMemoryResource::new());
/// let mut lengths: HashMap<&str, usize, RandomState, HostAllocator<_>> =
///     HashMap::with_hasher_in(RandomState::new(), pinned);
/// for word in ["stream", "event", "pool"] {
///     lengths.insert(word, word.len());
/// }
/// assert_eq!((lengths["event"], lengths.len()), (5, 3));
/// assert!(machine.call_counts().iter().any(|(name, _)| *name == "cuMemHostAlloc"));
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[doc(alias = "cuda::pmr_adaptor")]
#[derive(Debug)]
pub struct HostAllocator<R> {
    /// Shared rather than cloned: memory from one clone of the allocator is freed by another, and a
    /// clone of `R` need not be the same resource.
    shared: Arc<Shared<R>>,
}

#[derive(Debug)]
struct Shared<R> {
    resource: R,
    /// The context that all memory ends with, once there is some that does.
    context: OnceLock<Context>,
}

impl<R: SynchronousResource + HasProperty<HostAccessible>> HostAllocator<R> {
    /// An allocator over `resource`, which may be a reference or a shared handle.
    pub fn new(resource: R) -> Self {
        Self { shared: Arc::new(Shared { resource, context: OnceLock::new() }) }
    }

    /// The resource.
    #[doc(alias = "upstream_resource")]
    pub fn resource(&self) -> &R {
        &self.shared.resource
    }
}

impl<R: SynchronousResource> HasResource for HostAllocator<R> {
    type Resource = R;

    fn memory_resource(&self) -> &R {
        &self.shared.resource
    }
}

impl<R> Clone for HostAllocator<R> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<R: SynchronousResource + HasProperty<HostAccessible>> HostAllocator<R> {
    /// The context that the memory ends with, once there is some that does.
    pub(crate) fn context(&self) -> Option<Context> {
        self.shared.context.get().copied()
    }

    /// Memory of the resource; `None` if it has none.
    fn take(&self, layout: Layout) -> Option<NonNull<[u8]>> {
        let pointer = if layout.size() == 0 {
            // Resources return null for empty layouts; an allocator returns a dangling pointer.
            NonNull::new(ptr::without_provenance_mut(layout.align()))
        } else {
            let pointer = self.allocate_in_context(layout)?;
            // A host-accessible address fits a `usize`.
            let address = usize::try_from(pointer.0).ok()?;
            NonNull::new(ptr::with_exposed_provenance_mut(address))
        };
        Some(NonNull::slice_from_raw_parts(pointer?, layout.size()))
    }

    /// Allocates in the one context that all memory ends with.
    fn allocate_in_context(&self, layout: Layout) -> Option<DevicePtr> {
        let Shared { resource, context } = &*self.shared;
        let _entered = context.get().map(|its| its.enter()).transpose().ok()?;
        let pointer = resource.allocate_sync(layout).ok()?;
        if context.get().is_none()
            && let Some(its) = context_of_memory(resource)
            && *context.get_or_init(|| its) != its
        {
            // Another thread was first, in another context.
            // SAFETY: allocated just now with this layout, and not used.
            unsafe { resource.deallocate_sync(pointer, layout) };
            return self.allocate_in_context(layout);
        }
        Some(pointer)
    }

    /// Frees memory, unless it has ended with its context.
    ///
    /// # Safety
    /// The memory came from [`take`](Self::take) of this allocator or a clone, with this layout,
    /// and is not used any more.
    unsafe fn put_back(&self, pointer: NonNull<u8>, layout: Layout) {
        let pointer = DevicePtr(pointer.as_ptr().expose_provenance() as u64);
        // If the driver cannot say, it stays allocated. As the process exits, resources free
        // nothing either.
        if !process_is_exiting() && self.context().is_some_and(|its| !its.is_there()) {
            return;
        }
        // SAFETY: by the caller's contract, the memory came from this resource with this layout and
        // is not used any more.
        unsafe { self.shared.resource.deallocate_sync(pointer, layout) };
    }
}

/// Implements the trait of one version of `allocator-api2`.
macro_rules! implement {
    ($version:ident) => {
        // SAFETY: 1. the resource returns memory that stays valid until it is freed, with the
        // requested alignment; it is host-accessible, as the resource declares by `HostAccessible`.
        // 2. All clones share the resource, and moving one does not move memory.
        unsafe impl<R> $version::alloc::Allocator for HostAllocator<R>
        where
            R: SynchronousResource + HasProperty<HostAccessible>,
        {
            fn allocate(
                &self,
                layout: Layout,
            ) -> Result<NonNull<[u8]>, $version::alloc::AllocError> {
                self.take(layout).ok_or($version::alloc::AllocError)
            }

            unsafe fn deallocate(&self, pointer: NonNull<u8>, layout: Layout) {
                // SAFETY: by the caller's contract, the memory came from `allocate` of this
                // allocator or a clone, and is not used any more; the layout fits it, which means
                // that it equals the requested one, since `allocate` returns exactly as many bytes.
                unsafe { self.put_back(pointer, layout) }
            }
        }
    };
}

implement!(allocator_api2);
#[cfg(feature = "allocator-api2-04")]
implement!(allocator_api2_04);
