//! One resource for each device that the program uses.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rmm_core::sys::{CuContext, CuDevice, CuResult, Driver};
use rmm_core::{AnyResource, Introspect as _, fork, process_is_exiting};
use rmm_spec::ResourceSpec;

use crate::report;

/// What a program gets that says nothing: memory that legacy IPC can pass on, as the program may
/// want to.
const DEFAULT: &str = "pool(cuda)";

/// Identifies a resource in the process: a device has another one after a reset.
pub(crate) type Number = u64;

/// A device that has a resource.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) number: Number,
    pub(crate) resource: AnyResource,
    /// Whether the resource divides the memory that it has of the driver.
    pub(crate) divides: bool,
    handle: CuDevice,
    /// Its primary context, which is retained.
    context: CuContext,
}

/// Contexts whose requests are passed on.
static NOT_SERVED: Mutex<Vec<CuContext>> = Mutex::new(Vec::new());
/// The devices that have a resource, and how often the list has lost one.
static DEVICES: Mutex<Vec<Arc<Device>>> = Mutex::new(Vec::new());
static RESETS: AtomicU64 = AtomicU64::new(0);
static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The device that the thread used last, and how many resets there had been.
    static LAST: RefCell<Option<(u64, Arc<Device>)>> = const { RefCell::new(None) };
}

/// The device whose primary context is current; `None` if there is none that can serve.
pub(crate) fn current(driver: &Driver) -> Option<Arc<Device>> {
    let mut context = CuContext::NULL;
    // SAFETY: `context` may be written to.
    let code = unsafe { driver.cuCtxGetCurrent(&raw mut context) };
    if code != CuResult::SUCCESS || context.is_null() || process_is_exiting() {
        return None;
    }
    let resets = RESETS.load(Ordering::Acquire);
    let last = LAST.try_with(|last| {
        let last = last.borrow();
        let (then, device) = last.as_ref()?;
        (*then == resets && device.context == context).then(|| Arc::clone(device))
    });
    if let Some(device) = last.ok().flatten() {
        return Some(device);
    }
    if not_served().contains(&context) {
        return None;
    }
    let Some(device) = find_or_make(driver, context) else {
        not_served().push(context);
        return None;
    };
    let before = LAST.try_with(|last| last.replace(Some((resets, Arc::clone(&device)))));
    // A resource may be dropped here, which calls the driver.
    drop(before);
    Some(device)
}

/// The device with this number, unless it was reset.
pub(crate) fn with_number(number: Number) -> Option<Arc<Device>> {
    let resets = RESETS.load(Ordering::Acquire);
    let last = LAST.try_with(|last| {
        let last = last.borrow();
        let (then, device) = last.as_ref()?;
        (*then == resets && device.number == number).then(|| Arc::clone(device))
    });
    last.ok().flatten().or_else(|| devices().iter().find(|device| device.number == number).cloned())
}

/// Drops the resource of a device that is about to be reset.
/// Calls `forget` with its number before.
pub(crate) fn reset(handle: CuDevice, forget: impl FnOnce(Number)) {
    not_served().clear();
    let gone = {
        let mut devices = devices();
        let index = devices.iter().position(|device| device.handle == handle);
        RESETS.fetch_add(1, Ordering::AcqRel);
        index.map(|index| devices.swap_remove(index))
    };
    if let Some(device) = gone {
        forget(device.number);
    }
}

/// What each resource is made of, for the report.
fn descriptions() -> Vec<String> {
    devices().iter().map(|device| device.resource.describe().to_string()).collect()
}

fn not_served() -> MutexGuard<'static, Vec<CuContext>> {
    fork::lock(&NOT_SERVED)
}

fn devices() -> MutexGuard<'static, Vec<Arc<Device>>> {
    fork::lock(&DEVICES)
}

/// The device of a context, with a new resource if it has none.
#[cold]
fn find_or_make(driver: &Driver, context: CuContext) -> Option<Arc<Device>> {
    let mut devices = devices();
    if let Some(device) = devices.iter().find(|device| device.context == context) {
        return Some(Arc::clone(device));
    }
    let mut handle = CuDevice::INVALID;
    // SAFETY: `handle` may be written to.
    let code = unsafe { driver.cuCtxGetDevice(&raw mut handle) };
    if code != CuResult::SUCCESS {
        return None;
    }
    let mut primary = CuContext::NULL;
    // SAFETY: the device exists, and `primary` may be written to.
    let code = unsafe { driver.cuDevicePrimaryCtxRetain(&raw mut primary, handle) };
    if code != CuResult::SUCCESS {
        return None;
    }
    let resource = if primary == context { build() } else { None };
    let Some(resource) = resource else {
        // SAFETY: it was retained above. If the driver refuses, it is kept longer.
        let _ignored = unsafe { driver.cuDevicePrimaryCtxRelease_v2(handle) };
        return None;
    };
    report::register(descriptions);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let divides = resource.stack().any(|part| part.as_trimmable().is_some());
    let device = Arc::new(Device { number, resource, divides, handle, context });
    devices.push(Arc::clone(&device));
    Some(device)
}

/// The resource that the environment asks for, on the current device.
fn build() -> Option<AnyResource> {
    let spec = match ResourceSpec::from_environment() {
        Ok(Some(spec)) => spec,
        Ok(None) => DEFAULT.parse().ok()?,
        Err(error) => {
            report::complain(&format_args!("{error}"));
            return None;
        }
    };
    spec.build().inspect_err(|error| report::complain(&format_args!("{error}"))).ok()
}
