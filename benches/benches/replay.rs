//! The recorded traces, on a pool that the first run has warmed up.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use rmm_adaptors::PoolMemoryResource;
use rmm_benches::player::Player;
use rmm_benches::program::Program;
use rmm_benches::setup;
use rmm_cli::device::OpenDevice;
use rmm_report::trace;
use rmm_resources::CudaMemoryResource;

fn main() -> ExitCode {
    setup::run(replay)
}

fn replay(criterion: &mut Criterion, _device: &OpenDevice) -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let mut group = criterion.benchmark_group("replay");
    group.sampling_mode(SamplingMode::Flat);
    for name in ["gpt2-train", "resnet-train", "gnn-train", "etl-streams"] {
        let trace = trace::read(&folder.join(name).with_extension("csv.gz"))?;
        let program = Program::recorded(&trace)?;
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
        let mut player = Player::new(&program)?;
        player.run(&pool)?; // cold: the pool grows to what the trace needs
        group.throughput(Throughput::Elements(program.calls()));
        group.bench_function(BenchmarkId::new("pool", name), |bencher| {
            bencher.iter(|| player.run(&pool).expect("what fitted once fits again"));
        });
    }
    group.finish();
    Ok(())
}
