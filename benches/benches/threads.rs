//! Several threads at once, each with its own stream and its own random calls.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use rmm_benches::player::Player;
use rmm_benches::program::Program;
use rmm_benches::protocol::RandomOps;
use rmm_benches::setup;
use rmm_cli::device::{AnyDevice, OpenDevice};
use rmm_core::Resource;

fn main() -> ExitCode {
    setup::run(threads)
}

fn threads(criterion: &mut Criterion, device: &OpenDevice) -> Result<(), Box<dyn Error>> {
    let mut group = criterion.benchmark_group("threads");
    group.sampling_mode(SamplingMode::Flat);
    for threads in [1, 2, 4, 8, 16] {
        let programs: Vec<Program> = (0..threads)
            .map(|thread| Program::random(RandomOps::of_thread(thread)))
            .collect::<Result<_, _>>()?;
        let pool = setup::warm_pool()?;
        let device = device.handle();
        group.throughput(Throughput::Elements(programs.iter().map(Program::calls).sum()));
        group.bench_function(BenchmarkId::new("pool", threads), |bencher| {
            bencher.iter_custom(|runs| all_at_once(&device, &pool, &programs, runs));
        });
    }
    group.finish();
    Ok(())
}

/// Runs each program `runs` times on a thread of its own; the time from the common start to the end
/// of the last.
fn all_at_once(
    device: &AnyDevice,
    resource: &(impl Resource + Sync),
    programs: &[Program],
    runs: u64,
) -> Duration {
    let ready = Barrier::new(programs.len() + 1);
    let clock = thread::scope(|scope| {
        for program in programs {
            let ready = &ready;
            scope.spawn(move || {
                let _current = device.make_current().expect("another thread uses the device");
                let mut player = Player::new(program).expect("the driver makes streams");
                ready.wait();
                for _ in 0..runs {
                    player.run(resource).expect("the pool is large enough");
                }
            });
        }
        ready.wait();
        Instant::now()
    });
    clock.elapsed()
}
