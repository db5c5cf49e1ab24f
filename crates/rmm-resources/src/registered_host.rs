//! `cuMemHostRegister`: pages of the program, touched in parallel and pinned.

mod pages;

use std::alloc::Layout;
use std::num::NonZero;

use rmm_core::{
    Device, DeviceAccessible, DevicePtr, Error, HasProperty, HostAccessible, MemoryKind, Resource,
    StreamRef, SynchronousResource, check,
};
use rmm_sys::{CuDeviceAttribute, MEMHOSTREGISTER_DEVICEMAP, MEMHOSTREGISTER_PORTABLE};

use crate::budget::Budget;
use crate::capability::{calls_for, calls_for_freeing, check_alignment};
use crate::kind::known_kind;
use crate::pinned_host::common_address;
use crate::traits::{free_when_done, name_and_properties};
use pages::Pages;

/// Threads that touch pages, unless the program says otherwise: the memory of a socket serves no
/// more at once.
const MOST_THREADS: usize = 16;

/// Bytes from which on it is looked up how much the host has left: that reads some files.
const LARGE: usize = 64 << 20;

/// Pinned host memory that comes up fast: pages of the program's global allocator, which threads
/// touch in parallel on the NUMA node of the GPU, and which are then registered with the driver.
///
/// It is meant as the upstream of a large pool, or for its initial size. `cudaHostAlloc`, on which
/// [`PinnedHostMemoryResource`](crate::PinnedHostMemoryResource) is built, clears and pins one page
/// after the other: 422 ms for each GiB on the host of an H200. Here the pages are huge ones where
/// the system has them, and are in place before the driver pins them. Blocks are rounded up to 64
/// KiB, and from 2 MiB on to 2 MiB; small ones are slower than from `cudaHostAlloc`. One that is
/// larger than what the host has [left](Budget::host_fraction) is refused, and not touched.
///
/// The memory is pinned for the contexts of all devices, and mapped into their address spaces: host
/// and devices access it by the same address. Where they cannot, allocating fails with
/// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported). Alignments above 256 are refused
/// with [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument). All values are equal:
/// each frees the memory of any other. Any thread may use it.
///
/// Allocating does not wait for the stream, and no call invalidates a capture. Freeing in stream
/// order synchronizes with the stream first; if that fails, because the stream is being captured or
/// its work has failed, the memory stays allocated.
///
/// ```
/// use rmm_core::{AnySynchronousResource, HostAccessible};
/// use rmm_resources::{Budget, RegisteredHostMemoryResource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let pinned = RegisteredHostMemoryResource::new().with_threads(8.try_into()?);
/// assert_eq!(pinned.threads().get(), 8);
/// let layout = std::alloc::Layout::from_size_align(64 << 20, 256)?;
/// let block = rmm_core::SynchronousResource::allocate_sync(&pinned, layout)?;
/// # // SAFETY: allocated above with this layout, and not used.
/// # unsafe { rmm_core::SynchronousResource::deallocate_sync(&pinned, block, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuMemHostRegister")]
#[doc(alias = "cudaHostRegister")]
#[derive(Clone, Copy, Debug)]
pub struct RegisteredHostMemoryResource {
    threads: NonZero<usize>,
    node: Node,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    /// That of the current device.
    OfDevice,
    Of(Option<u32>),
}

impl RegisteredHostMemoryResource {
    const NAME: &str = "registered";

