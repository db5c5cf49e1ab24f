//! Copies between the host and the device that own their buffers.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytemuck::Pod;
use rmm_containers::{DeviceSlice, DeviceUVector, PinnedVec};
use rmm_core::{Error, StreamRef};

use crate::completion::{completed, refuse_captured};
use crate::keep::Keep;

/// Copies elements to the host in the order of `stream`, by way of pinned memory that the future
/// owns.
///
/// The copy is enqueued by this call. The container may be changed or dropped at once: that is
/// ordered after the copy.
///
/// ```
/// use rmm_async::download;
/// use rmm_containers::DeviceUVector;
/// use rmm_core::CudaStream;
///
/// # let _machine = rmm_sim::enter();
/// let (own, other) = (CudaStream::new()?, CudaStream::new()?);
/// let mut vector = DeviceUVector::from_slice(&[1, 2, 3], &own)?;
/// let copy = download(vector.as_slice(), &other)?; // `other` waits for `own`
/// vector.fill(0)?; // `own` waits for the copy
/// assert_eq!(smol::block_on(copy)?, [1, 2, 3]);
/// # Ok::<(), rmm_core::Error>(())
/// ```
///
/// # Errors
/// The errors of [`completed`]; the driver's error if it has no pinned memory. The future returns
/// the error of work that failed.
#[doc(alias = "cudaMemcpyAsync")]
pub fn download<'s, T: Pod + Send + Sync>(
    elements: DeviceSlice<'_, T>,
    stream: impl Into<StreamRef<'s>>,
) -> Result<Download<T>, Error> {
    let stream = stream.into();
    refuse_captured(stream)?;
    let mut staging = PinnedVec::zeroed(elements.len())?;
    staging.copy_from_device(elements, stream)?;
    let completion = completed(stream)?;
    Ok(Download(completion.keep(staging)))
}

/// The future of [`download`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Download<T: Pod + Send + Sync>(Keep<PinnedVec<T>>);

impl<T: Pod + Send + Sync> Future for Download<T> {
    type Output = Result<Vec<T>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let staging = std::task::ready!(Pin::new(&mut self.0).poll(context))?;
        Poll::Ready(staging.as_slice().map(<[T]>::to_vec))
    }
}

/// Copies elements of pinned memory to a new vector in the order of `stream`. The future yields the
/// vector, and the pinned memory for the next copy.
///
/// The copy is enqueued by this call.
///
/// ```
/// use rmm_async::upload;
/// use rmm_containers::PinnedVec;
/// use rmm_core::CudaStream;
///
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::new()?;
/// let staging = PinnedVec::from_slice(&[1, 2, 3])?;
/// let (vector, mut staging) = smol::block_on(upload(staging, &stream)?)?;
/// staging.as_mut_slice()?.fill(0); // does not wait
/// assert_eq!(vector.to_vec()?, [1, 2, 3]);
/// # Ok::<(), rmm_core::Error>(())
/// ```
///
/// # Errors
/// The errors of [`completed`]; the error of the current resource, if it cannot allocate the
/// vector. The future returns the error of work that failed.
pub fn upload<'s, T: Pod + Send + Sync>(
    source: PinnedVec<T>,
    stream: impl Into<StreamRef<'s>>,
) -> Result<Upload<T>, Error> {
    let stream = stream.into();
    refuse_captured(stream)?;
    let vector = source.device_slice().to_device(stream)?;
    let completion = completed(stream)?;
    Ok(completion.keep((vector, source)))
}

/// The future of [`upload`].
pub type Upload<T> = Keep<(DeviceUVector<T>, PinnedVec<T>)>;
