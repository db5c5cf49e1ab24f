//! The program whose log RMM wrote.

use std::alloc::Layout;
use std::error::Error as StdError;
use std::path::Path;
use std::thread;

use rmm_adaptors::{LoggingResourceAdaptor, PoolMemoryResource};
use rmm_cli::device::OpenDevice;
use rmm_core::{
    CudaStream, DevicePtr, Error, Resource, StreamFlags, StreamRef, SynchronousResource,
};
use rmm_resources::CudaMemoryResource;

const SIZES: [usize; 10] = [0, 1, 255, 256, 257, 1000, 4096, 0, 1 << 20, (1 << 20) + 1];
const POOL_BYTES: usize = 64 << 20;

type Logged = LoggingResourceAdaptor<PoolMemoryResource>;
type Outcome<T = ()> = Result<T, Box<dyn StdError + Send + Sync>>;

/// Makes the calls on a device, and leaves the log in a file.
///
/// # Errors
/// If a call fails that should not, or succeeds that should not; or the log is not all written.
pub(crate) fn write(device: &OpenDevice, path: &Path) -> Outcome {
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new())
        .initial_size(1 << 20)
        .maximum_size(POOL_BYTES as u64)
        .build()?;
    let logged = LoggingResourceAdaptor::create(pool, path)?;
    make_calls(device, &logged)?;
    logged.flush()?;
    match logged.lost_lines() {
        0 => Ok(()),
        lost => Err(format!("{lost} lines were not written to {}", path.display()).into()),
    }
}

fn make_calls(device: &OpenDevice, logged: &Logged) -> Outcome {
    let new_stream = || CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0);
    let (legacy, per_thread) = (CudaStream::legacy(), CudaStream::per_thread());
    let streams = [legacy, per_thread, new_stream()?, new_stream()?];
    let [_, _, first, second] = &streams;
    let stream_of = |place: usize| streams[place % streams.len()].as_stream_ref();

    // Every size, on every stream in turn.
    let mut blocks = Vec::new();
    for (place, size) in SIZES.into_iter().enumerate() {
        blocks.push(logged.allocate(stream_of(place), layout(size)?)?);
    }

    // More than the pool may have.
    refused(logged.allocate(first, layout(1 << 40)?))?;
    refused(logged.allocate_sync(layout(POOL_BYTES + 1)?))?;

    // Every second block, the last one first.
    for place in (0..SIZES.len()).rev().filter(|place| place % 2 == 1) {
        free(logged, stream_of(place), blocks[place], SIZES[place])?;
    }

    // No stream.
    let sync = logged.allocate_sync(layout(300)?)?;
    // SAFETY: allocated above with this layout, and not used.
    unsafe { logged.deallocate_sync(sync, layout(300)?) };

    // Other threads: one allocates, another frees that on another stream, and a block of the first
    // thread's.
    let handed = on_a_thread(device, || Ok(logged.allocate(second, layout(5000)?)?))?;
    second.synchronize()?;
    on_a_thread(device, || {
        free(logged, first.as_stream_ref(), handed, 5000)?;
        free(logged, first.as_stream_ref(), blocks[2], SIZES[2])
    })?;

    // The rest, in order.
    for place in (0..SIZES.len()).filter(|&place| place % 2 == 0 && place != 2) {
        free(logged, stream_of(place), blocks[place], SIZES[place])?;
    }
    Ok(())
}

fn layout(size: usize) -> Outcome<Layout> {
    Ok(Layout::from_size_align(size, 256)?)
}

fn refused(result: Result<DevicePtr, Error>) -> Outcome {
    match result {
        Err(error) if error.is_out_of_memory() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err("an allocation above the pool's limit succeeded".into()),
    }
}

/// Frees a block of [`make_calls`], which are freed once each with the layout that they were
/// allocated with, and never used.
fn free(logged: &Logged, stream: StreamRef<'_>, block: DevicePtr, size: usize) -> Outcome {
    let layout = layout(size)?;
    // SAFETY: as the comment above says; the thread that hands a block to another stream has waited
    // for its own.
    unsafe { logged.deallocate(stream, block, layout) };
    Ok(())
}

/// A thread of its own, which has ended on return.
fn on_a_thread<T: Send>(
    device: &OpenDevice,
    calls: impl FnOnce() -> Outcome<T> + Send,
) -> Outcome<T> {
    let handle = device.handle();
    thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let _current = handle.make_current()?;
            calls()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
