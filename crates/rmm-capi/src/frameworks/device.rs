//! The devices that a framework uses.

use std::ffi::c_int;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use rmm_core::sys::{CuStream, CuUuid};
use rmm_core::{AnyResource, CudaStream, DeviceGuard, StreamFlags, fork, per_device};
use rmm_spec::ResourceSpec;

use crate::handle::failure::{ErrorFigures, Failure};
use crate::handle::status::RMM_RS_OUT_OF_MEMORY;
use crate::streams;

/// What a framework gets by default: frameworks pass tensors to other processes by legacy IPC.
const DEFAULT: &str = "pool(cuda)";

/// As many devices as the driver can have, and more.
const MOST: usize = 256;

static DEVICES: [OnceLock<Device>; MOST] = [const { OnceLock::new() }; MOST];

/// Held while a device is looked up first, or gets its first resource.
static MAKING: Mutex<()> = Mutex::new(());

/// A device that a framework uses.
#[derive(Debug)]
pub(crate) struct Device {
    known: rmm_core::Device,
    /// By which the registry knows it.
    uuid: CuUuid,
    /// Bytes allocated, and the most of them.
    live: AtomicU64,
    limit: AtomicU64,
    /// Whether there are other devices.
    has_others: bool,
    /// A stream that waits for those that used a block, and does no work. Made when it is needed.
    gathering: Mutex<Option<CudaStream>>,
}

/// The device with this ordinal.
#[inline]
pub(crate) fn of(ordinal: c_int) -> Result<&'static Device, Failure> {
    let slot = usize::try_from(ordinal).ok().and_then(|ordinal| DEVICES.get(ordinal));
    match slot.and_then(OnceLock::get) {
        Some(device) => Ok(device),
        None => make(ordinal),
    }
}

/// The devices that were used.
pub(crate) fn all() -> impl Iterator<Item = &'static Device> {
    DEVICES.iter().filter_map(OnceLock::get)
}

#[cold]
fn make(ordinal: c_int) -> Result<&'static Device, Failure> {
    let number = usize::try_from(ordinal).ok();
    let slot = number.and_then(|ordinal| Some((ordinal, DEVICES.get(ordinal)?)));
    let (ordinal, slot) = slot.ok_or_else(|| Failure::invalid(format!("no device {ordinal}")))?;
    let _making = fork::lock(&MAKING);
    if let Some(device) = slot.get() {
        return Ok(device);
    }
    let known = rmm_core::Device::new(ordinal)?;
    let uuid = known.uuid()?;
    let (live, limit) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let has_others = rmm_core::Device::count()? > 1;
    let gathering = Mutex::new(None);
    Ok(slot.get_or_init(|| Device { known, uuid, live, limit, has_others, gathering }))
}

/// Bytes that count as allocated until this is dropped, or for good.
#[must_use]
pub(crate) struct Charge<'a> {
    device: &'a Device,
    bytes: u64,
}

impl Charge<'_> {
    /// The allocation succeeded.
    pub(crate) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.device.discharge(self.bytes);
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}", self.known.ordinal())
    }
}

impl Device {
    pub(crate) fn has_ordinal(&self, ordinal: c_int) -> bool {
        usize::try_from(ordinal) == Ok(self.known.ordinal())
    }

    /// The device's current resource. One for which none was set gets what the environment says.
    #[inline]
    pub(crate) fn resource(&self) -> Result<AnyResource<()>, Failure> {
        self.current().map_or_else(|| self.make_resource(), Ok)
    }

    /// The device's current resource, if it has one.
    #[inline]
    pub(crate) fn current(&self) -> Option<AnyResource<()>> {
        per_device::find(self.uuid).map(AnyResource::narrow)
    }

    #[cold]
    fn make_resource(&self) -> Result<AnyResource<()>, Failure> {
        let _making = fork::lock(&MAKING);
        let _current = self.known.make_current()?;
        let spec = ResourceSpec::from_environment();
        let spec = spec.map_err(|error| Failure::invalid(error.to_string()))?;
        let spec = match spec {
            Some(spec) => spec,
            None => DEFAULT
                .parse()
                .map_err(|error: rmm_spec::SpecError| Failure::refused(error.to_string()))?,
        };
        // If that fails the next allocation tries again.
        let (found, _) = per_device::get_with_handle(self.known, || spec.build())?;
        Ok(found.narrow())
    }

    /// Counts bytes of an allocation.
    ///
    /// # Errors
    /// If they are beyond the limit.
    #[inline]
    pub(crate) fn charge(&self, bytes: u64) -> Result<Charge<'_>, Failure> {
        // The count protects no other memory.
        let limit = self.limit.load(Ordering::Relaxed);
        let fits = |live: u64| live.checked_add(bytes).filter(|&sum| sum <= limit);
        // Only if it fits: a request that does not must not refuse another thread's that does.
        let counted = self.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        if let Err(before) = counted {
            let text = format!(
                "out of memory: {bytes} bytes, with {before} allocated, are more than the {limit} \
                 that the memory fraction allows"
            );
            let (requested, live) = (Some(bytes), Some(before));
            let figures =
                ErrorFigures { requested, live, limit: Some(limit), ..ErrorFigures::default() };
            return Err(Failure {
                figures: Box::new(figures),
                ..Failure::plain(RMM_RS_OUT_OF_MEMORY, text)
            });
        }
        Ok(Charge { device: self, bytes })
    }

    #[inline]
    pub(crate) fn discharge(&self, bytes: u64) {
        let _ignored = self.live.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Sets the limit to a fraction, from 0 to 1, of the device's memory.
    pub(crate) fn limit_to(&self, fraction: f64) -> Result<(), Failure> {
        let total = self.known.total_memory()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a fraction of a number below 2^53, rounded down"
        )]
        let bytes = (total as f64 * fraction) as u64;
        self.limit.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the device current, if another is: resources give memory of the current device, and
    /// handles of default streams mean those of the current device.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Option<DeviceGuard>, Failure> {
        if !self.has_others {
            return Ok(None);
        }
        let is_current = rmm_core::Device::current().is_ok_and(|current| current == self.known);
        if is_current { Ok(None) } else { Ok(Some(self.known.make_current()?)) }
    }

    /// A stream that comes after the work of all these, none of which waits.
    ///
    /// # Errors
    /// If one of them is captured: the memory belongs to the graph, and a wait for the stream would
    /// make the result part of the capture.
    ///
    /// # Safety
    /// The handles name streams that are never destroyed. The device is current.
    pub(crate) unsafe fn gather(
        &self,
        last: CuStream,
        others: &[CuStream],
    ) -> Result<CudaStream, Failure> {
        let gathering = {
            let mut slot = self.lock_gathering();
            if let Some(stream) = &*slot {
                stream.clone()
            } else {
                let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
                slot.insert(stream).clone()
            }
        };
        let all = || others.iter().chain([&last]).copied();
        for handle in all() {
            let is_capturing = |used: rmm_core::StreamRef<'_>| used.is_capturing();
            // SAFETY: the caller's contract.
            if unsafe { streams::with(handle, || true, is_capturing) }?? {
                return Err(Failure::refused(
                    "a stream that used the memory is captured: it stays allocated for the graph",
                ));
            }
        }
        for handle in all() {
            let wait = |used: rmm_core::StreamRef<'_>| gathering.wait_for(used);
            // SAFETY: the caller's contract.
            unsafe { streams::with(handle, || true, wait) }??;
        }
        Ok(gathering)
    }

    fn lock_gathering(&self) -> MutexGuard<'_, Option<CudaStream>> {
        fork::lock(&self.gathering)
    }
}
