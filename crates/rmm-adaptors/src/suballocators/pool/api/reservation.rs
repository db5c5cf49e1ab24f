//! Reservations: memory that is set aside in a pool, from which allocations cannot fail.
//!
//! ```text
//!   reserve(bytes)     | reserved                                |   one live block
//!   allocate           | block 1 | reserved                      |   split off, in constant time
//!   allocate           | block 1 | block 2      | reserved       |
//!   drop               | block 1 | block 2      | idle           |   blocks are the pool's own
//! ```

mod release;

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use rmm_core::siblings::{LimitId, MayBeWaitedFor};
use rmm_core::{
    AnyResource, AnySynchronousResource, CUDA_ALLOCATION_ALIGNMENT, Contains, DeviceAccessible,
    DevicePtr, Error, HasProperty, OomReason, PoolUsage, Property, PropertySet, Query, Resource,
    StreamRef, Structure, SynchronousResource, fork,
};

use super::pool::PoolMemoryResource;
use crate::shared::with_properties;
use crate::shared::with_properties::{Exactly, WithProperties, provide_views};
use crate::suballocators::pool::state::core::{PoolCore, padded_size};
use crate::suballocators::pool::values::units::{GRANULE, ListId};

const NAME: &str = "reservation";

/// Memory that is set aside in a [`PoolMemoryResource`]: an allocation from it succeeds as long as
/// it fits into what [remains](Self::remaining), whatever else the program and the device do.
///
/// Each allocation takes its size, rounded up to 256 bytes, from the reservation, with room for an
/// alignment above 256. The blocks are the pool's: a free returns them to the pool, by the
/// reservation or by the pool itself, and never to the reservation. What remains goes back to the
/// pool when the last clone is dropped.
///
/// It is a resource, so containers can be put into it. Any thread may use it, and blocks may be
/// allocated on any stream: no work uses the memory. An allocation takes the pool's lock and calls
/// no driver, but to ask which stream a handle of [unknown
/// lifetime](rmm_core::StreamLifetime::Unknown) names.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_adaptors::PoolMemoryResource;
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
/// let reservation = pool.reserve(3 << 20)?;
/// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(1 << 20, 256)?);
/// for remaining in [2 << 20, 1 << 20, 0] {
///     let block = reservation.allocate(&stream, layout)?;
///     assert_eq!(reservation.remaining(), remaining);
///     // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
///     unsafe { pool.deallocate(&stream, block, layout) };
/// }
/// let error = reservation.allocate(&stream, layout).unwrap_err();
/// assert!(error.is_out_of_memory());
/// # Ok(())
/// # }
/// ```
#[repr(transparent)]
pub struct Reservation<S: PropertySet = DeviceAccessible> {
    /// # Invariant
    /// The pool's memory has every property in `S`.
    inner: Arc<Inner>,
    set: Exactly<S>,
}

struct Inner {
    pool: PoolMemoryResource<()>,
    /// Lock order: before the pool's.
    rest: Mutex<Rest>,
}

/// What remains.
///
/// # Invariant
/// If `bytes` is not 0, a live block of the pool starts at `start`, has at least `bytes` bytes, and
/// is known to no one else; no work uses it.
struct Rest {
    start: DevicePtr,
    bytes: u64,
}

impl<S: PropertySet> PoolMemoryResource<S> {
    /// Sets `bytes` bytes aside, rounded up to a multiple of 256, as one contiguous block: by all
    /// steps of an allocation, and usable by any stream at once. They count as live.
    ///
    /// # Errors
    /// The errors of an allocation of `bytes` bytes;
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if that is more than
    /// can be addressed.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation<S>, Error> {
        let invalid =
            || Error::invalid_argument(NAME, format!("{bytes} bytes exceed the address space"));
        let bytes = bytes.checked_next_multiple_of(GRANULE).ok_or_else(invalid)?;
        let size = usize::try_from(bytes).map_err(|_| invalid())?;
        let layout =
            Layout::from_size_align(size, CUDA_ALLOCATION_ALIGNMENT).map_err(|_| invalid())?;
        let start = self.allocate_sync(layout)?;
        if size > 0 {
            // Its blocks are checked and annotated each.
            self.inner.core.forget_handed_out(start, layout);
            self.inner.core.annotator.freed(start, layout, None);
            self.inner.core.set_aside(start, bytes);
        }
        let rest = Mutex::new(Rest { start, bytes });
        let pool = PoolMemoryResource { inner: Arc::clone(&self.inner), set: PhantomData };
        Ok(Reservation { inner: Arc::new(Inner { pool, rest }), set: PhantomData })
    }
}

impl PoolCore {
    /// Sets the first `bytes` bytes of a live block aside. What it has beyond is free.
    fn set_aside(&self, start: DevicePtr, bytes: u64) {
        let mut state = self.lock();
        if let Some(node) = state.forget_live(start) {
            if let Some(slack) = state.heap.split_live(node, bytes) {
                // It was never used.
                state.heap.free(slack, ListId::ANY_STREAM, 0);
            }
            state.live.insert(start, node);
        }
        state.set_aside.insert(start.0);
    }

