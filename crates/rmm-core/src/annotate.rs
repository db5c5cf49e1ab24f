//! Annotations: allocators report their suballocations to a checker, and streams and containers
//! their names.

use std::alloc::Layout;

use rmm_sys::{AllocationEvent, Annotations, CuStream, Driver};

use crate::{DevicePtr, StreamRef};

/// The functions of the checker, if the process's driver is one.
fn checker() -> Option<&'static Annotations> {
    Driver::get().ok().and_then(|driver| driver.annotations)
}

/// Reports the name of a stream, which exists.
pub(crate) fn name_stream(stream: CuStream, name: &str) {
    if let Some(checker) = checker() {
        checker.stream_named(stream, name);
    }
}

/// Reports an allocator's suballocations to a checker, which then checks each like an allocation:
/// whether its new owner is ordered after the previous one, and whether every use is within its
/// bounds and before it is freed. Compare the client requests of Valgrind and `AddressSanitizer`.
///
/// The software device is such a checker; with a real driver each call costs one test of a field.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{Annotator, CudaStream, DevicePtr};
/// # use rmm_core::Resource;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let machine = rmm_sim::enter();
/// let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
/// # let cuda = rmm_resources::CudaMemoryResource::new();
/// # let whole = Layout::from_size_align(1 << 20, 256)?;
/// # let chunk = cuda.allocate(&stream, whole)?;
///
/// // An allocator that gives `chunk` to one stream and then to another, although work on the first
/// // may still use it:
/// let annotator = Annotator::new("careless");
/// let layout = Layout::from_size_align(4096, 256)?;
/// annotator.allocated(chunk, layout, Some(stream.as_stream_ref()));
/// // SAFETY: within the memory allocated above.
/// unsafe { rmm_core::copy::fill(chunk, 1, 4096, &stream)? };
/// annotator.freed(chunk, layout, Some(stream.as_stream_ref()));
/// annotator.allocated(chunk, layout, Some(other.as_stream_ref()));
///
/// assert_eq!(machine.violations()[0].kind, rmm_sim::ViolationKind::AllocatedInUse);
/// # annotator.freed(chunk, layout, Some(other.as_stream_ref()));
/// # // SAFETY: allocated above; freeing it waits for the device.
/// # unsafe { cuda.deallocate(&stream, chunk, whole) };
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Annotator {
    owner: u64,
    name: &'static str,
    /// Whom allocations and frees are reported to.
    listener: Option<&'static Annotations>,
    /// Whom suspensions are reported to.
    of_suspensions: Option<&'static Annotations>,
}

impl Annotator {
    /// The annotator of an allocator with this name. An allocator with several independent sets of
    /// ranges makes one for each.
    pub fn new(name: &'static str) -> Self {
        let listener = checker();
        let owner = listener.map_or(0, Annotations::new_owner);
        Self { owner, name, listener, of_suspensions: listener }
    }

    /// The annotator of an allocator whose ranges are used after their frees, as graphs do at each
    /// launch: it reports neither allocations nor frees. A checker still sees races, and uses
    /// outside of the memory from upstream.
    pub fn silent(name: &'static str) -> Self {
        Self { listener: None, ..Self::new(name) }
    }

