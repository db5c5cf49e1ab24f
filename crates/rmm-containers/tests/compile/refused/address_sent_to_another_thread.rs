//! The address for a stream is sent to another thread, where a default stream is another one.

use rmm_containers::DeviceUVector;
use rmm_core::{Error, StreamRef};

fn elsewhere(vector: &DeviceUVector<u32>) -> Result<(), Error> {
    let used = vector.use_on(StreamRef::per_thread())?;
    std::thread::scope(|scope| {
        scope.spawn(move || used.as_ptr());
    });
    Ok(())
}

fn main() {
    let _compiled = elsewhere as fn(_) -> _;
}
