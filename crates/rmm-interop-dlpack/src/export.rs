//! Export: containers become tensors.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};

use rmm_containers::{DeviceBuffer, DeviceUVector, HostVec, ManagedVec, PinnedVec};
use rmm_core::{
    DeviceAccessible, DevicePtr, Error, HasProperty, HostAccessible, StreamRef, SynchronousResource,
};

use crate::abi::{DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor};
use crate::element::Element;
use crate::shape::{count, row_major};

/// When the consumer may use an exported tensor.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Ready<'s> {
    /// In the order of this stream, which waits for all work on the memory. The memory is freed in
    /// its order, too: after the work that is enqueued there when the deleter is called. It has to
    /// exist until then.
    On(StreamRef<'s>),
    /// At once: the host waits for all work on the memory. The consumer calls the deleter after its
    /// own work is complete.
    Complete,
    /// In the order of the container's own stream, which the consumer knows. The consumer calls
    /// the deleter after its work is ordered before that stream, or complete. A vector of the host
    /// has no stream: nothing waits for the work on it. Python's `stream=-1`.
    Unordered,
}

/// Containers that become tensors without a copy.
///
/// ```
/// use rmm_containers::{DeviceUVector, PinnedVec};
/// use rmm_core::CudaStream;
/// use rmm_interop_dlpack::{DLDevice, Ready, ToDlpack};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::new()?;
/// let vector = DeviceUVector::<i32>::zeroed(6, &stream)?;
/// let on_device = vector.into_dlpack(&[3, 2], Ready::On((&stream).into()))?;
/// let pinned = PinnedVec::from_slice(&[1u8, 2, 3])?.into_dlpack(&[3], Ready::Complete)?;
/// for (tensor, kind) in [(on_device, DLDevice::CUDA), (pinned, DLDevice::CUDA_HOST)] {
///     let tensor = tensor.as_ptr();
///     // SAFETY: the tensor exists until its deleter is called.
///     assert_eq!(unsafe { (*tensor).dl_tensor.device.device_type }, kind);
///     // SAFETY: as above.
///     let delete = unsafe { (*tensor).deleter }.expect("exported tensors have one");
///     // SAFETY: it is called once, with its tensor, which nothing uses.
///     unsafe { delete(tensor) };
/// }
/// # Ok(())
/// # }
/// ```
pub trait ToDlpack: Sized {
    /// Makes a tensor of the container. `shape` is compact and row-major, and has as many elements
    /// as the container; `[len]` is a vector, and `[]` a scalar.
    ///
    /// The consumer owns the result, and calls its deleter once, on any thread: that drops the
    /// container. If the context was reset or the driver is gone, and once the process is
    /// [exiting](rmm_core::process_is_exiting), it then calls no driver.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the shape has
    /// another number of elements; whatever the driver reports when a stream or the host waits;
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) while a stream is being
    /// captured that the wait concerns. The container is then dropped.
    #[doc(alias = "__dlpack__")]
    fn into_dlpack(
        self,
        shape: &[i64],
        ready: Ready<'_>,
    ) -> Result<NonNull<DLManagedTensorVersioned>, Error>;
}

const ORIGIN: &str = "into_dlpack";

/// An exported tensor, with the container that owns the memory.
struct Exported<C> {
    tensor: DLManagedTensorVersioned,
    /// What the tensor points to.
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    _container: C,
}

/// The deleter of an exported tensor.
///
/// # Safety
/// `tensor` is that of an [`Exported<C>`] that was leaked by [`export`], and is not used any more.
unsafe extern "C" fn delete<C>(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the tensor exists until here.
    let exported = unsafe { (*tensor).manager_ctx }.cast::<Exported<C>>();
    // SAFETY: `export` leaked it from a box.
    let exported = unsafe { Box::from_raw(exported) };
    // A panic must not leave a C function. `Drop` of a container does not panic, but that of a
    // custom resource may.
    let outcome = catch_unwind(AssertUnwindSafe(|| drop(exported)));
    if let Err(payload) = outcome {
        let _leaked = Box::leak(payload);
    }
}

