//! The methods of [`StreamRef`] on an owned stream.

use std::ffi::c_int;

use super::CudaStream;
use crate::{Context, CudaEvent, Device, Error, EventRef, StreamId, StreamRef, TimedEvent};

/// Defines each method by that of the same name on [`StreamRef`].
macro_rules! same_as_borrowed {
    ($(
        $(#[$meta:meta])*
        fn $name:ident(&self $(, $argument:ident: $kind:ty)?) -> $result:ty;
    )*) => {
        impl CudaStream {$(
            $(#[$meta])*
            #[inline]
            pub fn $name(&self $(, $argument: $kind)?) -> $result {
                self.as_stream_ref().$name($($argument)?)
            }
        )*}
    };
}

same_as_borrowed! {
    /// The stream's identity, see [`StreamRef::id`].
    fn id(&self) -> StreamId;

    /// The name that [`with_name`](Self::with_name) gave the stream.
    fn name(&self) -> Option<String>;

    /// Whether it is the legacy default stream, see [`StreamRef::is_default`].
    fn is_default(&self) -> bool;

    /// Whether it is the calling thread's own default stream, see
    /// [`StreamRef::is_per_thread_default`].
    fn is_per_thread_default(&self) -> bool;

    /// The stream's priority, see [`stream_priority_range`](crate::stream_priority_range).
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaStreamGetPriority")]
    fn priority(&self) -> Result<c_int, Error>;

    /// The device that the stream belongs to; for a default stream the current one.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaStreamGetDevice")]
    fn device(&self) -> Result<Device, Error>;

    /// The context that the stream belongs to; for a default stream the current one.
    ///
    /// # Errors
    /// If the stream is a default one, and [`Context::current`] fails.
    #[doc(alias = "cuStreamGetCtx")]
    fn context(&self) -> Result<Context, Error>;

    /// Whether the stream's context still exists, see [`StreamRef::check_context`].
    ///
    /// # Errors
    /// An error with [`is_context_lost`](Error::is_context_lost) if not.
    fn check_context(&self) -> Result<(), Error>;

    /// Blocks the calling thread until all work of the stream has completed.
    ///
    /// # Errors
    /// If the driver refuses, or that work has failed.
    #[doc(alias = "cudaStreamSynchronize")]
    fn synchronize(&self) -> Result<(), Error>;

    /// Whether all work of the stream has completed. Never blocks.
    ///
    /// # Errors
    /// If the driver refuses, or that work has failed.
    #[doc(alias = "cudaStreamQuery")]
    #[doc(alias = "cuda::stream_ref::is_done")]
    fn is_idle(&self) -> Result<bool, Error>;

    /// Whether the stream is being captured into a graph, see [`StreamRef::is_capturing`].
    ///
    /// # Errors
    /// The errors of [`StreamRef::is_capturing`].
    #[doc(alias = "cudaStreamIsCapturing")]
    fn is_capturing(&self) -> Result<bool, Error>;

    /// Records a new event at the stream's current end.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaEventRecord")]
    fn record_event(&self) -> Result<CudaEvent, Error>;

    /// Records a new event that keeps time at the stream's current end.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cuda::stream_ref::record_timed_event")]
    fn record_timed_event(&self) -> Result<TimedEvent, Error>;
}

impl CudaStream {
    /// Makes all work enqueued from now on wait for `event`, see [`StreamRef::wait`].
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaStreamWaitEvent")]
    pub fn wait<'e>(&self, event: impl Into<EventRef<'e>>) -> Result<(), Error> {
        self.as_stream_ref().wait(event)
    }

    /// Makes all work enqueued from now on wait for what is enqueued on `earlier` so far, see
    /// [`StreamRef::wait_for`].
    ///
    /// ```
    /// use rmm_core::{CudaStream, StreamRef};
    ///
    /// # let _machine = rmm_sim::enter();
    /// let (producer, consumer) = (CudaStream::new()?, CudaStream::new()?);
    /// consumer.wait_for(&producer)?;
    /// consumer.wait_for(StreamRef::legacy())?;
    /// consumer.synchronize()?;
    /// assert!(producer.is_idle()?);
    /// assert_eq!(consumer, StreamRef::from(&consumer));
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cuda::stream_ref::wait")]
    pub fn wait_for<'s>(&self, earlier: impl Into<StreamRef<'s>>) -> Result<(), Error> {
        self.as_stream_ref().wait_for(earlier)
    }
}
