//! The device's current resource.

use rmm_containers::DeviceUVector;
use rmm_core::{AnyResource, DeviceResource};
use rmm_resources::{current_device_resource, set_current_device_resource};

use crate::failure::ensure;
use crate::{CheckResult, Failure, Subject};

/// Puts the resource from before back.
struct Restore(AnyResource);

impl Drop for Restore {
    fn drop(&mut self) {
        // It fails only if the driver is gone, and then nothing uses the current resource.
        let _ignored = set_current_device_resource(&self.0);
    }
}

/// The current resource serves containers that name no resource, on every thread, until another
/// replaces it; replacing it returns it.
///
/// # Errors
/// What is wrong.
pub fn current_resource_serves_containers<R: DeviceResource>(
    subject: &Subject<'_, R>,
) -> CheckResult {
    let resource = AnyResource::of(subject.resource());
    let restore = Restore(set_current_device_resource(subject.resource())?);
    let vector = DeviceUVector::from_slice(&[1u32, 2, 3], subject.stream())?;
    let buffer = vector.into_buffer();
    ensure(*buffer.resource() == resource, || "not the current resource's memory".into())?;

    let device = subject.device();
    let elsewhere = std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let _current = device.make_current()?;
            current_device_resource()
        });
        asked.join()
    });
    let elsewhere = elsewhere.map_err(|_| Failure::new("asking on another thread panicked"))??;
    ensure(elsewhere == resource, || "another thread has another current resource".into())?;

    let replaced = set_current_device_resource(&restore.0)?;
    ensure(replaced == resource, || "the resource from before was not returned".into())?;
    ensure(current_device_resource()? == restore.0, || "the resource was not replaced".into())?;
    // What was allocated before keeps its resource.
    ensure(buffer.to_vec_on(subject.stream())?.len() == 12, || "the buffer is lost".into())
}
