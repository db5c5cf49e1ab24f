//! Import: tensors become containers.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::slice;

use rmm_containers::{DeviceSlice, DeviceUVector};
use rmm_core::{DevicePtr, Error, RelaxedCapture, StreamRef};

use crate::abi::{DLDevice, DLManagedTensorVersioned, DLTensor, FLAG_READ_ONLY};
use crate::element::Element;
use crate::shape::{count, is_row_major};

const ORIGIN: &str = "from_dlpack";

/// An imported tensor: a vector over the memory of the producer, and a shape.
///
/// It is compact and row-major. [`from_dlpack`] has an example.
#[derive(Debug)]
pub struct DlpackTensor<T> {
    vector: DeviceUVector<T>,
    shape: Box<[i64]>,
    is_read_only: bool,
}

impl<T: Element> DlpackTensor<T> {
    /// The number of elements in each dimension.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Whether the producer forbids writes.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Borrows the elements for reading, in row-major order.
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        self.vector.as_slice()
    }

    /// The elements as a vector.
    ///
    /// # Errors
    /// The tensor, if it is read-only: copy it with
    /// [`to_device`](DeviceSlice::to_device).
    #[expect(clippy::result_large_err, reason = "the error is the tensor, unchanged")]
    pub fn into_vector(self) -> Result<DeviceUVector<T>, Self> {
        if self.is_read_only { Err(self) } else { Ok(self.vector) }
    }
}

/// A tensor that is owned here. Dropping it calls its deleter.
struct Owned(NonNull<DLManagedTensorVersioned>);

// SAFETY: the deleter may be called on any thread, by the contract of `from_dlpack`.
unsafe impl Send for Owned {}

impl Owned {
    /// Calls the deleter once the work on `last` is complete: it is ordered on no stream. If that
    /// cannot be known, the tensor is leaked.
    fn release_after(self, last: StreamRef<'_>) {
        let this = ManuallyDrop::new(self);
        // While another thread captures a stream in global mode, this thread may wait only in
        // relaxed mode. A wait for a stream that is captured itself would invalidate the capture.
        let _relaxed = RelaxedCapture::enter();
        if matches!(last.is_capturing(), Ok(false)) && last.synchronize().is_ok() {
            drop(ManuallyDrop::into_inner(this));
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let tensor = self.0.as_ptr();
        // SAFETY: the tensor exists until its deleter is called. The fields up to the deleter are
        // the same in every version.
        if let Some(deleter) = unsafe { (*tensor).deleter } {
            // SAFETY: it is called once, with its own tensor, which nothing uses any more.
            unsafe { deleter(tensor) };
        }
    }
}

/// Makes a vector of a tensor of another library, without a copy. The memory is ready in the order
/// of `stream`, which the vector belongs to.
///
/// This takes the tensor over, also if it fails. The deleter is called after the last use of the
/// vector: `Drop` waits on the host for the vector's stream first, since a deleter names no stream.
/// It is not called where [a container leaks its memory](DeviceUVector::from_foreign): at process
/// exit, if the driver is gone, or on a stream that is being captured. New memory, for a vector
/// that grows, comes from the current resource.
///
/// ```
/// use rmm_containers::DeviceUVector;
/// use rmm_core::CudaStream;
/// use rmm_interop_dlpack::{Ready, ToDlpack, from_dlpack};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// # let theirs = CudaStream::new()?;
/// # let producer = DeviceUVector::from_slice(&[1u16, 2, 3, 4], &theirs)?;
/// let stream = CudaStream::new()?;
/// // In its place: what `__dlpack__(stream=..)` of a Python object returned.
/// let tensor = producer.into_dlpack(&[2, 2], Ready::On((&stream).into()))?;
///
/// // SAFETY: the capsule is marked as used, and the producer made the stream wait.
/// let tensor = unsafe { from_dlpack::<u16>(tensor, &stream) }?;
/// assert_eq!((tensor.shape(), tensor.is_read_only()), (&[2, 2][..], false));
/// assert_eq!(tensor.as_slice().to_vec_on(&stream)?, [1, 2, 3, 4]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) for another major version, memory
/// of another kind, or a tensor that is not compact and row-major;
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for elements of another
/// type, memory of another device than the stream's, a negative extent, or an address that is null
/// or not aligned; if there is no driver. The deleter was called then.
///
/// # Safety
/// 1. The tensor is valid, as `dlpack.h` says, and is owned by the caller, who does not use it any
///    more. Its deleter may be called on any thread, and does not unwind.
/// 2. Work on `stream` may read its memory, and write it unless it is read-only, from the work that
///    is enqueued there next until the deleter is called; all earlier work that writes it is
///    ordered before that, or is complete. Meanwhile nothing else writes it, nor reads it while the
///    vector is written.
#[doc(alias = "fromDlpack")]
pub unsafe fn from_dlpack<'s, T: Element>(
    tensor: NonNull<DLManagedTensorVersioned>,
    stream: impl Into<StreamRef<'s>>,
) -> Result<DlpackTensor<T>, Error> {
    let (stream, owned) = (stream.into(), Owned(tensor));
    // SAFETY: the version is at the beginning of every versioned tensor.
    let version = unsafe { (*tensor.as_ptr()).version };
    if version.major != 1 {
        let message = format!("a tensor of DLPack {}.{}", version.major, version.minor);
        return Err(Error::unsupported(ORIGIN, message));
    }
    // SAFETY: a tensor of this version is valid until its deleter is called.
    let DLManagedTensorVersioned { flags, dl_tensor, .. } = unsafe { *tensor.as_ptr() };
    // SAFETY: the tensor is valid, by the caller's contract.
    let (shape, len) = unsafe { shape_of(&dl_tensor) }?;
    check_elements::<T>(&dl_tensor)?;
    check_device(dl_tensor.device, stream)?;
    let address = (dl_tensor.data.expose_provenance() as u64).checked_add(dl_tensor.byte_offset);
    let address = address.ok_or_else(|| Error::invalid_argument(ORIGIN, "a byte offset"))?;
    let pointer = if len == 0 { DevicePtr::NULL } else { DevicePtr(address) };
    let release = move |last: StreamRef<'_>| owned.release_after(last);
    // SAFETY: 1. and 2. are the caller's contract. 3. The function waits for the stream.
    let vector = unsafe { DeviceUVector::from_foreign(pointer, len, stream, release) }?;
    Ok(DlpackTensor { vector, shape, is_read_only: flags & FLAG_READ_ONLY != 0 })
}

