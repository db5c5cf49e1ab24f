//! Pools for graphs, with captures, launches and sleep of a real driver.

use std::alloc::Layout;

use rmm_adaptors::{Contents, PoolMemoryResource, SleepOptions};
use rmm_conformance::{CheckResult, Failure, ensure};
use rmm_core::{CaptureScope, CudaStream, DevicePtr, Error, Resource as _, copy, current_driver};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sys::{CuCaptureMode, CuGraph, CuGraphExec};

use crate::run::in_every_place;

const BYTES: usize = 3 << 20;

fn layout() -> Layout {
    Layout::from_size_align(BYTES, 256).expect("a size")
}

/// Captures a graph in which `run` enqueues work on the stream.
fn captured(
    stream: &CudaStream,
    run: impl FnOnce() -> Result<(), Error>,
) -> Result<CuGraphExec, Error> {
    let driver = current_driver()?;
    let (mut graph, mut executable) = (CuGraph::NULL, CuGraphExec::NULL);
    // SAFETY: the stream exists.
    let begun = unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), CuCaptureMode::GLOBAL) };
    rmm_core::check("cuStreamBeginCapture_v2", begun)?;
    let run = run();
    // SAFETY: the stream exists, and `graph` may be written to.
    let ended = unsafe { driver.cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
    rmm_core::check("cuStreamEndCapture", ended)?;
    run?;
    // SAFETY: the graph exists, and `executable` may be written to.
    let made = unsafe { driver.cuGraphInstantiateWithFlags(&raw mut executable, graph, 0) };
    rmm_core::check("cuGraphInstantiateWithFlags", made)?;
    // SAFETY: it is not used again.
    let destroyed = unsafe { driver.cuGraphDestroy(graph) };
    rmm_core::check("cuGraphDestroy", destroyed)?;
    Ok(executable)
}

/// Launches a graph and waits for it.
fn launch(graph: CuGraphExec, stream: &CudaStream) -> Result<(), Error> {
    // SAFETY: both exist, and the pool keeps the graph's memory.
    let launched = unsafe { current_driver()?.cuGraphLaunch(graph, stream.as_raw()) };
    rmm_core::check("cuGraphLaunch", launched)?;
    stream.synchronize()
}

fn first_byte(block: DevicePtr, stream: &CudaStream) -> Result<u8, Error> {
    let mut byte = 0;
    // SAFETY: the block is allocated, and the host waits for the copy.
    unsafe { copy::device_to_host((&raw mut byte).cast(), block, 1, stream) }?;
    stream.synchronize()?;
    Ok(byte)
}

fn a_graph_with_temporaries(pool: &PoolMemoryResource, sleeps: bool) -> CheckResult {
    let (stream, other) = (CudaStream::non_blocking()?, CudaStream::non_blocking()?);
    let (input, output) = (pool.allocate(&stream, layout())?, pool.allocate(&stream, layout())?);
    let mut temporaries = Vec::new();
    let scope = CaptureScope::announce();
    let graph = captured(&stream, || {
        for _ in 0..8 {
            let temporary = pool.allocate(&stream, layout())?;
            // SAFETY: the blocks are as long, and used by this stream alone.
            unsafe { copy::device_to_device(temporary, input, BYTES, &stream) }?;
            // SAFETY: the blocks are as long, and used by this stream alone.
            unsafe { copy::device_to_device(output, temporary, BYTES, &stream) }?;
            // SAFETY: allocated above with this layout; its only stream is this one.
            unsafe { pool.deallocate(&stream, temporary, layout()) };
            temporaries.push(temporary);
        }
        Ok(())
    })?;
    drop(scope);
    temporaries.dedup();
    ensure(temporaries.len() == 1, || format!("each has memory of its own: {temporaries:?}"))?;
    for value in 1..5 {
        if sleeps && value > 2 {
            let options = SleepOptions::new(Contents::ToHost).wait_for_work(true);
            // SAFETY: no work uses the pool before it is awake.
            unsafe { pool.sleep_with(options) }?;
            pool.wake()?;
            let kept = first_byte(output, &stream)?;
            ensure(kept == value - 1, || format!("{kept} is left of {}", value - 1))?;
        }
        // SAFETY: the block is as long.
        unsafe { copy::fill(input, value, BYTES, &stream) }?;
        launch(graph, &stream)?;
        let copied = first_byte(output, &stream)?;
        ensure(copied == value, || format!("{copied} in place of {value}"))?;
        // What another stream gets is not the graph's.
        let block = pool.allocate(&other, layout())?;
        ensure(![input, output, temporaries[0]].contains(&block), || "it is the graph's".into())?;
        // SAFETY: allocated above with this layout; its only stream is this one.
        unsafe { pool.deallocate(&other, block, layout()) };
    }
    // SAFETY: it is not used again.
    let destroyed = unsafe { current_driver()?.cuGraphExecDestroy(graph) };
    rmm_core::check("cuGraphExecDestroy", destroyed)?;
    for block in [input, output] {
        // SAFETY: allocated above with this layout; their only stream is this one.
        unsafe { pool.deallocate(&stream, block, layout()) };
    }
    ensure(pool.trim_blocking(0) == 0, || "memory of graphs was returned".into())?;
    // SAFETY: the only graph is destroyed, and all its launches have completed.
    unsafe { pool.release_graph_memory() };
    pool.trim_blocking(0);
    ensure(pool.reserved_bytes() == 0, || format!("{} bytes are left", pool.reserved_bytes()))
}

#[test]
fn a_graph_keeps_its_temporaries_over_cuda_malloc() {
    in_every_place(|| {
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new());
        a_graph_with_temporaries(&pool.for_graphs(true).build()?, false)
    });
}

#[test]
fn a_graph_keeps_its_temporaries_over_virtual_memory_and_through_sleep() {
    in_every_place(|| {
        let memory = match VirtualMemoryResource::new() {
            Ok(memory) => memory,
            Err(error) if error.is_unsupported() => return Ok(()),
            Err(error) => return Err(Failure::from(error)),
        };
        let pool = PoolMemoryResource::builder(memory);
        a_graph_with_temporaries(&pool.for_graphs(true).build()?, true)
    });
}
