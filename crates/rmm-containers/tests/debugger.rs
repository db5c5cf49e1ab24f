//! What gdb shows of resources and containers, by the printers that the crates carry. Without gdb,
//! where it may not trace a process, or without types in the program, which `cargo xtask ci` builds
//! this test with, it prints what it skips.
#![cfg(target_os = "linux")]

use std::env;
use std::hint::black_box;
use std::process::Command;

use rmm_adaptors::{PoolMemoryResource, StatisticsResourceAdaptor};
use rmm_containers::{DeviceBuffer, DeviceUVector};
use rmm_core::{AnyResource, CudaStream};
use rmm_resources::CudaMemoryResource;

/// Where the debugger stops.
#[inline(never)]
fn stops_here(buffer: &DeviceBuffer, vector: &DeviceUVector<f32>, resource: &AnyResource) {
    black_box((buffer, vector, resource));
}

/// The program that is debugged.
#[test]
fn program() {
    let _machine = rmm_sim::enter();
    let stream = CudaStream::new().expect("a stream");
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool");
    let pool = AnyResource::new(pool);
    let mut buffer = DeviceBuffer::uninit_in(1000, &stream, &pool).expect("a buffer");
    buffer.resize(900).expect("it shrinks");
    // Of a type whose table of methods is made in this program.
    let memory = StatisticsResourceAdaptor::new(CudaMemoryResource::new());
    let vector = DeviceUVector::<f32>::zeroed_in(100, &stream, &memory).expect("a vector");
    stops_here(&buffer, &vector, &pool);
}

#[expect(clippy::print_stderr, reason = "who runs the tests should know what was skipped")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

#[test]
fn gdb_shows_what_is_known_of_them() {
    if Command::new("gdb").arg("--version").output().is_err() {
        return skipped("there is no gdb");
    }
    let program = env::current_exe().expect("it runs");
    let folder = program.parent().expect("it is in a folder").display();
    let mut command = Command::new("gdb");
    command.args(["-nx", "-batch", "-iex", &format!("add-auto-load-safe-path {folder}")]);
    for step in [
        "set breakpoint pending on",
        "break debugger::stops_here",
        "run",
        "print *buffer",
        "print *vector",
        "print *resource",
    ] {
        command.args(["-ex", step]);
    }
    command.arg("--args").arg(&program).args(["--exact", "program", "--test-threads=1"]);
    let output = command.output().expect("gdb starts");
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    if errors.contains("Operation not permitted") || errors.contains("ptrace") {
        return skipped("gdb may not trace a process here");
    }
    if errors.contains("No symbol \"vector\"") {
        return skipped(
            "the program has no types: --config \"profile.dev.package.rmm-containers.debug='full'\"",
        );
    }
    let shown: Vec<&str> = text.lines().filter(|line| line.starts_with('$')).collect();
    let [buffer, vector, resource] = &shown[..] else { panic!("{text}\n{errors}") };
    let pool = "AnyResource(rmm_adaptors::suballocators::pool";
    assert!(buffer.contains("DeviceBuffer: 900 of 1000 bytes at 0x"), "{buffer}");
    assert!(buffer.contains(pool), "{buffer}");
    assert!(vector.contains("DeviceUVector<f32>: 100 elements, 400 bytes at 0x"), "{vector}");
    let adaptor = "AnyResource(rmm_adaptors::adaptors::statistics::StatisticsResourceAdaptor<";
    assert!(vector.contains(adaptor), "{vector}");
    assert!(resource.contains(pool), "{resource}");
}
