//! Elements in device memory.

mod elements;

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;
use rmm_core::{
    AnyResource, CUDA_ALLOCATION_ALIGNMENT, CudaStream, DevicePtr, DeviceResource, Error,
    HasResource, StreamRef, allocation_alignment,
};
use rmm_resources::per_device_resource;

use crate::DeviceBuffer;

/// Elements of a plain type in device memory, on a stream: a typed [`DeviceBuffer`].
///
/// The type must be one that may be copied byte by byte and whose every bit pattern is a value
/// ([`bytemuck::Pod`]), since a device writes what it likes: `u8` stands for `bool`, and with the
/// feature `half` there are its types. Anything else does not compile:
///
/// ```compile_fail,E0277
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let stream = rmm_core::CudaStream::new()?;
/// let references = rmm_containers::DeviceUVector::from_slice(&["text"], &stream)?;
/// # Ok(())
/// # }
/// ```
///
/// Nor does an element without size. A struct of one's own is an element if it says so, by hand or
/// with `bytemuck`'s feature `derive`:
///
/// ```
/// use rmm_containers::bytemuck::{Pod, Zeroable};
///
/// #[derive(Clone, Copy, PartialEq, Debug)]
/// #[repr(C)]
/// struct Particle {
///     position: [f32; 3],
///     charge: f32,
/// }
///
/// // SAFETY: zeros are a value of each field.
/// unsafe impl Zeroable for Particle {}
/// // SAFETY: any bits are a value of each field, and there is nothing between or behind them.
/// unsafe impl Pod for Particle {}
///
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// # let stream = rmm_core::CudaStream::new()?;
/// let particle = Particle { position: [0.0, 0.5, 1.0], charge: -1.0 };
/// let particles = rmm_containers::DeviceUVector::from_slice(&[particle], &stream)?;
/// assert_eq!(particles.element(0, &stream)?, particle);
/// # Ok::<(), rmm_core::Error>(())
/// ```
///
/// Memory is aligned to 256 bytes, or to the type's alignment if that is more.
///
/// ```
/// use rmm_containers::DeviceUVector;
/// use rmm_core::CudaStream;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let stream = CudaStream::new()?;
/// let vector = DeviceUVector::from_slice(&[1.0f32, 2.0, 3.0], &stream)?;
/// assert_eq!(vector.to_vec(&stream)?, [1.0, 2.0, 3.0]);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::device_uvector")]
#[doc(alias = "device_vector")]
pub struct DeviceUVector<T> {
    /// # Invariant
    /// Its length is a multiple of the size of `T`, and its alignment no less than that of `T`.
    buffer: DeviceBuffer,
    elements: PhantomData<T>,
}

