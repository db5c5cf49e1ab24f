//! Elements lent to cudarc.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use rmm_containers::{DeviceSliceMut, OnStream};

use super::Stream;
use super::cudarc::driver::{
    CudaStream as TheirStream, DevicePtr, DevicePtrMut, DeviceSlice as TheirSlice, LaunchArgs,
    PushKernelArg, SyncOnDrop, sys,
};

/// Elements of a container for work that cudarc enqueues on one stream: an operand of its copies
/// and fills, of cuBLAS and the like (`DevicePtr`, and `DevicePtrMut` if it was lent for writing),
/// and an argument of its kernels.
///
/// The container has recorded the use, so it does not matter when this value is dropped, or whether
/// it is. As an operand on another stream than it was lent to, it is in order too, by a wait of the
/// host. As an argument it is not: a launch builder does not show its stream. Launch on the stream
/// that the value was lent to.
#[must_use = "the container has recorded a use on the stream; pass the value to cudarc"]
pub struct Lent<'s, V, T> {
    /// # Invariant
    /// The address of `len` elements, which stay allocated while work that was enqueued on `stream`
    /// during this value's life is queued.
    pointer: sys::CUdeviceptr,
    len: usize,
    stream: &'s Stream,
    _view: OnStream<'s, V>,
    elements: PhantomData<T>,
}

impl<'s, V, T> Lent<'s, V, T> {
    pub(super) fn new(view: OnStream<'s, V>, stream: &'s Stream) -> Self {
        let (pointer, len) = (view.as_ptr().0, view.bytes() / size_of::<T>().max(1));
        Self { pointer, len, stream, _view: view, elements: PhantomData }
    }
}

impl<V, T> TheirSlice<T> for Lent<'_, V, T> {
    fn len(&self) -> usize {
        self.len
    }

    fn stream(&self) -> &Arc<TheirStream> {
        self.stream.theirs()
    }
}

impl<V, T> DevicePtr<T> for Lent<'_, V, T> {
    fn device_ptr<'a>(&'a self, stream: &'a TheirStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        (self.pointer, self.stream.order_for(stream))
    }
}

impl<T> DevicePtrMut<T> for Lent<'_, DeviceSliceMut<'_, T>, T> {
    fn device_ptr_mut<'a>(
        &'a mut self,
        stream: &'a TheirStream,
    ) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        (self.pointer, self.stream.order_for(stream))
    }
}

// SAFETY: the address that is pushed lives as long as the borrow, which outlives the arguments. A
// kernel takes an address as 8 bytes. `launch` is unsafe, and its caller answers for what the
// kernel does with the address, and for the stream: a launch builder does not show which it is of.
unsafe impl<'a, 'b: 'a, V, T> PushKernelArg<&'b Lent<'_, V, T>> for LaunchArgs<'a> {
    #[inline]
    fn arg(&mut self, lent: &'b Lent<'_, V, T>) -> &mut Self {
        PushKernelArg::<&'b u64>::arg(self, &lent.pointer)
    }
}

// SAFETY: as above.
unsafe impl<'a, 'b: 'a, V, T> PushKernelArg<&'b mut Lent<'_, V, T>> for LaunchArgs<'a> {
    #[inline]
    fn arg(&mut self, lent: &'b mut Lent<'_, V, T>) -> &mut Self {
        PushKernelArg::<&'b u64>::arg(self, &lent.pointer)
    }
}

impl<V, T> fmt::Debug for Lent<'_, V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent")
            .field("pointer", &format_args!("{:#x}", self.pointer))
            .field("len", &self.len)
            .field("stream", &self.stream.ours().id())
            .finish()
    }
}
