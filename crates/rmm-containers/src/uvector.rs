//! Typed device memory.

mod elements;
mod make;

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;
use rmm_core::{AnyResource, Context, DevicePtr, Error, HasResource};

use crate::DeviceBuffer;
use crate::common::passed_on;

/// Elements of a plain-data type in device memory that belong to one stream: a typed
/// [`DeviceBuffer`].
///
/// The element type must be [`bytemuck::Pod`]: it can be copied byte by byte and every bit pattern
/// is a valid value, since a device may write any. Use `u8` for `bool`; with the feature `half`,
/// the types of that crate are elements too. Other types do not compile:
///
/// ```compile_fail,E0277
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let stream = rmm_core::CudaStream::new()?;
/// let references = rmm_containers::DeviceUVector::from_slice(&["text"], &stream)?;
/// # Ok(())
/// # }
/// ```
///
/// Nor do zero-sized types. Your own struct becomes an element type by implementing `Pod`, by hand
/// or with `bytemuck`'s feature `derive`:
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
/// // SAFETY: any bits are a value of each field, and there is no padding.
/// unsafe impl Pod for Particle {}
///
/// # let _machine = rmm_sim::enter();
/// # let stream = rmm_core::CudaStream::new()?;
/// let particle = Particle { position: [0.0, 0.5, 1.0], charge: -1.0 };
/// let particles = rmm_containers::DeviceUVector::from_slice(&[particle], &stream)?;
/// assert_eq!(particles.element(0)?, particle);
/// # Ok::<(), rmm_core::Error>(())
/// ```
///
/// The memory is aligned to 256 bytes, or to the alignment of the type if that is larger.
///
/// ```
/// use rmm_containers::DeviceUVector;
/// use rmm_core::CudaStream;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::new()?;
/// let vector = DeviceUVector::from_slice(&[1.0f32, 2.0, 3.0], &stream)?;
/// assert_eq!(vector.to_vec()?, [1.0, 2.0, 3.0]);
/// let halves = DeviceUVector::filled(0.5f32, 100, &stream)?;
/// let squares = DeviceUVector::from_fn(|i| (i * i) as u64, 100, &stream)?;
/// assert_eq!((halves.element(99)?, squares.element(99)?), (0.5, 9801));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::device_uvector")]
#[doc(alias = "cuda::uninitialized_async_buffer")]
#[doc(alias = "cuda::make_buffer")]
#[doc(alias = "cuda::make_device_buffer")]
#[doc(alias = "device_vector")]
pub struct DeviceUVector<T> {
    /// # Invariant
    /// Its length is a multiple of the size of `T`, and its alignment at least that of `T`.
    buffer: DeviceBuffer,
    elements: PhantomData<T>,
}

impl<T: Pod> DeviceUVector<T> {
    fn bytes(len: usize) -> Result<usize, Error> {
        const {
            assert!(size_of::<T>() > 0, "elements of size zero have no place in device memory");
        };
        len.checked_mul(size_of::<T>()).ok_or_else(|| {
            let message = format!(
                "{len} elements of {} bytes are more than can be addressed",
                size_of::<T>()
            );
            Error::invalid_argument("DeviceUVector", message)
        })
    }

    /// # Invariant
    /// The buffer is as [`buffer`](Self::buffer) has to be.
    fn over(buffer: DeviceBuffer) -> Self {
        Self { buffer, elements: PhantomData }
    }

    passed_on!("vector", buffer);

    /// Number of elements.
    #[doc(alias = "size")]
    #[doc(alias = "ssize")]
    pub fn len(&self) -> usize {
        self.buffer.len() / size_of::<T>()
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of elements that fit into the allocated memory.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity() / size_of::<T>()
    }

    /// The address of the first element; null if the capacity is 0. See [`DeviceBuffer::as_ptr`]
    /// for the work that may use it.
    #[doc(alias = "data")]
    pub fn as_ptr(&self) -> DevicePtr {
        self.buffer.as_ptr()
    }

    /// The alignment that the memory was allocated with, in bytes.
    pub fn alignment(&self) -> usize {
        self.buffer.alignment()
    }

    /// The context that the vector was made in.
    pub fn context(&self) -> Context {
        self.buffer.context()
    }

    /// Grows the capacity to at least `capacity` elements. The contents are kept; the memory moves
    /// if it grows.
    ///
    /// # Errors
    /// The errors of [`uninit`](Self::uninit). The vector is then unchanged.
    pub fn reserve(&mut self, capacity: usize) -> Result<(), Error> {
        self.buffer.reserve(Self::bytes(capacity)?)
    }

    /// Sets the length. Elements beyond the former length are uninitialized. The memory moves only
    /// if the capacity has to grow.
    ///
    /// # Errors
    /// The errors of [`uninit`](Self::uninit). The vector is then unchanged.
    pub fn resize(&mut self, len: usize) -> Result<(), Error> {
        self.buffer.resize(Self::bytes(len)?)
    }

    /// Frees the capacity beyond the length, by moving to new memory if there is any.
    ///
    /// # Errors
    /// The errors of [`uninit`](Self::uninit). The vector is then unchanged.
    pub fn shrink_to_fit(&mut self) -> Result<(), Error> {
        self.buffer.shrink_to_fit()
    }

    /// The elements of an untyped buffer.
    ///
    /// # Errors
    /// Returns the buffer if its length is not a multiple of the size of `T`, or its alignment is
    /// less than that of `T`.
    #[expect(clippy::result_large_err, reason = "the error is the buffer, unchanged")]
    pub fn try_from_buffer(buffer: DeviceBuffer) -> Result<Self, DeviceBuffer> {
        const { assert!(size_of::<T>() > 0, "elements without size cannot be counted") };
        let fits = buffer.len().is_multiple_of(size_of::<T>());
        if fits && buffer.alignment() >= align_of::<T>() {
            Ok(Self { buffer, elements: PhantomData })
        } else {
            Err(buffer)
        }
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

/// Addresses and sizes, not the contents.
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
