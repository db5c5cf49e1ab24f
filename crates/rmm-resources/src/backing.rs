//! Device memory for pools: virtual memory where the device has it, `cudaMalloc` elsewhere.

mod builder;
mod cuda_of_device;

use std::alloc::Layout;
use std::fmt;

use rmm_core::siblings::MayBeWaitedFor;
use rmm_core::{
    Description, Device, DeviceAccessible, DevicePtr, Error, HasProperty, MemoryKind, Request,
    Resource, StreamRef, SyncResource,
};

pub use builder::BackingMemoryResourceBuilder;
use cuda_of_device::CudaOfDevice;

use crate::kind::known_kind;
use crate::traits::clone_to_any;
use crate::{CudaMemoryResource, VirtualMemoryResource};

/// The resource's name in errors and logs.
const NAME: &str = "backing";

/// Where a [`BackingMemoryResource`] takes its memory from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Backing {
    /// [`VirtualMemoryResource`]: a pool grows and shrinks in place, holds less, and can
    /// sleep. The driver makes no legacy IPC handle (`cudaIpcGetMemHandle`) of it;
    /// `docs/default-pool.md` lists what else differs.
    #[doc(alias = "cuMemCreate")]
    VirtualMemory,
    /// [`CudaMemoryResource`]: memory that every library takes.
    #[doc(alias = "cudaMalloc")]
    CudaMalloc,
}

impl fmt::Display for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::VirtualMemory => "virtual memory",
            Self::CudaMalloc => "cudaMalloc",
        })
    }
}

/// Memory of one device, to put a pool over: virtual memory where the device has it, and
/// `cudaMalloc` elsewhere. One type, so that programs need not know which.
///
/// With virtual memory it behaves as [`VirtualMemoryResource`], which is its upstream then: a pool
/// over it [grows in place](rmm_core::ExtendableResource). With `cudaMalloc` it behaves as
/// [`CudaMemoryResource`], but that all memory belongs to the device that was current when the
/// resource was made: streams of other devices are refused with
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument).
///
/// [`backing`](Self::backing) says which it is, as does a
/// [description](rmm_core::Introspect::describe) of a stack. A program that hands memory to others
/// which need one of the two, [demands it](BackingMemoryResourceBuilder::backing).
///
/// It is a handle: clones share the memory, and are equal. Any thread may use it.
///
/// ```
/// use rmm_core::{ErrorKind, Introspect};
/// use rmm_resources::{Backing, BackingMemoryResource, VirtualMemoryResource};
/// use rmm_sys::CuDeviceAttribute;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let resource = BackingMemoryResource::new()?;
/// assert_eq!(resource.backing(), Backing::VirtualMemory);
/// assert!(resource.find::<VirtualMemoryResource>().is_some());
/// # }
///
/// // An older device:
/// let attribute = CuDeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
/// let machine = rmm_sim::Machine::builder().attribute(attribute, 0).build();
/// # let _entered = machine.enter();
/// assert_eq!(BackingMemoryResource::new()?.backing(), Backing::CudaMalloc);
/// let demanded = BackingMemoryResource::builder().backing(Backing::VirtualMemory).build();
/// assert_eq!(demanded.unwrap_err().kind(), ErrorKind::Unsupported);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct BackingMemoryResource {
    memory: Memory,
}

#[derive(Clone, PartialEq, Eq)]
enum Memory {
    Virtual(VirtualMemoryResource),
    Cuda(CudaOfDevice),
}

impl BackingMemoryResource {
    /// Makes a resource of the current device, over virtual memory if the device has it.
    ///
    /// # Errors
    /// If there is no driver or no device.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Options for a new resource.
    pub fn builder() -> BackingMemoryResourceBuilder {
        BackingMemoryResourceBuilder::default()
    }

    /// Where the memory comes from.
    pub fn backing(&self) -> Backing {
        match self.memory {
            Memory::Virtual(_) => Backing::VirtualMemory,
            Memory::Cuda(_) => Backing::CudaMalloc,
        }
    }

    /// A resource over `cudaMalloc`; `reason` says why it has no virtual memory.
    fn over_cuda(device: Device, reason: &'static str) -> Self {
        Self { memory: Memory::Cuda(CudaOfDevice::new(device, reason)) }
    }

    fn over_virtual(resource: VirtualMemoryResource) -> Self {
        Self { memory: Memory::Virtual(resource) }
    }

    fn memory(&self) -> &dyn Resource {
        match &self.memory {
            Memory::Virtual(resource) => resource,
            Memory::Cuda(resource) => resource,
        }
    }
}

impl fmt::Debug for BackingMemoryResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BackingMemoryResource").field(&self.memory()).finish()
    }
}

// SAFETY: every call goes to one resource, which keeps the contract. Equal handles have equal
// resources.
unsafe impl SyncResource for BackingMemoryResource {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.memory().do_allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.memory().do_deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn provide<'a>(&'a self, request: &mut Request<'a>) {
        request.handle(self).value(|| MayBeWaitedFor);
        request.properties(self).has::<DeviceAccessible>().has_value::<MemoryKind>();
        request.describe(|description: &mut Description| {
            description.text("memory", self.backing().to_string());
            if let Memory::Cuda(cuda) = &self.memory {
                description.text("reason", cuda.reason());
            }
        });
        match &self.memory {
            // Blocks of the one are blocks of the other, so a pool may extend them directly.
            Memory::Virtual(resource) => request.extendable(resource).upstream(resource),
            Memory::Cuda(_) => request.upstream::<CudaMemoryResource>(CudaOfDevice::CUDA),
        };
    }
}

// SAFETY: as above.
unsafe impl Resource for BackingMemoryResource {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.memory().do_allocate(stream, layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.memory().do_deallocate(stream, pointer, layout) }
    }

    clone_to_any!();
}

// SAFETY: both kinds of memory are device memory, to which the device has access.
unsafe impl HasProperty<DeviceAccessible> for BackingMemoryResource {}

known_kind!(BackingMemoryResource, Device);
