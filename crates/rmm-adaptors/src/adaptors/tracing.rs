//! Allocations and frees as `tracing` events.

use std::fmt;

use rmm_core::{DevicePtr, Error, StreamRef, wait};
use tracing::level_filters::LevelFilter;
use tracing::{Level, event, event_enabled};

use super::layer::handle;
use super::observer::{AllocatedAs, Call, Observer};

/// The target of allocations.
const ALLOCATE: &str = "rmm::allocate";
/// The target of frees.
const FREE: &str = "rmm::free";

handle! {
    /// Emits a [`tracing`] event for every allocation and free of another resource. Needs the
    /// feature `tracing`.
    ///
    /// | target | level | what |
    /// |---|---|---|
    /// | `rmm::allocate` | trace | event `allocate` |
    /// | `rmm::allocate` | warn | event `allocate failure` |
    /// | `rmm::free` | trace | event `free`, before it happens |
    /// | `rmm::grow` | debug | span `grow` around a pool's request to its upstream |
    /// | `rmm::wait` | debug | span `wait for the device`, event `streams wait for others` |
    ///
    /// The fields are `resource`, `bytes`, `alignment`, `stream` and `address` (`error` for a
    /// failure); of `grow` `resource`, `bytes` and, at its end, `is_granted`; of the waits
    /// `resource`, and `waits` of the event.
    ///
    /// The last two come from the pools, with this adaptor or without it. `resource` is the name of
    /// the upstream, `stream` its id, or `none` for synchronous calls. Without a subscriber, a call
    /// costs about a nanosecond more. A subscriber is never called while a lock of these crates is
    /// held, and must not panic.
    ///
    /// A layer that writes NVTX ranges shows the spans in Nsight Systems, and one that writes a
    /// Chrome trace, such as `tracing-chrome`, in Perfetto: each subscribes to the targets that
    /// begin with `rmm::`.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::TracingResourceAdaptor;
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let traced = TracingResourceAdaptor::new(CudaMemoryResource::new());
    /// let layout = Layout::from_size_align(1000, 256)?;
    /// let block = traced.allocate_sync(layout)?; // an event, if there is a subscriber
    /// # // SAFETY: allocated above with this layout, and not used.
    /// # unsafe { traced.deallocate_sync(block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    TracingResourceAdaptor(Tracing)
}

#[derive(Debug)]
struct Tracing {
    /// The name of the upstream.
    resource: &'static str,
}

impl<U: rmm_core::SynchronousResource> TracingResourceAdaptor<U> {
    /// Emits events for the calls to `upstream`.
    pub fn new(upstream: U) -> Self {
        let resource = upstream.name();
        Self::over(upstream, Tracing { resource })
    }
}

/// A stream as the value of a field.
struct Stream<'a>(Option<StreamRef<'a>>);

impl fmt::Display for Stream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(stream) => stream.id().fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// Whether a subscriber may want the events of calls that succeed: one load. To ask for the target
/// as well calls the subscriber, which may wait.
#[inline]
fn may_emit() -> bool {
    let may_emit = LevelFilter::current() >= LevelFilter::TRACE;
    if may_emit {
        wait::about_to_wait();
    }
    may_emit
}

impl Tracing {
    #[cold]
    fn emit_allocation(&self, pointer: DevicePtr, call: Call<'_>) {
        let (resource, bytes, alignment) = (self.resource, call.layout.size(), call.layout.align());
        let (stream, address) = (Stream(call.stream), format_args!("{:#x}", pointer.0));
        event!(
            name: "allocate", target: ALLOCATE, Level::TRACE,
            resource, bytes, alignment, %stream, %address, "allocate"
        );
    }

    #[cold]
    fn emit_free(&self, pointer: DevicePtr, call: Call<'_>) {
        let (resource, bytes, alignment) = (self.resource, call.layout.size(), call.layout.align());
        let (stream, address) = (Stream(call.stream), format_args!("{:#x}", pointer.0));
        event!(
            name: "free", target: FREE, Level::TRACE,
            resource, bytes, alignment, %stream, %address, "free"
        );
    }
}

impl Observer for Tracing {
    const NAME: &'static str = "tracing";

    #[inline]
    fn allocated(&self, pointer: DevicePtr, call: Call<'_>) -> Result<(), Error> {
        if may_emit() && event_enabled!(target: ALLOCATE, Level::TRACE) {
            self.emit_allocation(pointer, call);
        }
        Ok(())
    }

    #[cold]
    fn failed(&self, error: Error, call: Call<'_>) -> Error {
        wait::about_to_wait();
        let (resource, bytes, alignment) = (self.resource, call.layout.size(), call.layout.align());
        let stream = Stream(call.stream);
        event!(
            name: "allocate failure", target: ALLOCATE, Level::WARN,
            resource, bytes, alignment, %stream, %error, "allocate failure"
        );
        error
    }

    #[inline]
    fn freeing(&self, pointer: DevicePtr, call: Call<'_>) -> Option<AllocatedAs> {
        if may_emit() && event_enabled!(target: FREE, Level::TRACE) {
            self.emit_free(pointer, call);
        }
        None
    }
}
