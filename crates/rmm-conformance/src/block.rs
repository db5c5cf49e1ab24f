//! A block from the resource under test, which frees itself.

use std::alloc::Layout;

use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, CudaEvent, CudaStream, DevicePtr, Error, Resource, copy,
};

use crate::{CheckResult, DeviceCounter, Failure, Kernels};

/// A block of words from a resource, in the order of a stream, on which it is freed when this is
/// dropped.
///
/// Every use goes through the block's own stream, and [`move_to`](Self::move_to) orders one after
/// the other, so a block keeps its side of the contract by itself. On the per-thread default stream
/// it is to be used on one thread, until another one [takes it in](Self::arrive).
#[derive(Debug)]
pub struct CheckedBlock<'a, R: Resource> {
    resource: &'a R,
    kernels: &'a Kernels,
    stream: CudaStream,
    /// # Invariant
    /// `layout.size()` bytes from `resource`, which are `words` words, in the order of `stream`.
    pointer: DevicePtr,
    layout: Layout,
    words: u32,
}

impl<'a, R: Resource> CheckedBlock<'a, R> {
    /// Allocates `words` words.
    ///
    /// # Errors
    /// The resource's error.
    pub fn allocate(
        resource: &'a R,
        kernels: &'a Kernels,
        stream: &CudaStream,
        words: u32,
    ) -> Result<Self, Error> {
        let too_large = |_| Error::invalid_argument("CheckedBlock", "too many words");
        let bytes = usize::try_from(words).unwrap_or(usize::MAX).saturating_mul(4);
        let layout =
            Layout::from_size_align(bytes, CUDA_ALLOCATION_ALIGNMENT).map_err(too_large)?;
        let pointer = resource.allocate(stream, layout)?;
        Ok(Self { resource, kernels, stream: stream.clone(), pointer, layout, words })
    }

    /// Where it is.
    pub fn pointer(&self) -> DevicePtr {
        self.pointer
    }

    /// The stream whose order it is in.
    pub fn stream(&self) -> &CudaStream {
        &self.stream
    }

    /// Whether the two share an address.
    pub fn overlaps(&self, other: &Self) -> bool {
        let end = |block: &Self| block.pointer.0 + block.layout.size() as u64;
        self.pointer.0 < end(other) && other.pointer.0 < end(self)
    }

    /// Enqueues a kernel that fills it after spinning, see [`Kernels::fill`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn fill(&self, first_value: u32, spin_cycles: u64) -> CheckResult {
        // SAFETY: the block's own words, on the stream whose order they are in.
        unsafe {
            self.kernels.fill(
                self.stream.as_stream_ref(),
                self.pointer,
                self.words,
                first_value,
                spin_cycles,
            )
        }
    }

    /// Enqueues a kernel that counts the words which are not as filled, see [`Kernels::check`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn check(&self, first_value: u32, errors: &DeviceCounter) -> CheckResult {
        // SAFETY: the block's own words, on the stream whose order they are in; the counter is one
        // word.
        unsafe {
            self.kernels.check(
                self.stream.as_stream_ref(),
                self.pointer,
                self.words,
                first_value,
                errors.pointer(),
            )
        }
    }

    /// Copies `words` into its start. Waits for the copy.
    ///
    /// # Errors
    /// If there are more than it holds, or the driver refuses.
    pub fn copy_from(&mut self, words: &[u32]) -> CheckResult {
        self.check_length(words.len())?;
        let (source, bytes) = (words.as_ptr().cast(), size_of_val(words));
        // SAFETY: the block is at least as long, and `words` is borrowed until the synchronization
        // below.
        unsafe { copy::host_to_device(self.pointer, source, bytes, &self.stream) }?;
        Ok(self.stream.synchronize()?)
    }

    /// Copies its first words out. Waits for the copy.
    ///
    /// # Errors
    /// If it holds fewer, or the driver refuses.
    pub fn copy_to(&self, words: &mut [u32]) -> CheckResult {
        self.check_length(words.len())?;
        let (target, bytes) = (words.as_mut_ptr().cast(), size_of_val(words));
        // SAFETY: the block is at least as long, and `words` is borrowed until the synchronization
        // below.
        unsafe { copy::device_to_host(target, self.pointer, bytes, &self.stream) }?;
        Ok(self.stream.synchronize()?)
    }

    /// Enqueues a copy of all of `other`, which is as long and on the same stream.
    ///
    /// # Errors
    /// If it is not, or the driver refuses.
    pub fn copy_from_block(&mut self, other: &Self) -> CheckResult {
        if self.stream != other.stream || self.layout != other.layout {
            return Err(Failure::new("the blocks differ in stream or size"));
        }
        let (source, bytes) = (other.pointer, self.layout.size());
        // SAFETY: both are `bytes` long and in this stream's order; live blocks of a resource do
        // not overlap.
        let copied = unsafe { copy::device_to_device(self.pointer, source, bytes, &self.stream) };
        Ok(copied?)
    }

    fn check_length(&self, words: usize) -> CheckResult {
        crate::failure::ensure(u32::try_from(words).is_ok_and(|words| words <= self.words), || {
            format!("{words} words, in a block of {}", self.words)
        })
    }

    /// A mark behind all its uses so far, for another thread to [take it in](Self::arrive).
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn depart(&self) -> Result<CudaEvent, Error> {
        let event = CudaEvent::new()?;
        event.record(&self.stream)?;
        Ok(event)
    }

    /// Puts it in the order of `stream`, behind the mark.
    ///
    /// # Errors
    /// If the driver refuses; then it stays where it was.
    pub fn arrive(&mut self, stream: &CudaStream, departed: &CudaEvent) -> Result<(), Error> {
        stream.wait(departed)?;
        self.stream = stream.clone();
        Ok(())
    }

    /// Moves it to the order of `stream`.
    ///
    /// # Errors
    /// If the driver refuses; then it stays where it was.
    pub fn move_to(&mut self, stream: &CudaStream) -> Result<(), Error> {
        let departed = self.depart()?;
        self.arrive(stream, &departed)
    }
}

impl<R: Resource> Drop for CheckedBlock<'_, R> {
    fn drop(&mut self) {
        // SAFETY: allocated from this resource with this layout, and all uses are on this stream or
        // ordered before it.
        unsafe { self.resource.deallocate(&self.stream, self.pointer, self.layout) };
    }
}
