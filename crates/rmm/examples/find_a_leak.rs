//! Finds the call site of blocks that were not freed: `cargo run -p rmm-rs --example find_a_leak`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod device;

use std::alloc::Layout;
use std::error::Error;
use std::io::Write as _;

use rmm::prelude::*;
use rmm::{DevicePtr, TrackingResourceAdaptor};

/// Frees its block.
fn a_careful_function(resource: &impl Resource, stream: &CudaStream) -> Result<(), rmm::Error> {
    let layout = Layout::new::<[f32; 1000]>();
    let block = resource.allocate(stream, layout)?;
    // SAFETY: allocated above with this layout; it is used on this stream only.
    unsafe { resource.deallocate(stream, block, layout) };
    Ok(())
}

/// Frees one of three blocks.
#[inline(never)]
fn a_leaky_function(
    resource: &impl Resource,
    stream: &CudaStream,
) -> Result<[DevicePtr; 2], rmm::Error> {
    let layout = Layout::new::<[f32; 5000]>();
    let allocate = || resource.allocate(stream, layout);
    let [first, second, third] = [allocate()?, allocate()?, allocate()?];
    // SAFETY: allocated above with this layout; it is used on this stream only.
    unsafe { resource.deallocate(stream, first, layout) };
    Ok([second, third])
}

fn main() -> Result<(), Box<dyn Error>> {
    let _device = device::open();

    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    let tracked = TrackingResourceAdaptor::builder(pool).capture_stacks(true).build();
    let stream = CudaStream::new()?;
    a_careful_function(&tracked, &stream)?;
    let leaked = a_leaky_function(&tracked, &stream)?;

    let report = tracked.report();
    writeln!(std::io::stdout(), "{report}")?;

    assert_eq!(report.blocks().len(), 2);
    assert_eq!(report.bytes(), 2 * 5000 * 4);
    let sites = report.call_sites();
    assert_eq!(sites.len(), 1, "one call site leaks");
    assert_eq!(sites[0].blocks, 2);
    for block in leaked {
        let layout = Layout::new::<[f32; 5000]>();
        // SAFETY: allocated with this layout; it is used on this stream only.
        unsafe { tracked.deallocate(&stream, block, layout) };
    }
    assert!(tracked.outstanding().is_empty());
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
