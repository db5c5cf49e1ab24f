//! Devices by their UUID, which is the same in all processes, unlike their number.

use rmm_core::{Device, Error};

/// The UUID of a device as `nvidia-smi -L` prints it.
pub(crate) fn uuid_of(device: Device) -> Result<String, Error> {
    let hex = format!("{:032x}", u128::from_be_bytes(device.uuid()?.bytes));
    let part = |from, to| hex.get(from..to).unwrap_or_default();
    let (a, b, c) = (part(0, 8), part(8, 12), part(12, 16));
    Ok(format!("GPU-{a}-{b}-{c}-{}-{}", part(16, 20), part(20, 32)))
}

/// The device of a UUID, if this process may use it.
pub(crate) fn device_of(uuid: &str) -> Result<Device, Error> {
    for device in Device::all()? {
        if uuid_of(device)? == uuid {
            return Ok(device);
        }
    }
    let message = format!("the memory is of {uuid}, which is no device of this process");
    Err(Error::unsupported("lease", message))
}
