//! Resources that hold free memory and can return it.

use std::fmt::Debug;

use crate::PoolUsage;

/// A suballocator that holds freed memory, and can return it to its upstream or to the driver.
///
/// [`Introspect::as_trimmable`](crate::Introspect::as_trimmable) returns this interface of one
/// resource; [`Introspect::trim_stack`](crate::Introspect::trim_stack), and `trim` of the
/// type-erased resources, trim every suballocator of a stack. A resource of your own takes part if
/// its [structure](crate::Structure::with_trimmable) has the interface:
///
/// ```
/// use std::alloc::Layout;
/// use std::sync::Mutex;
///
/// use rmm_core::{
///     AnyResource, DevicePtr, Error, Introspect, PoolUsage, SynchronousResource,
///     TrimmableResource,
/// };
/// use rmm_resources::CudaMemoryResource;
///
/// /// Keeps freed blocks of one layout.
/// #[derive(Debug)]
/// struct Spare {
///     layout: Layout,
///     free: Mutex<Vec<DevicePtr>>,
/// }
///
/// impl TrimmableResource for Spare {
///     fn trim_name(&self) -> &'static str {
///         "spare"
///     }
///
///     fn usage(&self) -> PoolUsage {
///         PoolUsage::new((self.free.lock().unwrap().len() * self.layout.size()) as u64, 0)
///     }
///
///     fn trim_to(&self, keep: u64) -> u64 {
///         let mut free = self.free.lock().unwrap();
///         let kept = keep as usize / self.layout.size();
///         let beyond = free.len() - free.len().min(kept);
///         for block in free.drain(..beyond) {
///             // SAFETY: `cuda` below allocated it with this layout, and nothing uses it.
///             unsafe { CudaMemoryResource::new().deallocate_sync(block, self.layout) };
///         }
///         (beyond * self.layout.size()) as u64
///     }
/// }
///
/// # let machine = rmm_sim::enter();
/// let (cuda, layout) = (CudaMemoryResource::new(), Layout::new::<[u8; 4096]>());
/// let block = cuda.allocate_sync(layout)?;
/// let spare = Spare { layout, free: Mutex::new(vec![block]) };
/// assert_eq!(spare.usage().free_bytes(), 4096);
/// assert_eq!((spare.trim_to(4096), spare.trim_to_blocking(0)), (0, 4096));
/// assert_eq!(machine.leaks(), []);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "cudaMemPoolTrimTo")]
pub trait TrimmableResource: Debug + Send + Sync {
    /// The resource's name, as [`SynchronousResource::name`](crate::SynchronousResource::name) has
    /// it.
    fn trim_name(&self) -> &'static str;

    /// The bytes that are reserved and live now. The difference is the most that a trim could
    /// return. Makes no call that waits.
    fn usage(&self) -> PoolUsage;

    /// Returns free memory whose last use is known to be complete, until no more than `keep` bytes
    /// are reserved or no more can be returned. Returns the bytes. Does not wait for work of the
    /// device, except as the upstream does.
    fn trim_to(&self, keep: u64) -> u64;

    /// Returns free memory, as [`trim_to`](Self::trim_to) does, after a wait on this thread for the
    /// work that comes before frees, if some of it is pending. It does not wait if that would
    /// invalidate a capture.
    fn trim_to_blocking(&self, keep: u64) -> u64 {
        self.trim_to(keep)
    }
}
