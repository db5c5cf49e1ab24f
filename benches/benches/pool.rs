//! The time of pool calls on one thread, and on two that hand blocks over.

use std::alloc::Layout;
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};
use rmm_benches::player::Player;
use rmm_benches::program::Program;
use rmm_benches::protocol::RandomOps;
use rmm_benches::{handoff, setup};
use rmm_cli::device::OpenDevice;
use rmm_core::{CudaStream, Device, DevicePtr, Resource, StreamFlags};
use rmm_resources::CudaAsyncMemoryResource;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    setup::run(|criterion, device| {
        pair(criterion)?;
        holes(criterion)?;
        random(criterion)?;
        handed_off(criterion, device)
    })
}

fn layout(bytes: usize) -> Result<Layout, Box<dyn Error>> {
    Ok(Layout::from_size_align(bytes, 256)?)
}

fn new_stream() -> Result<CudaStream, rmm_core::Error> {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)
}

/// Allocates and frees at once.
fn one_pair(resource: &impl Resource, stream: &CudaStream, layout: Layout) {
    let block = resource.allocate(stream, layout).expect("the device has this much memory");
    // SAFETY: allocated just now with this layout; no work uses it.
    unsafe { resource.deallocate(stream, block, layout) };
}

/// Allocation and free of one size, on one stream.
fn pair(criterion: &mut Criterion) -> Outcome {
    let mut group = criterion.benchmark_group("pair");
    let stream = new_stream()?;
    let pool = setup::warm_pool()?;
    let cuda_async = CudaAsyncMemoryResource::new()?;
    for (name, bytes) in [("256 B", 256), ("4 KiB", 4 << 10), ("1 MiB", 1 << 20)] {
        let layout = layout(bytes)?;
        group.bench_function(BenchmarkId::new("pool", name), |bencher| {
            bencher.iter(|| one_pair(&pool, &stream, layout));
        });
        group.bench_function(BenchmarkId::new("cuda-async", name), |bencher| {
            bencher.iter(|| one_pair(&cuda_async, &stream, layout));
        });
    }
    group.finish();
    Ok(Device::synchronize_current()?)
}

/// The same beside free blocks that are too small, which a search would have to pass.
fn holes(criterion: &mut Criterion) -> Outcome {
    let mut group = criterion.benchmark_group("holes");
    let (hole, wanted) = (layout(2 << 10)?, layout(4 << 10)?);
    for holes in [0, 10, 100, 1_000, 10_000] {
        let stream = new_stream()?;
        let pool = setup::warm_pool()?;
        let blocks: Vec<DevicePtr> =
            (0..2 * holes).map(|_| pool.allocate(&stream, hole)).collect::<Result<_, _>>()?;
        let free = |first: usize| {
            for &block in blocks.iter().skip(first).step_by(2) {
                // SAFETY: allocated above with this layout; this is called once for the odd and
                // once for the even ones. No work uses them.
                unsafe { pool.deallocate(&stream, block, hole) };
            }
        };
        free(0);
        group.bench_function(BenchmarkId::new("pool", holes), |bencher| {
            bencher.iter(|| one_pair(&pool, &stream, wanted));
        });
        free(1);
    }
    group.finish();
    Ok(())
}

/// Random calls of one thread, on one and on eight streams.
fn random(criterion: &mut Criterion) -> Outcome {
    let mut group = criterion.benchmark_group("random");
    group.sampling_mode(SamplingMode::Flat);
    for (name, streams) in [("1 stream", 1), ("8 streams", 8)] {
        let program = Program::random(RandomOps::single_thread(streams))?;
        play(&mut group, BenchmarkId::new("pool", name), &program, &setup::warm_pool()?)?;
        let cuda_async = CudaAsyncMemoryResource::new()?;
        play(&mut group, BenchmarkId::new("cuda-async", name), &program, &cuda_async)?;
    }
    group.finish();
    Ok(())
}

fn play(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    program: &Program,
    resource: &impl Resource,
) -> Outcome {
    let mut player = Player::new(program)?;
    player.run(resource)?; // warm
    Device::synchronize_current()?;
    group.throughput(Throughput::Elements(program.calls()));
    group.bench_function(id, |bencher| {
        bencher.iter_custom(|iterations| {
            let clock = Instant::now();
            for _ in 0..iterations {
                player.run(resource).expect("what fitted once fits again");
            }
            clock.elapsed()
        });
    });
    Ok(Device::synchronize_current()?)
}

/// One thread allocates on one stream, another frees on another.
fn handed_off(criterion: &mut Criterion, device: &OpenDevice) -> Outcome {
    let mut group = criterion.benchmark_group("handoff");
    let (pool, streams) = (setup::warm_pool()?, [new_stream()?, new_stream()?]);
    let (layout, device) = (layout(4 << 10)?, device.handle());
    group.bench_function(BenchmarkId::new("pool", "4 KiB"), |bencher| {
        bencher.iter_custom(|pairs| {
            handoff::run(&device, &pool, &streams, layout, pairs).expect("the pool is large enough")
        });
    });
    group.finish();
    Ok(())
}
