//! The round trip by driver calls, as an expert would write it.

use rmm_sys::CuDevicePtr;

use super::route::Route;
use crate::outcome::Outcome;

pub(super) fn go(route: &mut Route, summand: u32) -> Outcome {
    let (driver, stream) = (route.driver, route.stream.as_raw());
    let enqueued = enqueue(route, summand);
    // Whatever failed: the copies that are enqueued use memory that may be freed next.
    // SAFETY: the stream lives.
    let done = unsafe { driver.cuStreamSynchronize(stream) }.result();
    enqueued?;
    Ok(done?)
}

/// The caller waits for the stream before it reads the target.
fn enqueue(route: &Route, summand: u32) -> Outcome {
    if let Some(vector) = route.places.vector {
        return through(route, vector, summand);
    }
    let (driver, stream, bytes) = (route.driver, route.stream.as_raw(), route.places.bytes);
    let mut memory = CuDevicePtr::NULL;
    // SAFETY: `memory` may be written to, and the stream lives.
    unsafe { driver.cuMemAllocAsync(&raw mut memory, bytes, stream) }.result()?;
    let enqueued = through(route, memory, summand);
    // SAFETY: allocated above; its uses are on this stream.
    unsafe { driver.cuMemFreeAsync(memory, stream) }.result()?;
    enqueued
}

fn through(route: &Route, memory: CuDevicePtr, summand: u32) -> Outcome {
    let (places, driver, stream) = (&route.places, route.driver, route.stream.as_raw());
    // SAFETY: both have `places.bytes` bytes, and the source stays as it is until the stream has
    // been waited for.
    unsafe { driver.cuMemcpyHtoDAsync_v2(memory, places.source, places.bytes, stream) }.result()?;
    // SAFETY: the memory has `route.words` words, which are used on this stream only.
    unsafe { route.kernels.add(route.stream.as_stream_ref(), memory, route.words, summand) }?;
    // SAFETY: both have `places.bytes` bytes; the target is not read before the stream has been
    // waited for.
    unsafe { driver.cuMemcpyDtoHAsync_v2(places.target, memory, places.bytes, stream) }.result()?;
    Ok(())
}
