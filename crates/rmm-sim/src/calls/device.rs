//! Initialisation and devices.

use std::ffi::{c_char, c_int, c_uint};

use rmm_sys::{CuDevice, CuDeviceAttribute, CuResult, CuUuid};

use crate::calls::call::driver_calls;
use crate::engine::current;

driver_calls! {
    fn cuInit(flags: c_uint) by [] |session| {
        if flags != 0 {
            return Err(CuResult::INVALID_VALUE);
        }
        if session.devices.is_empty() {
            return Err(CuResult::NO_DEVICE);
        }
        current::initialise();
        Ok(())
    }

    fn cuDriverGetVersion(version: *mut c_int) by [] |session| {
        version.put(session.driver_version)
    }

    fn cuDeviceGetCount(count: *mut c_int) by [] |session| {
        count.put(c_int::try_from(session.devices.len()).expect("fewer than 2^31 devices"))
    }

    fn cuDeviceGet(device: *mut CuDevice, ordinal: c_int) by [] |session| {
        session.device(ordinal)?;
        device.put(CuDevice(ordinal))
    }

    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: CuDevice) by [] |session| {
        let device = session.device(device.0)?;
        let length = usize::try_from(length).map_err(|_| CuResult::INVALID_VALUE)?;
        name.put_text(&session.devices[device].name, length)
    }

    fn cuDeviceGetUuid_v2(uuid: *mut CuUuid, device: CuDevice) by [] |session| {
        let device = session.device(device.0)?;
        let mut bytes = *b"rmm-sim MMMMDDDD";
        bytes[8..12].copy_from_slice(&session.machine_id().to_be_bytes());
        bytes[12..].copy_from_slice(&u32::try_from(device).expect("fewer than 2^32 devices").to_be_bytes());
        uuid.put(CuUuid { bytes })
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CuDevice) by [] |session| {
        let device = session.device(device.0)?;
        bytes.put(session.devices[device].total)
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: CuDeviceAttribute, device: CuDevice) by [] |session| {
        let device = session.device(device.0)?;
        value.put(session.devices[device].attribute(attribute).ok_or(CuResult::INVALID_VALUE)?)
    }

    fn cuDeviceCanAccessPeer(can: *mut c_int, device: CuDevice, peer: CuDevice) by [] |session| {
        let (device, peer) = (session.device(device.0)?, session.device(peer.0)?);
        can.put(c_int::from(device != peer))
    }
}
