//! A device counter in which kernels count mismatches.

use std::alloc::Layout;

use rmm_core::{CudaStream, Device, DevicePtr, SynchronousResource, copy};
use rmm_resources::CudaMemoryResource;

use crate::failure::ensure;
use crate::{CheckResult, Failure};

/// Counts the words that [`CheckedBlock::check`](crate::CheckedBlock::check) finds wrong. Its
/// memory comes from the driver itself, not from the resource that is checked.
///
/// Make it before slow kernels are launched, and drop it after: getting its memory may wait for the
/// device, giving it back does.
#[derive(Debug)]
pub struct DeviceCounter {
    /// # Invariant
    /// One word from `CudaMemoryResource`.
    pointer: DevicePtr,
}

const WORD: Layout = Layout::new::<u32>();

impl DeviceCounter {
    /// A counter at zero, which every stream may use. Waits for the stream.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new(stream: &CudaStream) -> Result<Self, Failure> {
        let counter = Self { pointer: CudaMemoryResource::new().allocate_sync(WORD)? };
        // SAFETY: the word was allocated just now, and nothing else uses it yet.
        unsafe { copy::fill(counter.pointer, 0, WORD.size(), stream) }?;
        stream.synchronize()?;
        Ok(counter)
    }

    /// Where the word is.
    pub fn pointer(&self) -> DevicePtr {
        self.pointer
    }

    /// Waits for the device, since checks on any stream count here, and fails if anything wrong was
    /// counted so far; `what` says what it means.
    ///
    /// # Errors
    /// If there is, or work on the device has failed.
    #[track_caller]
    pub fn expect_none(&self, stream: &CudaStream, what: &str) -> CheckResult {
        // First what the caller asks about, with other streams as late as they like.
        stream.synchronize()?;
        Device::synchronize_current()?;
        let mut word = [0u8; 4];
        let (target, source) = (word.as_mut_ptr().cast(), self.pointer);
        // SAFETY: `word` stays until the synchronization below; the word on the device is this
        // counter's.
        unsafe { copy::device_to_host(target, source, WORD.size(), stream) }?;
        stream.synchronize()?;
        let errors = u32::from_ne_bytes(word);
        ensure(errors == 0, || format!("{what}: {errors} words are wrong"))
    }
}

impl Drop for DeviceCounter {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` from an equal resource with this layout; giving it back waits
        // for all kernels that count.
        unsafe { CudaMemoryResource::new().deallocate_sync(self.pointer, WORD) };
    }
}
