//! Lending containers.

use bytemuck::Pod;
use rmm_containers::{
    DeviceBuffer, DeviceScalar, DeviceSlice, DeviceSliceMut, DeviceUVector, ManagedVec,
};
use rmm_core::Error;

use super::{Lent, Stream};

/// Lends the elements of a container to what cudarc enqueues on a stream.
///
/// ```
/// # use cudarc_0_19 as cudarc;
/// use cudarc::driver::CudaContext;
/// use rmm_containers::DeviceUVector;
/// use rmm_interop_cudarc::{Lend, LendMut, Stream};
///
/// # rmm_sim_cuda::load().unwrap();
/// # let _machine = rmm_sim::enter();
/// let context = CudaContext::new(0)?;
/// // SAFETY: the stream is not captured.
/// let stream = unsafe { Stream::adopt(&context.new_stream()?) }?;
/// let x = DeviceUVector::from_slice(&[1.0_f32, 2.0], &stream)?;
/// let mut y = DeviceUVector::<f32>::zeroed(2, &stream)?;
/// stream.memcpy_dtod(&x.lend(&stream)?, &mut y.lend_mut(&stream)?)?;
/// assert_eq!(stream.clone_dtoh(&y.lend(&stream)?)?, [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Lend<T> {
    /// Lends the elements for reading. The stream waits for earlier work that writes them; later
    /// calls that write, move or free them wait for what the stream does until then.
    ///
    /// Makes no driver call for an event on the container's own stream; on another one, those of
    /// [`use_on`](DeviceSlice::use_on).
    ///
    /// # Errors
    /// Whatever the driver reports.
    fn lend<'s>(&self, stream: &'s Stream) -> Result<Lent<'s, DeviceSlice<'_, T>, T>, Error>;
}

/// Lends the elements of a container for writing, see [`Lend`].
pub trait LendMut<T>: Lend<T> {
    /// Lends the elements for reading and writing, see [`lend`](Lend::lend).
    ///
    /// # Errors
    /// Whatever the driver reports.
    fn lend_mut<'s>(
        &mut self,
        stream: &'s Stream,
    ) -> Result<Lent<'s, DeviceSliceMut<'_, T>, T>, Error>;
}

macro_rules! lend {
    ($([$($parameter:ident)?] $container:ty, $element:ty, $slice:ident, $slice_mut:ident;)*) => {$(
        impl$(<$parameter: Pod>)? Lend<$element> for $container {
            fn lend<'s>(
                &self,
                stream: &'s Stream,
            ) -> Result<Lent<'s, DeviceSlice<'_, $element>, $element>, Error> {
                Ok(Lent::new(self.$slice().use_on(stream)?, stream))
            }
        }

        impl$(<$parameter: Pod>)? LendMut<$element> for $container {
            fn lend_mut<'s>(
                &mut self,
                stream: &'s Stream,
            ) -> Result<Lent<'s, DeviceSliceMut<'_, $element>, $element>, Error> {
                Ok(Lent::new(self.$slice_mut().into_use_on(stream)?, stream))
            }
        }
    )*};
}

lend! {
    [] DeviceBuffer, u8, as_slice, as_slice_mut;
    [T] DeviceUVector<T>, T, as_slice, as_slice_mut;
    [T] DeviceScalar<T>, T, as_slice, as_slice_mut;
    [T] ManagedVec<T>, T, device_slice, device_slice_mut;
    [T] DeviceSliceMut<'_, T>, T, as_slice, reborrow;
}

/// A range of a container: `x.as_slice().slice(10..20)?.lend(&stream)?`.
impl<T: Pod> Lend<T> for DeviceSlice<'_, T> {
    fn lend<'s>(&self, stream: &'s Stream) -> Result<Lent<'s, DeviceSlice<'_, T>, T>, Error> {
        Ok(Lent::new(self.use_on(stream)?, stream))
    }
}
