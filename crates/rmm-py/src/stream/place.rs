//! Which stream a default stream's handle means for a given buffer.
//!
//! The handle of a default stream names different streams at different calls:
//!
//! | handle | the stream that it names |
//! |---|---|
//! | 0, 1 | the legacy default stream of the current device |
//! | 2 | the per-thread default stream of the current device and the calling thread |
//!
//! A buffer may be used or freed on another thread than the one that made it, or while another
//! device is current. To reach the stream that the buffer was made on:
//!
//! - The buffer's device is made current, as RMM does. That is the device that was current at the
//!   allocation, or, if it was not queried then, the device of the memory.
//! - A per-thread default stream cannot be named on another thread. The legacy default stream is
//!   used instead: it waits for the per-thread default streams of all threads of the device.

use pyo3::prelude::*;
use rmm_core::sys::{CuPointerAttribute, Driver};
use rmm_core::{Device, DeviceGuard, DevicePtr, Error, StreamId, StreamRef, check, current_driver};

use crate::interpreter::errors::of_call;
use crate::interpreter::fork;
use crate::stream::current_device;
use crate::stream::{self, Stream};

/// The device and thread that the stream handle of a buffer refers to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// The address of the memory; 0 if none is allocated yet.
    memory: u64,
    /// The device that was current at the allocation. `None` if the machine has one device, or if
    /// it was not queried.
    device: Option<i32>,
    /// Whether the buffer is on a default stream.
    is_default: bool,
    /// The id of the per-thread default stream that the buffer is on; `None` for other streams.
    per_thread: Option<StreamId>,
}

impl Place {
    /// The place of memory that is about to be allocated on a stream of this thread, on `device`,
    /// or on the current device if that is `None`.
    #[inline]
    pub(crate) fn of(stream: &Stream, device: Option<i32>) -> Self {
        let per_thread = stream.is_per_thread().then(|| StreamRef::per_thread().id());
        let is_default = stream.is_default_stream() || stream.is_per_thread();
        Self { memory: 0, device, is_default, per_thread }
    }

    /// The place with the address of the memory that was allocated. Queries the current device if
    /// the stream is a default stream, unless the block came from a cache (`was_cached`).
    #[inline]
    pub(crate) fn with_memory(self, py: Python<'_>, memory: u64, was_cached: bool) -> Self {
        let is_asked = self.is_default && !was_cached && self.device.is_none();
        let device = if is_asked { current_device::current_of_several(py) } else { self.device };
        Self { memory, device, ..self }
    }

    /// The place with another address on the same device.
    pub(crate) fn moved_to(self, memory: u64) -> Self {
        Self { memory, ..self }
    }

    /// The stream, with this place to interpret its handle.
    #[inline]
    pub(crate) fn at(self, stream: &Stream) -> At<'_> {
        At { stream, place: self }
    }

    /// A stream of this thread, with a place for this memory.
    ///
    /// If the memory is on another thread's per-thread default stream and `stream` is this
    /// thread's, both have the same handle, so callers see one stream. This function then makes the
    /// new one wait for the other. Callers order all other streams.
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

    /// The device's number; `None` if the machine has one device or the number is not known. May
    /// query the driver for the device of the memory.
    pub(crate) fn device(self) -> Option<i32> {
        if !current_device::has_several() {
            return None;
        }
        // The driver knows no device for pageable memory; the current device is used for it.
        self.device.or_else(|| (self.memory != 0).then(|| device_of(self.memory).ok()).flatten())
    }

    /// Whether the buffer is on the per-thread default stream of another thread.
    #[inline]
    fn is_of_another_thread(self) -> bool {
        self.per_thread.is_some_and(|own| own != StreamRef::per_thread().id())
    }

    /// Makes the device current until the guard is dropped. Does nothing if it is current.
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

/// Queries the driver for the device of an address.
///
/// # Errors
/// If the driver does not know the address.
pub(crate) fn device_of(memory: u64) -> Result<i32, Error> {
    // The query may wait inside the driver for a call of another thread, such as `cuMemHostAlloc`.
    rmm_core::wait::about_to_wait();
    // Most threads have a context. If this one has none, the second attempt makes one current.
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

/// A stream, and the place that determines which stream its handle names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    stream: &'a Stream,
    place: Place,
}

impl<'a> From<&'a Stream> for At<'a> {
    /// The stream as the calling thread and the current device name it.
    fn from(stream: &'a Stream) -> Self {
        Place::default().at(stream)
    }
}

impl At<'_> {
    pub(crate) fn place(self) -> Place {
        self.place
    }

    /// Calls `act` with the stream, while its device is current. For a per-thread default stream of
    /// another thread, `act` gets the legacy default stream, which is ordered after it.
    ///
    /// # Errors
    /// If the driver does not know the stream or the device. `act` is not called then.
    #[inline]
    pub(crate) fn with<R>(self, act: impl FnOnce(StreamRef<'_>) -> R) -> Result<R, Error> {
        let _current = self.place.enter()?;
        if self.place.is_of_another_thread() {
            return Ok(act(StreamRef::legacy()));
        }
        self.stream.with(act)
    }

    /// Calls `act`, which frees memory, as [`with`](Self::with) does, but makes the device current
    /// only if the stream is a default stream: other handles name the same stream everywhere.
    ///
    /// # Errors
    /// The errors of [`with`](Self::with).
    #[inline]
    pub(crate) fn free_with<R>(self, act: impl FnOnce(StreamRef<'_>) -> R) -> Result<R, Error> {
        if self.place.is_default { self.with(act) } else { self.stream.with(act) }
    }

    /// Waits on the host for the stream, with the interpreter's lock released.
    pub(crate) fn wait(self, py: Python<'_>) -> PyResult<()> {
        fork::check()?;
        let waited = py.detach(|| self.with(stream::synchronize));
        waited.and_then(|waited| waited).map_err(|error| of_call(py, &error))
    }
}
