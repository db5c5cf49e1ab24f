//! What the default pool reaches on the software device, by counts, beside a pool over
//! `cudaMalloc`: hits, driver calls of programs that repeat, and reserved bytes. Each bar is a
//! tenth below what was reached.

use std::error::Error;
use std::path::Path;

use rmm_adaptors::{PoolMemoryResource, PoolStatistics};
use rmm_benches::player::Player;
use rmm_benches::program::Program;
use rmm_benches::protocol::RandomOps;
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, Schedule};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// What a pool did in the last of some runs of a program.
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
    let device = Machine::builder().memory(64 << 30).schedule(Schedule::Eager).checks(false);
    let _machine = device.enter();
    let pool = make(start)?;
    let mut player = Player::new(program)?;
    for _ in 1..runs {
        player.run(&pool)?;
    }
    let before = pool.statistics();
    player.run(&pool)?;
    let after = pool.statistics();
    let since = |count: fn(&PoolStatistics) -> u64| count(&after) - count(&before);
    Ok(Run {
        hits: 100 * since(|its| its.cached_allocations) / since(|its| its.allocations),
        mapped: since(|its| its.upstream_allocations) + since(|its| its.upstream_frees),
        held: 100 * after.peak_reserved_bytes / program.peak_live(),
    })
}

fn default_pool(start: u64) -> Outcome<PoolMemoryResource> {
    Ok(PoolMemoryResource::on_device()?.check_frees(false).initial_size(start).build()?)
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

/// Hits, pieces mapped and unmapped, and percent of the live bytes, in the twentieth run.
#[test]
fn recorded_programs_that_repeat_hold_little_and_map_little() -> Outcome {
    let bars = [
        ("gpt2-train", 42, 4, 105),
        ("resnet-train", 50, 4, 106),
        ("gnn-train", 54, 30, 106),
        ("etl-streams", 36, 240, 124),
    ];
    for (name, hits, mapped, held) in bars {
        let reached = run(&recorded(name)?, 0, 20, default_pool)?;
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
    let device = Machine::builder().memory(64 << 30).schedule(Schedule::Eager).checks(false);
    let _machine = device.enter();
    let pool = default_pool(0)?;
    let program = Program::allocations(RandomOps::growing(), 4_000)?;
    Player::new(&program)?.run(&pool)?;
    let statistics = pool.statistics();
    assert!(statistics.upstream_allocations <= 112, "{}", statistics.upstream_allocations);
    assert!(100 * statistics.peak_reserved_bytes <= 105 * program.peak_live());
    Ok(())
}
