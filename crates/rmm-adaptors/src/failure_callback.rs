//! Asking the program what to do about a failure.

use std::alloc::Layout;
use std::fmt;
use std::num::NonZeroU32;

use rmm_core::{Description, DevicePtr, Error, ErrorKind, StreamId, StreamRef};

use crate::layer::{Below, Layer, adaptor};

adaptor! {
    /// Calls back when an allocation fails, and tries again if the callback says so: after it has
    /// freed something, say.
    ///
    /// It is called for errors of one kind, [`OutOfMemory`](ErrorKind::OutOfMemory), unless others
    /// are [chosen](FailureCallbackResourceAdaptorBuilder::on), and is told which attempt failed
    /// and why. However often it says yes, a request is tried again at most [16
    /// times](FailureCallbackResourceAdaptorBuilder::max_retries) if nothing else is set. No lock
    /// is held while it is called, so it may use the resource itself. If it panics, so does the
    /// allocation; no memory is lost.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use std::sync::Mutex;
    /// use rmm_adaptors::{FailureCallbackResourceAdaptor, LimitingResourceAdaptor};
    /// use rmm_core::{DevicePtr, SyncResource};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let limited = LimitingResourceAdaptor::new(CudaMemoryResource::new(), 4096);
    /// let layout = Layout::from_size_align(4096, 256)?;
    /// let cache = Mutex::new(vec![limited.allocate_sync(layout)?]);
    /// let upstream = limited.clone();
    /// let resource = FailureCallbackResourceAdaptor::new(limited, move |failure| {
    ///     assert_eq!(failure.attempt.get(), 1);
    ///     let spare: Option<DevicePtr> = cache.lock().unwrap().pop();
    ///     // SAFETY: allocated above with this layout, and not used.
    ///     spare.map(|spare| unsafe { upstream.deallocate_sync(spare, layout) }).is_some()
    /// });
    /// let block = resource.allocate_sync(layout)?; // what was in the cache
    /// # // SAFETY: allocated above with this layout, and not used.
    /// # unsafe { resource.deallocate_sync(block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rmm::mr::failure_callback_resource_adaptor")]
    FailureCallbackResourceAdaptor(Retry)
}

/// An allocation that failed, as the callback of a [`FailureCallbackResourceAdaptor`] sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FailedAllocation<'a> {
    /// What was asked for.
    pub layout: Layout,
    /// The stream it was asked for on, unless the call is synchronous.
    pub stream: Option<StreamId>,
    /// How often it has been tried.
    pub attempt: NonZeroU32,
    /// Why it failed this time.
    pub error: &'a Error,
}

type Callback = Box<dyn Fn(&FailedAllocation<'_>) -> bool + Send + Sync>;

struct Retry {
    kinds: Vec<ErrorKind>,
    max_retries: u32,
    callback: Callback,
}

/// What a new [`FailureCallbackResourceAdaptor`] should be.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct FailureCallbackResourceAdaptorBuilder<U> {
    upstream: U,
    /// Out of memory alone if there are none.
    kinds: Vec<ErrorKind>,
    max_retries: u32,
}

impl<U> FailureCallbackResourceAdaptorBuilder<U> {
    /// The kinds of error that the callback is for; [`OutOfMemory`](ErrorKind::OutOfMemory) if this
    /// is never called. Errors of other kinds go to the caller at once. A further call adds to the
    /// kinds.
    ///
    /// RMM's adaptor takes a type of exception and catches what is derived from it, too. Its
    /// `bad_alloc`, which `out_of_memory` is derived from, is
    /// `[ErrorKind::OutOfMemory, ErrorKind::Driver]`.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::FailureCallbackResourceAdaptor;
    /// use rmm_core::{ErrorKind, SyncResource};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # let machine = rmm_sim::Machine::builder().memory(1 << 20).build();
    /// # let _entered = machine.enter();
    /// let resource = FailureCallbackResourceAdaptor::builder(CudaMemoryResource::new())
    ///     .on([ErrorKind::OutOfMemory, ErrorKind::Driver]) // RMM's bad_alloc
    ///     .build(|failure| {
    ///         println!("{}", failure.error);
    ///         false
    ///     });
    /// assert!(resource.allocate_sync(Layout::new::<[u8; 2 << 20]>()).unwrap_err().is_out_of_memory());
    /// ```
    #[doc(alias = "ExceptionType")]
    pub fn on(mut self, kinds: impl IntoIterator<Item = ErrorKind>) -> Self {
        self.kinds.extend(kinds);
        self
    }

    /// How often a request is tried again at most; 16 by default. After that the callback is not
    /// asked.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Makes the resource. The callback says whether to try again.
    #[doc(alias = "failure_callback_t")]
    pub fn build(
        self,
        callback: impl Fn(&FailedAllocation<'_>) -> bool + Send + Sync + 'static,
    ) -> FailureCallbackResourceAdaptor<U> {
        let Self { upstream, mut kinds, max_retries } = self;
        if kinds.is_empty() {
            kinds.push(ErrorKind::OutOfMemory);
        }
        let retry = Retry { kinds, max_retries, callback: Box::new(callback) };
        FailureCallbackResourceAdaptor::over(upstream, retry)
    }
}

impl<U> FailureCallbackResourceAdaptor<U> {
    /// Calls back for [`OutOfMemory`](ErrorKind::OutOfMemory). The callback says whether to try
    /// again.
    pub fn new(
        upstream: U,
        callback: impl Fn(&FailedAllocation<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::builder(upstream).build(callback)
    }

    /// Options for one over `upstream`.
    pub fn builder(upstream: U) -> FailureCallbackResourceAdaptorBuilder<U> {
        FailureCallbackResourceAdaptorBuilder { upstream, kinds: Vec::new(), max_retries: 16 }
    }
}

impl Retry {
    #[cold]
    fn retry(
        &self,
        below: impl Below,
        layout: Layout,
        mut error: Error,
    ) -> Result<DevicePtr, Error> {
        let mut attempt = NonZeroU32::MIN;
        while self.kinds.contains(&error.kind()) && attempt.get() <= self.max_retries {
            let stream = below.stream().map(StreamRef::id);
            if !(self.callback)(&FailedAllocation { layout, stream, attempt, error: &error }) {
                break;
            }
            error = match below.allocate(layout) {
                Ok(pointer) => return Ok(pointer),
                Err(error) => error,
            };
            attempt = attempt.saturating_add(1);
        }
        Err(error)
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kinds, max_retries, callback: _ } = self;
        let mut fields = f.debug_struct("Retry");
        fields.field("kinds", kinds).field("max_retries", max_retries).finish_non_exhaustive()
    }
}

// SAFETY: every call goes to the upstream as it is; a request that failed handed nothing out.
unsafe impl Layer for Retry {
    const NAME: &'static str = "failure-callback";

    #[inline]
    fn allocate(&self, below: impl Below, layout: Layout) -> Result<DevicePtr, Error> {
        below.allocate(layout).or_else(|error| self.retry(below, layout, error))
    }

    #[inline]
    unsafe fn deallocate(&self, below: impl Below, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { below.deallocate(pointer, layout) }
    }

    fn tell(&self, description: &mut Description) {
        description
            .text(
                "on",
                self.kinds.iter().map(|kind| format!("{kind:?}")).collect::<Vec<_>>().join(", "),
            )
            .count("max retries", self.max_retries.into());
    }
}