    /// Makes the resource without a driver call. Up to 16 threads touch the pages of a block, on
    /// the NUMA node of the device that is current then.
    pub fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = NonZero::new(processors.min(MOST_THREADS)).unwrap_or(NonZero::<usize>::MIN);
        Self { threads, node: Node::OfDevice }
    }

    /// Sets how many threads touch the pages of a large block.
    #[must_use]
    pub const fn with_threads(mut self, threads: NonZero<usize>) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the NUMA node of the pages; `None` leaves it to the system.
    #[must_use]
    #[doc(alias = "numa_alloc_onnode")]
    pub const fn on_node(mut self, node: Option<u32>) -> Self {
        self.node = Node::Of(node);
        self
    }

    /// How many threads touch the pages of a large block.
    pub fn threads(&self) -> NonZero<usize> {
        self.threads
    }

    /// The node for the pages, if there is a preference.
    fn node(&self) -> Result<Option<u32>, Error> {
        match self.node {
            Node::Of(node) => Ok(node),
            // A driver that does not know the attribute has no answer.
            Node::OfDevice => {
                let answer = Device::current()?.attribute(CuDeviceAttribute::HOST_NUMA_ID);
                Ok(answer.ok().and_then(|node| u32::try_from(node).ok()))
            }
        }
    }

    /// Allocates in the context of the stream's device, or the current one.
    fn allocate_in(
        self,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        check_alignment(Self::NAME, layout)?;
        let driver = calls_for(stream)?;
        let node = self.node()?;
        // The system would hand out addresses, and end the process while it touches them.
        if layout.size() >= LARGE
            && let Ok(available) = Budget::host_fraction(1.0).resolve()
            && layout.size() as u64 > available
        {
            let message = format!("the host has {available} bytes left");
            return Err(Error::out_of_memory(Self::NAME).with_layout(layout).with_message(message));
        }
        let pages = Pages::allocate(layout, self.threads, node)
            .ok_or_else(|| Error::out_of_memory(Self::NAME).with_layout(layout))?;
        let flags = MEMHOSTREGISTER_PORTABLE | MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: the pages exist until they are unregistered: by `deallocate_sync`, or below.
        let code = unsafe { driver.cuMemHostRegister_v2(pages.start(), pages.bytes(), flags) };
        check("cuMemHostRegister_v2", code).map_err(|error| error.with_layout(layout))?;
        match common_address(&driver, pages.start(), layout) {
            Ok(pointer) => {
                pages.keep();
                Ok(pointer)
            }
            Err(error) => {
                // SAFETY: registered just now, and not used.
                let code = unsafe { driver.cuMemHostUnregister(pages.start()) };
                if !code.is_success() {
                    // A device may access them.
                    pages.keep();
                }
                Err(error.with_layout(layout))
            }
        }
    }
}

impl Default for RegisteredHostMemoryResource {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for RegisteredHostMemoryResource {
    /// Always equal: every value frees memory in the same way.
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for RegisteredHostMemoryResource {}

// SAFETY: the global allocator's blocks are disjoint until they are freed; that devices access the
// block by this address is checked, and it is aligned to a page.
unsafe impl SynchronousResource for RegisteredHostMemoryResource {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_in(None, layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // An address of this process fits.
        let Ok(address) = usize::try_from(pointer.0) else { return };
        if let Some(driver) = calls_for_freeing() {
            let start: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: by the caller's contract the memory was registered by `allocate_in`, and all
            // uses have completed.
            let code = unsafe { driver.cuMemHostUnregister(start.cast()) };
            if code.is_success() {
                // SAFETY: by the caller's contract `Pages::allocate` made it for this layout, it
                // was kept, and no device accesses it any more.
                drop(unsafe { Pages::kept(start, layout) });
            }
        }
    }

    name_and_properties!(Self::NAME; DeviceAccessible, HostAccessible; MemoryKind);
}

// SAFETY: memory that every stream may use at once is usable by later work, and memory is freed
// after the work that used it has completed.
unsafe impl Resource for RegisteredHostMemoryResource {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_in(Some(stream), layout)
    }

    free_when_done!();
    rmm_core::__by_clone!(to_any);
}

// SAFETY: the driver returned the device's address of each block.
unsafe impl HasProperty<DeviceAccessible> for RegisteredHostMemoryResource {}
// SAFETY: it is host memory, by its host address.
unsafe impl HasProperty<HostAccessible> for RegisteredHostMemoryResource {}

known_kind!(RegisteredHostMemoryResource, Pinned);
