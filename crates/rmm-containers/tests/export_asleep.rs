//! Exports beside a pool that falls asleep and wakes. It is the only test of its process: an export
//! looks at the memory of all machines.
#![cfg(target_os = "linux")]

use rmm_adaptors::{Contents, PoolMemoryResource};
use rmm_containers::{DeviceBuffer, export};
use rmm_core::CudaStream;
use rmm_resources::{ExportHandleTypes, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};

#[test]
fn memory_is_found_in_use_or_asleep() {
    let machine = Machine::builder().schedule(Schedule::Eager).enter();
    let types = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
    let pages = VirtualMemoryResource::builder().export(types).build().expect("it can");
    let pool = PoolMemoryResource::builder(pages).build().expect("there is memory");
    let stream = CudaStream::new().expect("a stream");
    let buffer = DeviceBuffer::zeroed_in(100, &stream, &pool).expect("there is memory");
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let _machine = machine.enter();
            for _ in 0..400 {
                // SAFETY: no work uses the memory.
                unsafe { pool.sleep(Contents::ToHost) }.expect("no work uses it");
                pool.wake().expect("there is memory");
            }
        });
        while !sleeper.is_finished() {
            if let Err(error) = export(&buffer) {
                assert!(error.is_not_ready() && error.to_string().contains("sleeps"), "{error}");
            }
        }
    });
    export(&buffer).expect("it is awake");
    machine.assert_no_violations();
}
