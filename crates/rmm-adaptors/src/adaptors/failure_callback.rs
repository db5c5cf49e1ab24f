//! Retries of failed allocations, on the decision of a callback.

use std::alloc::Layout;
use std::fmt;
use std::num::NonZeroU32;

use rmm_core::adaptor_support::Calls;
use rmm_core::siblings::in_program;
use rmm_core::{Description, DevicePtr, Error, ErrorKind, StreamId, StreamRef};

use super::layer::{Layer, handle};

handle! {
    /// Calls a callback when an allocation fails, and retries if the callback returns `true`: for
    /// example, because it has freed memory.
    ///
    /// The callback is called for [`OutOfMemory`](ErrorKind::OutOfMemory) unless other kinds are
    /// [chosen](FailureCallbackResourceAdaptorBuilder::on), with the number of the attempt and its
    /// error. A request is retried at most [16
    /// times](FailureCallbackResourceAdaptorBuilder::max_retries) by default. No lock is held
    /// during the callback, so it may use the resource itself. If it panics, the panic propagates
    /// from the allocation; no memory leaks.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use std::sync::Mutex;
    /// use rmm_adaptors::{FailureCallbackResourceAdaptor, LimitingResourceAdaptor};
    /// use rmm_core::{DevicePtr, SynchronousResource};
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
    /// let block = resource.allocate_sync(layout)?; // the memory that the callback freed
    /// # // SAFETY: allocated above with this layout, and not used.
    /// # unsafe { resource.deallocate_sync(block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rmm::mr::failure_callback_resource_adaptor")]
    FailureCallbackResourceAdaptor(Retry)
}

/// A failed allocation, as passed to the callback of a [`FailureCallbackResourceAdaptor`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FailedAllocation<'a> {
    /// The layout that was requested.
    pub layout: Layout,
    /// The stream of the request; `None` for a synchronous call.
    pub stream: Option<StreamId>,
    /// The number of attempts so far, this one included.
    pub attempt: NonZeroU32,
    /// The error of this attempt.
    pub error: &'a Error,
}

type Callback = Box<dyn Fn(&FailedAllocation<'_>) -> bool + Send + Sync>;

struct Retry {
    kinds: Vec<ErrorKind>,
    max_retries: u32,
    callback: Callback,
}

/// Options for a [`FailureCallbackResourceAdaptor`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct FailureCallbackResourceAdaptorBuilder<U> {
    upstream: U,
    /// Empty means out of memory only.
    kinds: Vec<ErrorKind>,
    max_retries: u32,
}

impl<U> FailureCallbackResourceAdaptorBuilder<U> {
    /// Calls back for errors of these kinds; the default is [`OutOfMemory`](ErrorKind::OutOfMemory)
    /// only. Errors of other kinds are returned to the caller at once. Calls accumulate.
    ///
    /// RMM's adaptor takes an exception type and also catches types derived from it. Its
    /// `bad_alloc`, the base of `out_of_memory`, corresponds to `[ErrorKind::OutOfMemory,
    /// ErrorKind::Driver]`.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::FailureCallbackResourceAdaptor;
    /// use rmm_core::{ErrorKind, SynchronousResource};
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

    /// Upper bound on the retries of one request; 16 by default. Once it is reached, the error is
    /// returned without calling the callback.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Builds the resource. The callback returns whether to retry.
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
    /// Calls back for [`OutOfMemory`](ErrorKind::OutOfMemory). The callback returns whether to
    /// retry.
    pub fn new(
        upstream: U,
        callback: impl Fn(&FailedAllocation<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::builder(upstream).build(callback)
    }

    /// Options for an adaptor over `upstream`.
    pub fn builder(upstream: U) -> FailureCallbackResourceAdaptorBuilder<U> {
        FailureCallbackResourceAdaptorBuilder { upstream, kinds: Vec::new(), max_retries: 16 }
    }
}

impl Retry {
    #[cold]
    fn retry(
        &self,
        upstream: &impl Calls,
        layout: Layout,
        mut error: Error,
    ) -> Result<DevicePtr, Error> {
        let mut attempt = NonZeroU32::MIN;
        while self.kinds.contains(&error.kind()) && attempt.get() <= self.max_retries {
            let stream = upstream.stream().map(StreamRef::id);
            let failed = FailedAllocation { layout, stream, attempt, error: &error };
            if !in_program(|| (self.callback)(&failed)) {
                break;
            }
            error = match upstream.allocate(layout) {
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

// SAFETY: every call goes to the upstream unchanged; a failed attempt allocated nothing.
unsafe impl Layer for Retry {
    const NAME: &'static str = "failure-callback";

    #[inline]
    fn allocate(&self, upstream: &impl Calls, layout: Layout) -> Result<DevicePtr, Error> {
        upstream.allocate(layout).or_else(|error| self.retry(upstream, layout, error))
    }

    #[inline]
    unsafe fn deallocate(&self, upstream: &impl Calls, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { upstream.deallocate(pointer, layout) }
    }

    fn describe(&self, description: &mut Description) {
        description
            .text(
                "on",
                self.kinds.iter().map(|kind| format!("{kind:?}")).collect::<Vec<_>>().join(", "),
            )
            .count("max retries", self.max_retries.into());
    }
}
