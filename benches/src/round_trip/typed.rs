//! The round trip by the containers.

use rmm_containers::DeviceUVector;

use super::route::Route;
use crate::outcome::Outcome;

pub(super) fn go(route: &mut Route, summand: u32) -> Outcome {
    let mut taken;
    let vector = if let Some(vector) = &mut route.vector {
        vector
    } else {
        taken = DeviceUVector::uninit_in(route.source.len(), &route.stream, &route.pool)?;
        &mut taken
    };
    vector.copy_from(route.source.device_slice())?;
    let used = vector.use_on_mut(&route.stream)?;
    // SAFETY: the vector has `route.words` words, and its uses on this stream are in order.
    unsafe { route.kernels.add(used.stream(), used.as_ptr(), route.words, summand) }?;
    vector.copy_to_slice_on(route.target.as_mut_slice()?, &route.stream)?;
    Ok(())
}
