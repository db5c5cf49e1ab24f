//! Which devices may use a resource's memory.

#![forbid(unsafe_code)]

use rmm_sys::CuDevice;

use crate::{Device, Error, Introspect as _, Structure, SynchronousResource};

/// The devices whose work may use all memory of a resource: a [value](crate::Query::value) of
/// resources whose memory is that of one device, whichever is current.
#[derive(Clone, Debug)]
pub struct AccessibleFrom(pub Vec<CuDevice>);

/// Fails if work of `device` may not use the memory of a resource, or of one below it.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) in the name of who asks.
pub fn check_access(
    name: &'static str,
    resource: &(dyn SynchronousResource + 'static),
    device: Device,
) -> Result<(), Error> {
    if let Some(AccessibleFrom(devices)) = resource.try_value()
        && !devices.contains(&device.as_raw())
    {
        let message = format!(
            "device {} is current, and may not use the memory of `{}`: make that memory's device \
             current, or grant it access before",
            device.ordinal(),
            resource.name()
        );
        return Err(Error::invalid_argument(name, message));
    }
    let structure = Structure::of(resource);
    structure.upstreams().try_for_each(|upstream| check_access(name, upstream, device))
}
