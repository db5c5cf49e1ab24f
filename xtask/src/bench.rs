//! `cargo xtask bench`: the benchmarks, on the GPU if there is one.

use std::env;

use crate::build;
use crate::cargo::{self, cargo};
use crate::doctor::gpus;
use crate::error::{Context as _, Result};

/// Arguments of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Passed on to `cargo bench -p rmm-benches`, such as `--bench NAME`
    #[arg(allow_hyphen_values = true, value_name = "CARGO ARGS")]
    cargo: Vec<String>,
    /// Passed on to the benchmarks, such as a part of their names
    #[arg(last = true, value_name = "BENCH ARGS")]
    bench: Vec<String>,
}

impl Args {
    /// All that is passed on, in cargo's own order.
    pub(crate) fn passed_on(&self) -> Vec<&str> {
        let separator = if self.bench.is_empty() { None } else { Some("--") };
        let cargo = self.cargo.iter().map(String::as_str);
        cargo.chain(separator).chain(self.bench.iter().map(String::as_str)).collect()
    }
}

/// Runs the benchmarks.
///
/// # Errors
///
/// If they do not build, or one fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let driver = match env::var("RMM_DRIVER") {
        Ok(driver) => {
            println!("benchmarks run on the device that RMM_DRIVER={driver} names");
            driver
        }
        Err(_) => choose()?.to_owned(),
    };
    let mut command = cargo();
    command.args(["bench", "-p", "rmm-benches"]).args(args.passed_on()).env("RMM_DRIVER", driver);
    cargo::run(&mut command).context("the benchmarks")
}

/// The real driver if it sees a GPU, else the software device; says which.
fn choose() -> Result<&'static str> {
    let gpus = gpus(&build::rmm("release")?)?;
    Ok(if let Some(first) = gpus.first() {
        println!("benchmarks run on a GPU: {first}");
        "cuda"
    } else {
        println!(
            "no GPU here: benchmarks run on the software device; their numbers say nothing about a GPU"
        );
        "sim"
    })
}
