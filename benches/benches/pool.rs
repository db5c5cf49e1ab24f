//! The time of pool calls on one thread, on two that hand blocks over, and of tasks that change
//! threads.

use std::alloc::Layout;
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};
use rmm_benches::migrate::Tasks;
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
        default_streams(criterion)?;
        holes(criterion)?;
        random(criterion)?;
        handed_off(criterion, device)?;
        migrating(criterion, device)
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

/// Pairs of 4 KiB, and random calls, on the default streams.
fn default_streams(criterion: &mut Criterion) -> Outcome {
    let layout = layout(4 << 10)?;
    let program = Program::random(RandomOps::single_thread(1))?;
    let streams = [("legacy", CudaStream::legacy()), ("per-thread", CudaStream::per_thread())];
    for (name, stream) in streams {
        let mut group = criterion.benchmark_group(name);
        let pool = setup::warm_pool()?;
        group.bench_function(BenchmarkId::new("pool", "4 KiB"), |bencher| {
            bencher.iter(|| one_pair(&pool, &stream, layout));
        });
        group.sampling_mode(SamplingMode::Flat);
        let player = Player::on_stream(&program, &stream);
        play(&mut group, BenchmarkId::new("pool", "random"), (&program, player), &pool)?;
        group.finish();
    }
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

/// Random calls of one thread, on one, eight and 256 streams.
fn random(criterion: &mut Criterion) -> Outcome {
    let mut group = criterion.benchmark_group("random");
    group.sampling_mode(SamplingMode::Flat);
    for (name, streams) in [("1 stream", 1), ("8 streams", 8), ("256 streams", 256)] {
        let program = Program::random(RandomOps::single_thread(streams))?;
        let work = || Player::new(&program).map(|player| (&program, player));
        play(&mut group, BenchmarkId::new("pool", name), work()?, &setup::warm_pool()?)?;
        let cuda_async = CudaAsyncMemoryResource::new()?;
        play(&mut group, BenchmarkId::new("cuda-async", name), work()?, &cuda_async)?;
    }
    group.finish();
    Ok(())
}

fn play(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    (program, mut player): (&Program, Player<'_>),
    resource: &impl Resource,
) -> Outcome {
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

/// The lists of 16 threads, each with its stream, which change threads after 1,000 and after 50
/// calls.
fn migrating(criterion: &mut Criterion, device: &OpenDevice) -> Outcome {
    let mut group = criterion.benchmark_group("migrate");
    group.sampling_mode(SamplingMode::Flat);
    let lists = (0..16).map(|thread| Program::random(RandomOps::of_thread(thread)));
    let lists: Vec<Program> = lists.collect::<Result<_, _>>()?;
    let (tasks, device) = (Tasks::new(&lists)?, device.handle());
    group.throughput(Throughput::Elements(lists.iter().map(Program::calls).sum()));
    for calls_a_round in [1_000, 50] {
        let pool = setup::warm_pool()?;
        group.bench_function(BenchmarkId::new("pool", calls_a_round), |bencher| {
            bencher.iter_custom(|runs| {
                let run = |_| tasks.run(&device, &pool, calls_a_round).expect("the pool is large");
                (0..runs).map(run).sum()
            });
        });
    }
    group.finish();
    Ok(())
}