/// A tensor over the memory of a container.
fn export<C: Send>(
    container: C,
    shape: &[i64],
    pointer: DevicePtr,
    device: DLDevice,
    dtype: crate::DLDataType,
) -> Result<NonNull<DLManagedTensorVersioned>, Error> {
    let ndim = i32::try_from(shape.len())
        .map_err(|_| Error::invalid_argument(ORIGIN, "more dimensions than DLPack can count"))?;
    let is_empty = shape.contains(&0);
    let address = usize::try_from(pointer.0).expect("an address of this machine");
    let data = if is_empty { null_mut() } else { std::ptr::with_exposed_provenance_mut(address) };
    let dl_tensor = DLTensor {
        data,
        device,
        ndim,
        dtype,
        shape: null_mut(),
        strides: null_mut(),
        byte_offset: 0,
    };
    let exported = Box::into_raw(Box::new(Exported {
        tensor: DLManagedTensorVersioned {
            version: DLPackVersion::EXPORTED,
            manager_ctx: null_mut(),
            deleter: Some(delete::<C>),
            flags: 0,
            dl_tensor,
        },
        shape: shape.into(),
        strides: row_major(shape).into(),
        _container: container,
    }));
    // SAFETY: the box was leaked just now, and nothing else refers to it.
    let inner = unsafe { &mut *exported };
    inner.tensor.dl_tensor.shape = inner.shape.as_mut_ptr();
    inner.tensor.dl_tensor.strides = inner.strides.as_mut_ptr();
    inner.tensor.manager_ctx = exported.cast::<c_void>();
    // SAFETY: the box is there until the deleter is called. The pointer to the field is made of
    // that to the whole, which the deleter gets back from `manager_ctx`.
    let tensor = unsafe { &raw mut (*exported).tensor };
    Ok(NonNull::new(tensor).expect("a box is not null"))
}

/// Refuses a shape with another number of elements.
fn check_shape(shape: &[i64], len: usize) -> Result<(), Error> {
    let elements = count(ORIGIN, shape)?;
    if elements == len {
        return Ok(());
    }
    let message = format!("the shape {shape:?} has {elements} elements, the container {len}");
    Err(Error::invalid_argument(ORIGIN, message))
}

impl<T: Element> ToDlpack for DeviceUVector<T> {
    fn into_dlpack(
        mut self,
        shape: &[i64],
        ready: Ready<'_>,
    ) -> Result<NonNull<DLManagedTensorVersioned>, Error> {
        check_shape(shape, self.len())?;
        match ready {
            // The stream waits for all others, and is the one that the memory is freed on.
            Ready::On(stream) => self.set_stream(stream)?,
            Ready::Complete => {
                self.wait_for_other_streams()?;
                let _current = self.context().enter()?;
                self.stream().synchronize()?;
            }
            Ready::Unordered => self.wait_for_other_streams()?,
        }
        let ordinal = i32::try_from(self.device()?.ordinal()).expect("the driver counts in `i32`");
        let device = DLDevice { device_type: DLDevice::CUDA, device_id: ordinal };
        let pointer = self.as_ptr();
        export(self, shape, pointer, device, T::DATA_TYPE)
    }
}

/// As bytes.
impl ToDlpack for DeviceBuffer {
    fn into_dlpack(
        self,
        shape: &[i64],
        ready: Ready<'_>,
    ) -> Result<NonNull<DLManagedTensorVersioned>, Error> {
        let bytes = DeviceUVector::<u8>::try_from_buffer(self);
        bytes.expect("every buffer is one of bytes").into_dlpack(shape, ready)
    }
}

impl<T: Element> ToDlpack for PinnedVec<T> {
    fn into_dlpack(
        self,
        shape: &[i64],
        ready: Ready<'_>,
    ) -> Result<NonNull<DLManagedTensorVersioned>, Error> {
        export_host_vec(self, shape, ready, DLDevice::CUDA_HOST)
    }
}

impl<T: Element> ToDlpack for ManagedVec<T> {
    fn into_dlpack(
        self,
        shape: &[i64],
        ready: Ready<'_>,
    ) -> Result<NonNull<DLManagedTensorVersioned>, Error> {
        export_host_vec(self, shape, ready, DLDevice::CUDA_MANAGED)
    }
}

fn export_host_vec<T, R>(
    mut vector: HostVec<T, R>,
    shape: &[i64],
    ready: Ready<'_>,
    device_type: u32,
) -> Result<NonNull<DLManagedTensorVersioned>, Error>
where
    T: Element,
    R: SynchronousResource + HasProperty<HostAccessible> + HasProperty<DeviceAccessible> + 'static,
{
    check_shape(shape, vector.len())?;
    match ready {
        // The stream waits for all uses, and dropping the vector waits for the stream.
        Ready::On(stream) => drop(vector.device_slice_mut().use_on(stream)?),
        Ready::Complete => drop(vector.as_mut_slice()?),
        Ready::Unordered => {}
    }
    let pointer = vector.device_slice().as_ptr();
    export(vector, shape, pointer, DLDevice { device_type, device_id: 0 }, T::DATA_TYPE)
}