/// The shape of a compact row-major tensor, and the number of its elements.
///
/// # Safety
/// Shape and strides have as many elements as the tensor has dimensions; strides may be null.
unsafe fn shape_of(tensor: &DLTensor) -> Result<(Box<[i64]>, usize), Error> {
    let ndim = usize::try_from(tensor.ndim);
    let ndim =
        ndim.map_err(|_| Error::invalid_argument(ORIGIN, "a negative number of dimensions"))?;
    if ndim == 0 {
        return Ok((Box::default(), 1));
    }
    // SAFETY: the caller's contract.
    let shape = unsafe { slice::from_raw_parts(tensor.shape, ndim) };
    let len = count(ORIGIN, shape)?;
    if !tensor.strides.is_null() {
        // SAFETY: the caller's contract.
        let strides = unsafe { slice::from_raw_parts(tensor.strides, ndim) };
        if !is_row_major(shape, strides) {
            let message = format!(
                "the strides {strides:?} of the shape {shape:?} are not compact and row-major: \
                 export a contiguous copy"
            );
            return Err(Error::unsupported(ORIGIN, message));
        }
    }
    Ok((shape.into(), len))
}

fn check_elements<T: Element>(tensor: &DLTensor) -> Result<(), Error> {
    if tensor.dtype == T::DATA_TYPE {
        return Ok(());
    }
    let element = std::any::type_name::<T>();
    let message = format!("elements of {:?}, which are not `{element}`", tensor.dtype);
    Err(Error::invalid_argument(ORIGIN, message))
}

fn check_device(device: DLDevice, stream: StreamRef<'_>) -> Result<(), Error> {
    match device.device_type {
        DLDevice::CUDA => {
            let ordinal = stream.device()?.ordinal();
            if usize::try_from(device.device_id) == Ok(ordinal) {
                return Ok(());
            }
            let message = format!("memory of device {}, a stream of {ordinal}", device.device_id);
            Err(Error::invalid_argument(ORIGIN, message))
        }
        DLDevice::CUDA_HOST | DLDevice::CUDA_MANAGED => Ok(()),
        other => Err(Error::unsupported(ORIGIN, format!("memory of DLPack's device type {other}"))),
    }
}