impl<T: Pod> DeviceUVector<T> {
    /// A vector of `len` elements whose values are arbitrary, from `resource`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the bytes cannot be
    /// counted; the resource's error if it has no memory.
    pub fn uninit<'a>(
        len: usize,
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let alignment = align_of::<T>().max(CUDA_ALLOCATION_ALIGNMENT);
        Self::uninit_aligned(len, alignment, stream, resource)
    }

    /// A vector of `len` elements whose values are arbitrary, from `resource`, aligned to
    /// `alignment` bytes.
    ///
    /// ```
    /// use rmm_containers::DeviceUVector;
    /// use rmm_core::CudaStream;
    /// use rmm_resources::CudaAsyncMemoryResource;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let (stream, resource) = (CudaStream::new()?, CudaAsyncMemoryResource::new()?);
    /// let first = DeviceUVector::<f32>::uninit_aligned(100, 64, &stream, &resource)?;
    /// assert_eq!(first.alignment(), 64);
    /// let like_it = DeviceUVector::<u8>::uninit_aligned(10, first.alignment(), &stream, first.resource())?;
    /// assert_eq!(like_it.alignment(), 64);
    /// assert!(DeviceUVector::<f32>::uninit_aligned(100, 2, &stream, &resource).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit);
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) also if the alignment
    /// is no power of two or less than the type's; the resource's error if it cannot align so.
    pub fn uninit_aligned<'a>(
        len: usize,
        alignment: usize,
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let bytes = Self::bytes(len)?;
        let alignment = allocation_alignment::<T>(alignment)?;
        let buffer = DeviceBuffer::uninit_aligned(bytes, alignment, stream, resource)?;
        Ok(Self { buffer, elements: PhantomData })
    }

    /// A vector with a copy of `elements`, from the [resource of the stream's
    /// device](per_device_resource). The copy is complete on return.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit), and whatever the copy reports.
    pub fn from_slice<'a>(elements: &[T], stream: impl Into<StreamRef<'a>>) -> Result<Self, Error> {
        let stream = stream.into();
        Self::from_slice_in(elements, stream, &per_device_resource(stream.device()?)?)
    }

    /// A vector with a copy of `elements`, from `resource`. The copy is complete on return.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit), and whatever the copy reports.
    pub fn from_slice_in<'a>(
        elements: &[T],
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let mut vector = Self::uninit(elements.len(), stream, resource)?;
        vector.copy_from_slice(elements)?;
        Ok(vector)
    }

    fn bytes(len: usize) -> Result<usize, Error> {
        const {
            assert!(
                size_of::<T>() > 0,
                "a vector of elements without size would not know how many it has"
            );
        };
        len.checked_mul(size_of::<T>()).ok_or_else(|| {
            let message = format!(
                "{len} elements of {} bytes are more than can be addressed",
                size_of::<T>()
            );
            Error::invalid_argument("DeviceUVector", message)
        })
    }

    /// The bytes of a buffer as elements.
    ///
    /// # Errors
    /// The buffer as it was, if its length is no multiple of the size of `T`, or its alignment is
    /// less than that of `T`.
    pub fn try_from_buffer(buffer: DeviceBuffer) -> Result<Self, DeviceBuffer> {
        const { assert!(size_of::<T>() > 0, "elements without size cannot be counted") };
        let fits = buffer.len().is_multiple_of(size_of::<T>());
        if fits && buffer.alignment() >= align_of::<T>() {
            Ok(Self { buffer, elements: PhantomData })
        } else {
            Err(buffer)
        }
    }

    /// Number of elements.
    #[doc(alias = "size")]
    #[doc(alias = "ssize")]
    pub fn len(&self) -> usize {
        self.buffer.len() / size_of::<T>()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Elements that there is room for.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity() / size_of::<T>()
    }

    /// Where the elements are; null if there is no room for any. See [`DeviceBuffer::as_ptr`] for
    /// who may use it.
    #[doc(alias = "data")]
    pub fn as_ptr(&self) -> DevicePtr {
        self.buffer.as_ptr()
    }

    /// The alignment that the memory was asked for with, in bytes.
    pub fn alignment(&self) -> usize {
        self.buffer.alignment()
    }

    /// The resource that the memory came from.
    #[doc(alias = "memory_resource")]
    pub fn resource(&self) -> &AnyResource {
        self.buffer.resource()
    }

    /// The stream that the vector is on.
    pub fn stream(&self) -> &CudaStream {
        self.buffer.stream()
    }

    /// Moves the vector to another stream, see [`DeviceBuffer::set_stream`].
    ///
    /// # Errors
    /// If the driver refuses, and [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported)
    /// while either stream is being captured; then the vector stays where it was.
    pub fn set_stream<'a>(&mut self, stream: impl Into<StreamRef<'a>>) -> Result<(), Error> {
        self.buffer.set_stream(stream)
    }

    /// Has the vector's stream wait for all work that other streams do on it, see
    /// [`DeviceBuffer::settle`].
    ///
    /// # Errors
    /// If the driver refuses, and [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported)
    /// while a capture would make the wait part of a graph, though the work is not.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.buffer.settle()
    }

    /// Makes room for `capacity` elements in all. Existing ones are kept; the memory moves if it
    /// grows.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit); then nothing has changed.
    pub fn reserve(&mut self, capacity: usize) -> Result<(), Error> {
        self.buffer.reserve(Self::bytes(capacity)?)
    }

    /// Changes the number of elements. Those beyond the former length are arbitrary. Never moves
    /// when shrinking.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit); then nothing has changed.
    pub fn resize(&mut self, len: usize) -> Result<(), Error> {
        self.buffer.resize(Self::bytes(len)?)
    }

    /// Gives back the capacity beyond the length, by moving if there is any.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit); then nothing has changed.
    pub fn shrink_to_fit(&mut self) -> Result<(), Error> {
        self.buffer.shrink_to_fit()
    }

    /// A vector on `stream` with the same elements and alignment, from the same resource, see
    /// [`DeviceBuffer::try_clone_on`].
    ///
    /// # Errors
    /// The resource's error, or whatever the copy reports.
    pub fn try_clone_on<'a>(&self, stream: impl Into<StreamRef<'a>>) -> Result<Self, Error> {
        let buffer = self.buffer.try_clone_on(stream)?;
        Ok(Self { buffer, elements: PhantomData })
    }

    /// As [`try_clone_on`](Self::try_clone_on), from another resource.
    ///
    /// # Errors
    /// The resource's error, or whatever the copy reports.
    pub fn try_clone_in<'a>(
        &self,
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let buffer = self.buffer.try_clone_in(stream, resource)?;
        Ok(Self { buffer, elements: PhantomData })
    }

    /// The untyped buffer.
    #[doc(alias = "release")]
    pub fn into_buffer(self) -> DeviceBuffer {
        self.buffer
    }
}

impl<T> HasResource for DeviceUVector<T> {
    type Resource = AnyResource;

    fn memory_resource(&self) -> &AnyResource {
        self.buffer.resource()
    }
}

/// Addresses and sizes, never contents.
impl<T> fmt::Debug for DeviceUVector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceUVector")
            .field("element", &format_args!("{}", type_name::<T>()))
            .field("buffer", &self.buffer)
            .finish()
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<DeviceUVector<f64>>();
};
