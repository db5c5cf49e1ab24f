//! Counts that the default pool reaches on the software device, beside a pool over `cudaMalloc`:
//! hits, driver calls of programs that repeat, and reserved bytes. Each bar is a tenth below what
//! was reached.

use std::error::Error;
use std::path::Path;
use std::thread;

use rmm_adaptors::{PoolMemoryResource, PoolStatistics};
use rmm_benches::migrate::Tasks;
use rmm_benches::player::Player;
use rmm_benches::program::Program;
use rmm_benches::protocol::RandomOps;
use rmm_cli::device::AnyDevice;
use rmm_containers::DeviceBuffer;
use rmm_core::CudaStream;
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, Schedule};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A device of 64 GiB whose work is done at once. Its checks are off: they would take most of the
/// time.
fn device() -> Machine {
    Machine::builder().memory(64 << 30).schedule(Schedule::Eager).checks(false).build()
}

/// One of a pool's counters.
type Count = fn(&PoolStatistics) -> u64;

/// How much of `whole` was `part` between two looks, in percent.
fn percent(before: &PoolStatistics, after: &PoolStatistics, part: Count, whole: Count) -> u64 {
    100 * (part(after) - part(before)) / (whole(after) - whole(before))
}

/// What a pool did in the last of some runs of a program.
#[derive(Default)]
struct Run {
    /// Requests that caches served, in percent.
    hits: u64,
    /// Pieces of memory that were mapped or unmapped.
    mapped: u64,
    /// Reserved bytes at the peak of all runs, in percent of the program's live bytes.
    held: u64,
}

fn run(
    program: &Program,
    start: u64,
    runs: usize,
    make: impl Fn(u64) -> Outcome<PoolMemoryResource>,
) -> Outcome<Run> {
    run_beside(0, program, start, runs, make)
}

/// Runs the program as [`run`] does, beside a block of `bytes` bytes that stays allocated.
fn run_beside(
    bytes: usize,
    program: &Program,
    start: u64,
    runs: usize,
    make: impl Fn(u64) -> Outcome<PoolMemoryResource>,
) -> Outcome<Run> {
    let _machine = device().enter();
    let pool = make(start)?;
    let _beside = DeviceBuffer::uninit_in(bytes, &CudaStream::new()?, &pool)?;
    let mut player = Player::new(program)?;
    for _ in 1..runs {
        player.run(&pool)?;
    }
    let before = pool.statistics();
    player.run(&pool)?;
    let after = pool.statistics();
    let since = |count: Count| count(&after) - count(&before);
    Ok(Run {
        hits: percent(&before, &after, |its| its.cached_allocations, |its| its.allocations),
        mapped: since(|its| its.upstream_allocations) + since(|its| its.upstream_frees),
        held: 100 * after.peak_reserved_bytes / (program.peak_live() + bytes as u64),
    })
}

/// The twentieth run of a program, beside blocks of three different sizes: where a program's blocks
/// come to lie depends on such a detail, and so does what it holds. The mean of all.
fn twentieth_run(program: &Program) -> Outcome<Run> {
    const BESIDE: u64 = 3;
    let mut mean = Run::default();
    for number in 0..BESIDE {
        let bytes = usize::try_from(number * 1_000_003)?;
        let one = run_beside(bytes, program, 0, 20, default_pool)?;
        mean.hits += one.hits;
        mean.mapped += one.mapped;
        mean.held += one.held;
    }
    Ok(Run { hits: mean.hits / BESIDE, mapped: mean.mapped / BESIDE, held: mean.held / BESIDE })
}

fn default_pool(start: u64) -> Outcome<PoolMemoryResource> {
    Ok(PoolMemoryResource::default_builder()?.check_frees(false).initial_size(start).build()?)
}

fn pool_over_cuda_malloc(start: u64) -> Outcome<PoolMemoryResource> {
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    Ok(builder.check_frees(false).initial_size(start).build()?)
}

fn recorded(name: &str) -> Outcome<Program> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let trace = rmm_report::trace::read(&folder.join(format!("{name}.csv.gz")))?;
    Ok(Program::recorded(&trace)?)
}

#[test]
fn it_hits_as_the_pool_over_cuda_malloc_where_memory_is_plentiful() -> Outcome {
    const START: u64 = 16 << 30;
    let of_threads = RandomOps {
        streams: 16,
        most_blocks: 4096,
        most_bytes: 1 << 30,
        ..RandomOps::of_thread(0)
    };
    let lists = [
        ("random sizes on one stream", RandomOps::single_thread(1), 75),
        ("on eight streams", RandomOps::single_thread(8), 75),
        ("on 256 streams", RandomOps::single_thread(256), 74),
        ("small ones on 16 streams", of_threads, 99),
    ];
    for (name, list, reached) in lists {
        let program = Program::random(list)?;
        let hits = run(&program, START, 2, default_pool)?.hits;
        let beside = run(&program, START, 2, pool_over_cuda_malloc)?.hits;
        assert!(hits >= reached * 9 / 10, "{name}: {hits} %");
        assert!(hits + 5 >= beside, "{name}: {hits} % instead of {beside} %");
    }
    Ok(())
}

