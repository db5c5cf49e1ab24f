//! Programs that exit with memory still allocated: in the registry, in a static, on another thread.

#[cfg(unix)]
#[path = "exit/kinds.rs"]
mod kinds;
#[cfg(unix)]
#[path = "exit/owners.rs"]
mod owners;
#[cfg(unix)]
#[path = "exit/suballocators.rs"]
mod suballocators;

use std::process::Command;
use std::sync::OnceLock;

use rmm_adaptors::PoolMemoryResource;
use rmm_conformance::{Environment, Place};
use rmm_containers::DeviceBuffer;
use rmm_core::{CudaStream, Error};
use rmm_resources::{CudaMemoryResource, set_current_device_resource};

/// Set for the child: how it leaves.
const CHILD: &str = "RMM_TEST_LEAVE";

static KEPT: OnceLock<DeviceBuffer> = OnceLock::new();

thread_local! {
    static OWN: OnceLock<DeviceBuffer> = const { OnceLock::new() };
}

fn hold_memory() -> Result<(), Error> {
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    set_current_device_resource(&pool)?;
    let stream = CudaStream::new()?;
    let mut buffer = DeviceBuffer::uninit_in(1 << 20, &stream, &pool)?;
    buffer.fill(1)?;
    let other = buffer.try_clone_on(&stream)?;
    let _first = KEPT.set(buffer);
    OWN.with(|own| own.set(other).is_ok());
    Ok(())
}

#[test]
fn a_program_may_leave_with_memory_in_its_hands() {
    let places = Place::selected().unwrap_or_else(|failure| panic!("{failure}"));
    if let Ok(way) = std::env::var(CHILD) {
        let _environment =
            Environment::open(places[0]).unwrap_or_else(|failure| panic!("{failure}"));
        hold_memory().expect("memory");
        match way.as_str() {
            "exit" => std::process::exit(0),
            "panic" => panic!("as it should"),
            _ => return,
        }
    }
    for (way, status) in [("return", 0), ("exit", 0), ("panic", 101)] {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "exit::a_program_may_leave_with_memory_in_its_hands",
                "--test-threads=1",
            ])
            .env(CHILD, way)
            .output()
            .expect("it starts");
        assert_eq!(
            output.status.code(),
            Some(status),
            "{way}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
