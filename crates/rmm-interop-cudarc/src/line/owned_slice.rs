//! A `CudaSlice` in the memory of a container.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use bytemuck::Pod;
use rmm_containers::DeviceUVector;
use rmm_core::Error;

use super::Stream;
use super::cudarc::driver::{
    CudaSlice, CudaStream as TheirStream, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr,
    DeviceSlice as TheirSlice, LaunchArgs, PushKernelArg, SyncOnDrop, sys,
};

/// A `CudaSlice` of cudarc's in the memory of a vector, for interfaces that name that type. It
/// derefs to the slice, and frees to the vector's resource.
///
/// It does not deref mutably: swapping two slices would give the vector's memory to the driver.
/// [`view_mut`](Self::view_mut) gives a `CudaViewMut`, and the slice itself is what cudarc calls a
/// `DevicePtrMut`.
///
/// Where a call accepts a `DevicePtr`, [`Lend`](super::Lend) costs less and has no condition: a
/// slice has two events, which cudarc makes, waits for and destroys.
///
/// ```
/// # use cudarc_0_19 as cudarc;
/// use cudarc::driver::{CudaContext, CudaSlice};
/// use rmm_containers::DeviceUVector;
/// use rmm_interop_cudarc::{OwnedSlice, Stream};
///
/// fn names_the_type(slice: &CudaSlice<f32>) -> usize {
///     use cudarc::driver::DeviceSlice;
///     slice.len()
/// }
///
/// # rmm_sim_cuda::load().unwrap();
/// # let _machine = rmm_sim::enter();
/// let context = CudaContext::new(0)?;
/// // SAFETY: the stream is not captured.
/// let stream = unsafe { Stream::adopt(&context.new_stream()?) }?;
/// let vector = DeviceUVector::<f32>::zeroed(1000, &stream)?;
/// // SAFETY: it is used on one stream.
/// let mut slice = unsafe { OwnedSlice::new(vector, &stream) }?;
/// stream.memcpy_htod(&[1.0; 1000], &mut slice)?;
/// assert_eq!(names_the_type(&slice), 1000);
/// assert_eq!(slice.into_vector().to_vec()?, [1.0; 1000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OwnedSlice<T: Pod> {
    /// # Invariant
    /// The elements of `memory`. Leaked, never dropped: its destructor would free them.
    slice: ManuallyDrop<CudaSlice<T>>,
    /// # Invariant
    /// On the slice's stream. Taken by `into_vector` only.
    memory: ManuallyDrop<DeviceUVector<T>>,
}

impl<T: Pod + DeviceRepr> OwnedSlice<T> {
    /// Moves the vector to the stream, and makes a slice of it.
    ///
    /// # Errors
    /// Whatever the driver reports; the vector is freed.
    ///
    /// # Panics
    /// If cudarc cannot make an event: it does not return that error.
    ///
    /// # Safety
    /// Uses on other streams than its own are joined to it, or to each other, before the slice is
    /// dropped, but for the last one that reads and the last one that writes: cudarc remembers one
    /// event for each, so of two other streams that read, it waits for the second only. Without
    /// event tracking, all of them are. On a per-thread default stream, the slice is used and
    /// dropped on this thread.
    pub unsafe fn new(mut memory: DeviceUVector<T>, stream: &Stream) -> Result<Self, Error> {
        memory.set_stream(stream)?;
        let (pointer, len) = (memory.as_ptr().0, memory.len());
        // SAFETY: the vector has `len` elements there, whose every bit pattern is a value.
        let mut slice: CudaSlice<T> = unsafe { stream.theirs().upgrade_device_ptr(pointer, len) };
        // Its events are not recorded yet: the first use on another stream would not be ordered
        // after the allocation.
        let (_, record) = slice.device_ptr_mut(stream.theirs());
        drop(record);
        Ok(Self { slice: ManuallyDrop::new(slice), memory: ManuallyDrop::new(memory) })
    }
}

impl<T: Pod> OwnedSlice<T> {
    /// The elements, for writing.
    pub fn view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.slice.as_view_mut()
    }

    /// The vector, on the slice's stream, which waits for the uses that cudarc remembers.
    pub fn into_vector(self) -> DeviceUVector<T> {
        let mut this = ManuallyDrop::new(self);
        this.leak_slice();
        // SAFETY: `this` is not dropped and not used any more.
        unsafe { ManuallyDrop::take(&mut this.memory) }
    }

    /// Makes the stream wait for the slice's events, and ends the slice without freeing anything.
    /// Called once, at the end.
    fn leak_slice(&mut self) {
        // SAFETY: the slice is not used any more, by the contract of this function.
        let pointer = unsafe { ManuallyDrop::take(&mut self.slice) }.leak();
        debug_assert_eq!(pointer, self.memory.as_ptr().0, "it is the vector's slice");
    }
}

impl<T: Pod> Drop for OwnedSlice<T> {
    fn drop(&mut self) {
        self.leak_slice();
        // SAFETY: dropped here only: `into_vector` keeps this from being called.
        unsafe { ManuallyDrop::drop(&mut self.memory) };
    }
}

impl<T: Pod> Deref for OwnedSlice<T> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        &self.slice
    }
}

impl<T: Pod> TheirSlice<T> for OwnedSlice<T> {
    fn len(&self) -> usize {
        self.slice.len()
    }

    fn stream(&self) -> &Arc<TheirStream> {
        self.slice.stream()
    }
}

impl<T: Pod> DevicePtr<T> for OwnedSlice<T> {
    fn device_ptr<'a>(&'a self, stream: &'a TheirStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        (*self.slice).device_ptr(stream)
    }
}

impl<T: Pod> DevicePtrMut<T> for OwnedSlice<T> {
    fn device_ptr_mut<'a>(
        &'a mut self,
        stream: &'a TheirStream,
    ) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        (*self.slice).device_ptr_mut(stream)
    }
}

// SAFETY: cudarc's own argument for the slice, which lives as long as the borrow.
unsafe impl<'a, 'b: 'a, T: Pod> PushKernelArg<&'b OwnedSlice<T>> for LaunchArgs<'a> {
    #[inline]
    fn arg(&mut self, owned: &'b OwnedSlice<T>) -> &mut Self {
        PushKernelArg::<&'b CudaSlice<T>>::arg(self, &*owned.slice)
    }
}

// SAFETY: as above.
unsafe impl<'a, 'b: 'a, T: Pod> PushKernelArg<&'b mut OwnedSlice<T>> for LaunchArgs<'a> {
    #[inline]
    fn arg(&mut self, owned: &'b mut OwnedSlice<T>) -> &mut Self {
        PushKernelArg::<&'b mut CudaSlice<T>>::arg(self, &mut *owned.slice)
    }
}

impl<T: Pod> fmt::Debug for OwnedSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnedSlice").field(&*self.memory).finish()
    }
}
