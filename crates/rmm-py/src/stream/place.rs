//! The meaning of a default stream for the memory of a buffer.
//!
//! | handle | the stream that it names |
//! |---|---|
//! | 0, 1 | of the device that is current |
//! | 2 | of the device that is current, and of the calling thread |
//!
//! A buffer may be used or end on another thread than the one that made it, with another device
//! current. Its device is made current then, as RMM does: the one that was current when the memory
//! was allocated, or that of the memory where no call of the driver was made. A per-thread default
//! stream cannot be reached from other threads. The legacy default stream, which waits for those of
//! all threads of the device, takes its place there.

use pyo3::prelude::*;
use rmm_core::sys::{CuPointerAttribute, Driver};
use rmm_core::{Device, DeviceGuard, DevicePtr, Error, StreamId, StreamRef, check, current_driver};

use crate::interpreter::errors::of_call;
use crate::interpreter::fork;
use crate::stream::current_device;
use crate::stream::{self, Stream};

/// Where the memory of a buffer is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    memory: u64,
    /// The device that was current at the allocation, if there are several and it is known.
    device: Option<i32>,
    /// Whether the buffer is on a default stream.
    is_default: bool,
    /// The thread's default stream, if the buffer is on it.
    per_thread: Option<StreamId>,
}

impl Place {
    /// For a stream of this thread, and memory that is not allocated yet: on the current device, or
    /// on that of another place.
    #[inline]
    pub(crate) fn of(stream: &Stream, device: Option<i32>) -> Self {
        let per_thread = stream.is_per_thread().then(|| StreamRef::per_thread().id());
        let is_default = stream.is_default_stream() || stream.is_per_thread();
        Self { memory: 0, device, is_default, per_thread }
    }

    /// For memory that was allocated now, by a call that may have reached the driver, or from what
    /// was cached.
    #[inline]
    pub(crate) fn with_memory(self, py: Python<'_>, memory: u64, was_cached: bool) -> Self {
        let is_asked = self.is_default && !was_cached && self.device.is_none();
        let device = if is_asked { current_device::current_of_several(py) } else { self.device };
        Self { memory, device, ..self }
    }

    /// For a new address of the same device.
    pub(crate) fn moved_to(self, memory: u64) -> Self {
        Self { memory, ..self }
    }

    /// The stream as it is meant here.
    #[inline]
    pub(crate) fn at(self, stream: &Stream) -> At<'_> {
        At { stream, place: self }
    }

    /// A stream of this thread as it is meant for this memory. If both are per-thread default
    /// streams, of different threads, it comes after the other, since to the program they are one.
    /// Callers order all other streams.
    pub(crate) fn follow<'a>(self, py: Python<'_>, stream: &'a Stream) -> PyResult<At<'a>> {
        let device = py.detach(|| self.device());
        let here = Self { memory: self.memory, ..Self::of(stream, device) };
        if self.is_of_another_thread() && stream.is_per_thread() {
            fork::check()?;
            let wait = |stream: StreamRef<'_>| stream.wait_for(StreamRef::legacy());
            let ordered = py.detach(|| here.at(stream).with(wait));
            ordered.and_then(|ordered| ordered).map_err(|error| of_call(py, &error))?;
        }
        Ok(here.at(stream))
    }

    /// The device's number, if there are several and it is known. May call the driver.
    pub(crate) fn device(self) -> Option<i32> {
        if !current_device::has_several() {
            return None;
        }
        // The driver does not know pageable memory: then the device is the current one.
        self.device.or_else(|| (self.memory != 0).then(|| device_of(self.memory).ok()).flatten())
    }

    #[inline]
    fn is_of_another_thread(self) -> bool {
        self.per_thread.is_some_and(|own| own != StreamRef::per_thread().id())
    }

    /// Makes the device current, if another is.
    #[inline]
    fn enter(self) -> Result<Option<DeviceGuard>, Error> {
        if current_device::has_several() { self.enter_one_of_several() } else { Ok(None) }
    }

    #[cold]
    fn enter_one_of_several(self) -> Result<Option<DeviceGuard>, Error> {
        match self.device() {
            Some(device) if current_device::of_context() != Some(device) => {
                let ordinal = usize::try_from(device);
                let ordinal = ordinal.map_err(|_| Error::invalid_argument("device", "negative"))?;
                Device::new(ordinal)?.make_current().map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// The device of memory that the driver knows.
pub(crate) fn device_of(memory: u64) -> Result<i32, Error> {
    // The driver may make this wait for its calls on other threads, such as `cuMemHostAlloc`.
    rmm_core::wait::about_to_wait();
    // The thread mostly has a context.
    Driver::get()
        .map_err(Error::from)
        .and_then(|driver| device_by(driver, memory))
        .or_else(|_| device_by(current_driver()?, memory))
}

fn device_by(driver: &Driver, memory: u64) -> Result<i32, Error> {
    let mut ordinal = 0_i32;
    // SAFETY: the attribute is an `int`, and `ordinal` may be written to.
    let code = unsafe {
        driver.cuPointerGetAttribute(
            (&raw mut ordinal).cast(),
            CuPointerAttribute::DEVICE_ORDINAL,
            DevicePtr::new(memory),
        )
    };
    check("cuPointerGetAttribute", code).map(|()| ordinal)
}

/// A stream as it is meant at a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    stream: &'a Stream,
    place: Place,
}

impl<'a> From<&'a Stream> for At<'a> {
    /// Wherever the call is.
    fn from(stream: &'a Stream) -> Self {
        Place::default().at(stream)
    }
}

impl At<'_> {
    pub(crate) fn place(self) -> Place {
        self.place
    }

    /// Calls `act` with the stream, or with one that comes after its work, and the device current.
    ///
    /// # Errors
    /// If the driver does not know the stream, or the device; then `act` is not called.
    #[inline]
    pub(crate) fn with<R>(self, act: impl FnOnce(StreamRef<'_>) -> R) -> Result<R, Error> {
        let _current = self.place.enter()?;
        if self.place.is_of_another_thread() {
            return Ok(act(StreamRef::legacy()));
        }
        self.stream.with(act)
    }

    /// Calls `act`, which frees memory, with the stream, or with one that comes after its work. The
    /// device is current for a default stream only.
    ///
    /// # Errors
    /// The errors of [`with`](Self::with).
    #[inline]
    pub(crate) fn free_with<R>(self, act: impl FnOnce(StreamRef<'_>) -> R) -> Result<R, Error> {
        if self.place.is_default { self.with(act) } else { self.stream.with(act) }
    }

    /// Waits for the stream, without the interpreter's lock.
    pub(crate) fn wait(self, py: Python<'_>) -> PyResult<()> {
        fork::check()?;
        let waited = py.detach(|| self.with(stream::synchronize));
        waited.and_then(|waited| waited).map_err(|error| of_call(py, &error))
    }
}