    /// Splits `bytes` off the start of a live block of at least as many, and hands them out as a
    /// block of their own. Returns the block and its bytes.
    ///
    /// # Errors
    /// Not ready if the pool is asleep.
    fn split_reserved(
        &self,
        rest: &mut Rest,
        bytes: u64,
        alignment: usize,
    ) -> Result<Option<(DevicePtr, u64)>, Error> {
        let mut state = self.lock();
        state.phase.check_awake(self.name)?;
        state.set_aside.remove(&rest.start.0);
        let Some(node) = state.forget_live(rest.start) else { return Ok(None) };
        let remaining = rest.bytes - bytes;
        let behind = if remaining > 0 { state.heap.split_live(node, bytes) } else { None };
        let alignment = alignment.max(CUDA_ALLOCATION_ALIGNMENT) as u64;
        let size = state.heap.block(node).size;
        let pointer = state.hand_out(node, alignment);
        if let Some(behind) = behind {
            rest.start = state.hand_out(behind, 1);
            state.set_aside.insert(rest.start.0);
        }
        // `reserve` counted one allocation: only the block that is added is new.
        state.statistics.allocations -= 1;
        rest.bytes = remaining;
        Ok(Some((pointer, size)))
    }

    /// Takes back what is left of a reservation.
    fn return_reserved(&self, start: DevicePtr) {
        if fork::is_child() {
            return;
        }
        let mut state = self.lock();
        state.set_aside.remove(&start.0);
        // No work has used it, so any stream may.
        self.take_back(&mut state, start, ListId::ANY_STREAM, None);
    }
}

impl<S: PropertySet> Reservation<S> {
    /// Bytes that can still be allocated from it.
    pub fn remaining(&self) -> u64 {
        self.rest().bytes
    }

    /// The pool.
    #[doc(alias = "get_upstream_resource")]
    pub fn pool(&self) -> &PoolMemoryResource<S> {
        // SAFETY: the invariant of `inner`.
        unsafe { with_properties::assume(&self.inner.pool) }
    }

    fn rest(&self) -> std::sync::MutexGuard<'_, Rest> {
        fork::lock(&self.inner.rest)
    }

    fn take(&self, stream: Option<StreamRef<'_>>, layout: Layout) -> Result<DevicePtr, Error> {
        fork::check()?;
        let core = &self.inner.pool.inner.core;
        if !core.in_checked_epoch() {
            core.check_memory()?;
        }
        // A stream of another device cannot use the memory.
        if let Some(stream) = core.identified(stream)? {
            core.list_of(&mut core.lock(), stream)?;
        }
        let mut rest = self.rest();
        let size = padded_size(layout).filter(|&size| size <= rest.bytes);
        let taken = match size {
            Some(size) => core.split_reserved(&mut rest, size, layout.align())?,
            None => None,
        };
        let (pointer, size) = taken.ok_or_else(|| refused(&rest, layout, stream))?;
        if core.is_undersized(layout, size) {
            core.caches.note_undersized();
        }
        drop(rest);
        core.note_handed_out(pointer, layout);
        core.annotator.allocated(pointer, layout, stream);
        Ok(pointer)
    }
}

#[cold]
fn refused(rest: &Rest, layout: Layout, stream: Option<StreamRef<'_>>) -> Error {
    let usage = PoolUsage::new(rest.bytes, 0).with_largest_free(rest.bytes);
    let usage = usage.with_limit(rest.bytes).with_reason(OomReason::Exhausted);
    // No block ever comes back here.
    let error = Error::out_of_memory(NAME).with_limit_id(LimitId::UNSHARED);
    let error = error.with_layout(layout).with_usage(usage);
    match stream {
        Some(stream) => error.with_stream(stream.id()),
        None => error,
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let rest = self.rest.get_mut().unwrap_or_else(PoisonError::into_inner);
        if rest.bytes > 0 {
            self.pool.inner.core.return_reserved(rest.start);
        }
    }
}

impl<S: PropertySet> Clone for Reservation<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), set: PhantomData }
    }
}

impl<S: PropertySet> PartialEq for Reservation<S> {
    /// Whether both are handles to one reservation.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl<S: PropertySet> Eq for Reservation<S> {}

impl<S: PropertySet> fmt::Debug for Reservation<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("remaining", &self.remaining())
            .field("pool", &self.inner.pool)
            .finish_non_exhaustive()
    }
}

// SAFETY: a block is split off a block of the pool that no one else knows, so it is one of the
// pool's own, to which it is freed. No work uses it: it was allocated for any stream, and handed
// out once. Its address is rounded up to the alignment inside a block with room for it.
unsafe impl<S: PropertySet> SynchronousResource for Reservation<S> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.take(None, layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract; the block is the pool's.
        unsafe { self.inner.pool.do_deallocate_sync(pointer, layout) };
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::over(&self.inner.pool)
    }

    fn to_any_sync(&self) -> Option<AnySynchronousResource<()>>
    where
        Self: 'static,
    {
        Some(AnySynchronousResource::of(self))
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        let pool = &self.inner.pool;
        provide_views(self, query).properties_from(self.pool());
        query.value(|| pool.context()).value(|| MayBeWaitedFor).describe(|description| {
            description.bytes("remaining", self.remaining());
        });
    }
}

// SAFETY: as for `SynchronousResource`; a block is freed in the order of a stream by the pool.
unsafe impl<S: PropertySet> Resource for Reservation<S> {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.take(Some(stream), layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract; the block is the pool's.
        unsafe { self.inner.pool.do_deallocate(stream, pointer, layout) };
    }

    fn to_any(&self) -> Option<AnyResource<()>>
    where
        Self: 'static,
    {
        Some(AnyResource::of(self))
    }
}

// SAFETY: the invariant of `inner`.
unsafe impl<S: Contains<P>, P: Property> HasProperty<P> for Reservation<S> {}

// SAFETY: the type is transparent over `inner`, whose type does not depend on the set; the marker
// of the set is of size zero. Only the invariant of `inner` depends on the set.
unsafe impl<S: PropertySet> WithProperties for Reservation<S> {
    type With<T: PropertySet> = Reservation<T>;
}