#[test]
fn bursts_of_random_sizes_hit() -> Outcome {
    let _machine = device().enter();
    let pool = default_pool(16 << 30)?;
    let burst = |seed| Program::allocations(RandomOps { seed, ..RandomOps::burst() }, 2_000);
    let bursts = (0..10).map(burst);
    let bursts: Vec<Program> = bursts.collect::<Result<_, _>>()?;
    let stream = CudaStream::new()?;
    let mut players: Vec<Player<'_>> =
        bursts.iter().map(|burst| Player::on_stream(burst, &stream)).collect();
    let mut run = |pool: &PoolMemoryResource| players.iter_mut().try_for_each(|it| it.run(pool));
    run(&pool)?;
    let before = pool.statistics();
    run(&pool)?;
    let after = pool.statistics();
    let hits = percent(&before, &after, |its| its.cached_allocations, |its| its.allocations);
    assert!(hits >= 95, "{hits} %");
    Ok(())
}

/// How threads use streams.
#[derive(Clone, Copy, Debug)]
enum Streams {
    /// Each thread its own.
    Own,
    /// All of them one.
    One,
    /// Each list of calls its own; the threads take turns with the lists.
    OfTasks,
}

/// Hits among the allocations, and blocks that left caches among the frees, in percent, of the
/// second time that threads run their lists.
fn run_threads(how: Streams) -> Outcome<(u64, u64)> {
    let device = device();
    let _machine = device.enter();
    let pool = default_pool(16 << 30)?;
    let lists: Vec<Program> = (0..4)
        .map(|thread| Program::random(RandomOps::of_thread(thread)))
        .collect::<Result<_, _>>()?;
    let (tasks, stream) = (Tasks::new(&lists)?, CudaStream::new()?);
    let player = |list| match how {
        Streams::One => Ok(Player::on_stream(list, &stream)),
        Streams::Own | Streams::OfTasks => Player::new(list),
    };
    let mut players: Vec<Player<'_>> = lists.iter().map(player).collect::<Result<_, _>>()?;
    let mut run = || -> Outcome {
        if let Streams::OfTasks = how {
            tasks.run(&AnyDevice::Software(device.clone()), &pool, 1000)?;
            return Ok(());
        }
        thread::scope(|scope| {
            let start = |player| scope.spawn(|| run_on_thread(player, &device, &pool));
            let threads: Vec<_> = players.iter_mut().map(start).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        Ok(())
    };
    run()?;
    let before = pool.statistics();
    run()?;
    let after = pool.statistics();
    Ok((
        percent(&before, &after, |its| its.cached_allocations, |its| its.allocations),
        percent(&before, &after, |its| its.flushed_blocks, |its| its.frees),
    ))
}

fn run_on_thread(
    player: &mut Player<'_>,
    device: &Machine,
    pool: &PoolMemoryResource,
) -> Result<(), rmm_core::Error> {
    let _machine = device.enter();
    player.run(pool)
}

#[test]
fn threads_hit_their_caches() -> Outcome {
    for (how, reached) in [(Streams::Own, 100), (Streams::One, 99), (Streams::OfTasks, 99)] {
        let (hits, left) = run_threads(how)?;
        println!("{how:?}: {hits} % hits, {left} % of the blocks left a cache");
        assert!(hits >= reached * 9 / 10, "{how:?}: {hits} %");
        assert!(left <= 10, "{how:?}: {left} %");
    }
    Ok(())
}

/// Hits, pieces mapped and unmapped, and percent of the live bytes.
#[test]
fn recorded_programs_that_repeat_hold_little_and_map_little() -> Outcome {
    let bars = [
        ("gpt2-train", 42, 4, 104),
        ("resnet-train", 47, 30, 107),
        ("gnn-train", 54, 30, 106),
        ("etl-streams", 36, 224, 124),
    ];
    for (name, hits, mapped, held) in bars {
        let reached = twentieth_run(&recorded(name)?)?;
        assert!(reached.hits >= hits, "{name}: {} % hits", reached.hits);
        assert!(reached.mapped <= mapped, "{name}: {} pieces", reached.mapped);
        assert!(reached.held <= held, "{name}: {} % held", reached.held);
        println!(
            "{name}: {} % hits, {} pieces, {} % held",
            reached.hits, reached.mapped, reached.held
        );
    }
    Ok(())
}

#[test]
fn a_program_that_loads_takes_few_steps() -> Outcome {
    let _machine = device().enter();
    let pool = default_pool(0)?;
    let program = Program::allocations(RandomOps::growing(), 4_000)?;
    Player::new(&program)?.run(&pool)?;
    let statistics = pool.statistics();
    assert!(statistics.upstream_allocations <= 110, "{}", statistics.upstream_allocations);
    assert!(100 * statistics.peak_reserved_bytes <= 105 * program.peak_live());
    Ok(())
}
