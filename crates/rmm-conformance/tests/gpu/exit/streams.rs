//! Streams that keep their owner, which is not dropped: the destructor of a foreign stream calls
//! the driver, which may be gone.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rmm_conformance::Failure;
use rmm_containers::DeviceBuffer;
use rmm_core::{CudaStream, Error};
use rmm_resources::CudaAsyncMemoryResource;

use super::program::Held;

/// How many owners were dropped.
static DROPPED: AtomicU32 = AtomicU32::new(0);

/// In place of a stream type of another library. The stream is not destroyed.
struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

fn owned_stream() -> Result<CudaStream, Error> {
    let handle = CudaStream::non_blocking()?.into_raw().expect("it is the only handle");
    let owner: Arc<dyn Any + Send + Sync> = Arc::new(Owner);
    // SAFETY: nothing destroys the stream.
    unsafe { CudaStream::adopt_owned_by(handle, owner) }
}

/// A stream, and a container on another.
pub(super) fn fill() -> Result<Held, Failure> {
    drop(owned_stream()?);
    let resource = CudaAsyncMemoryResource::new()?;
    let buffer = DeviceBuffer::uninit_in(1 << 20, &owned_stream()?, &resource)?;
    let kept = (owned_stream()?, buffer);
    Ok(Held::new(move || {
        drop(kept);
        match DROPPED.load(Ordering::Relaxed) {
            1 => Ok(()),
            dropped => Err(format!("{dropped} owners were dropped, one before the exit")),
        }
    }))
}