    /// Reports the name that the program gave to memory, for authors of containers: a checker's
    /// reports then show it. `None` if a container with a name has freed the memory. Memory that an
    /// annotated allocator or the driver allocates again has no name.
    ///
    /// ```
    /// use rmm_core::{Annotator, CudaStream, copy};
    /// # use rmm_core::Resource;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let machine = rmm_sim::enter();
    /// let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
    /// # let cuda = rmm_resources::CudaMemoryResource::new();
    /// # let layout = std::alloc::Layout::from_size_align(4096, 256)?;
    /// # let memory = cuda.allocate(&stream, layout)?;
    /// Annotator::name_memory(memory, 4096, Some("weights"));
    /// for stream in [&stream, &other] {
    ///     // SAFETY: within the memory allocated above. Nothing orders the second fill: a race.
    ///     unsafe { copy::fill(memory, 1, 4096, stream)? };
    /// }
    /// assert!(machine.violations()[0].to_string().contains("4096 bytes at d0+0x0 in \"weights\""));
    /// # // SAFETY: allocated above; freeing it waits for the device.
    /// # unsafe { cuda.deallocate(&stream, memory, layout) };
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "nvtxMemRegionsNameA")]
    pub fn name_memory(pointer: DevicePtr, bytes: usize, name: Option<&str>) {
        if let Some(checker) = checker() {
            checker.memory_named(pointer, bytes, name);
        }
    }

    /// Reports that the program knows, by other means than a call of the driver, that all work
    /// which is enqueued on a stream so far is complete: by a flag that a host function has set, or
    /// by a byte that a copy has written to pinned memory. To a checker, the host has then
    /// synchronized with the stream. It does not wait, and has no effect on what a resource reuses.
    ///
    /// ```
    /// use rmm_core::{Annotator, CudaStream, copy};
    /// # use rmm_core::Resource;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let machine = rmm_sim::enter();
    /// let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
    /// # let cuda = rmm_resources::CudaMemoryResource::new();
    /// # let layout = std::alloc::Layout::from_size_align(4096, 256)?;
    /// # let memory = cuda.allocate(&stream, layout)?;
    /// // SAFETY: within the memory allocated above.
    /// unsafe { copy::fill(memory, 1, 4096, &stream)? };
    /// // The program waits for a flag that a host function on `stream` sets.
    /// machine.run_all();
    /// Annotator::stream_completed(&stream);
    /// // SAFETY: as above.
    /// unsafe { copy::fill(memory, 2, 4096, &other)? };
    /// machine.assert_no_violations();
    /// # // SAFETY: allocated above; freeing it waits for the device.
    /// # unsafe { cuda.deallocate(&stream, memory, layout) };
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream_completed<'s>(stream: impl Into<StreamRef<'s>>) {
        if let Some(checker) = checker() {
            checker.stream_completed(stream.into().as_raw());
        }
    }

    /// Reports that a range is about to be allocated: in the order of a stream, or, without one,
    /// for use by all streams.
    ///
    /// Call it after the stream was made to wait for the range's former users, and without holding
    /// the allocator's lock.
    #[inline]
    pub fn allocated(&self, pointer: DevicePtr, layout: Layout, stream: Option<StreamRef<'_>>) {
        if let Some(listener) = self.listener {
            listener.allocated(self.event(pointer, layout, stream));
        }
    }

    /// Reports that a range was freed: in the order of a stream, or, without one, with all use of
    /// it completed.
    ///
    /// Call it before the range can be allocated again, and without holding the allocator's lock.
    #[inline]
    pub fn freed(&self, pointer: DevicePtr, layout: Layout, stream: Option<StreamRef<'_>>) {
        if let Some(listener) = self.listener {
            listener.freed(self.event(pointer, layout, stream));
        }
    }

    /// Reports that the allocator is about to copy, unmap and map a range of its memory (`true`),
    /// or that it is done (`false`): until then accesses to the range are the allocator's own,
    /// which respect no bounds, and the blocks in it stay allocated although it is unmapped. No
    /// other work uses the range meanwhile.
    pub fn suspended(&self, pointer: DevicePtr, bytes: usize, is_suspended: bool) {
        if let Some(listener) = self.of_suspensions {
            listener.suspended(pointer, bytes, is_suspended);
        }
    }

    #[cold]
    fn event(
        &self,
        pointer: DevicePtr,
        layout: Layout,
        stream: Option<StreamRef<'_>>,
    ) -> AllocationEvent {
        AllocationEvent {
            owner: self.owner,
            name: self.name,
            pointer,
            bytes: layout.size(),
            stream: stream.map(StreamRef::as_raw),
        }
    }
}
