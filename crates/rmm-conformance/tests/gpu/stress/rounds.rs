//! Rounds of the stress test: their number, length, memory limit and seed.

use std::io::Write as _;
use std::time::{Duration, Instant};

use rmm_conformance::{Environment, Failure, Kernels, Random};
use rmm_core::{Device, Error, Resource};

use super::MIB;
use super::worker::{Figures, Round};
use crate::run::in_places_with;

/// Steps of each thread in a plain run. In a round of a long one they are up to 2^7 times as many.
const FEW: u32 = 24;
const SCALES: u32 = 8;
/// Bytes that a resource may take, at least; all blocks together may be more.
const LEAST: u64 = 16 * MIB;
/// Limits are so far apart: what every resource can have.
const UNIT: u64 = 4 * MIB;

/// How long, and from which seed, as the environment says.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// How long to go on, if not for one short round.
    time: Option<Duration>,
}

fn number(name: &str) -> Result<Option<u64>, Failure> {
    match std::env::var(name) {
        Err(_) => Ok(None),
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) => text
            .trim()
            .parse()
            .map(Some)
            .map_err(|error| Failure::new(format!("{name} is {text:?}: {error}"))),
    }
}

impl Plan {
    pub(super) fn from_environment() -> Result<Self, Failure> {
        let time = number("RMM_STRESS_SECONDS")?.map(Duration::from_secs);
        Ok(Self { seed: number("RMM_STRESS_SEED")?.unwrap_or(0), time })
    }

    /// Runs `round` with one seed after the other and the steps of each thread, while there is
    /// time; once at least. Names the seed of a round that fails.
    pub(super) fn run(
        self,
        mut round: impl FnMut(u64, u32) -> Result<Figures, Failure>,
    ) -> Result<(Figures, u64), Failure> {
        let (start, mut total) = (Instant::now(), Figures::default());
        for rounds in 0.. {
            let seed = self.seed.wrapping_add(rounds);
            let steps = match self.time {
                None => FEW,
                Some(_) => FEW << Random::new(!seed).below(SCALES),
            };
            total += round(seed, steps)
                .map_err(|failure| Failure::new(format!("RMM_STRESS_SEED={seed}: {failure}")))?;
            if self.time.is_none_or(|time| start.elapsed() >= time) {
                return Ok((total, rounds + 1));
            }
        }
        Err(Failure::new("time does not end"))
    }
}

/// The bytes that the resource of a round may take.
pub(super) fn limit(seed: u64) -> u64 {
    LEAST + UNIT * Random::new(seed ^ 0x11).index(8) as u64
}

/// One round, over a resource made for it, on the device that is open.
pub(super) fn round<R: Resource>(
    environment: &Environment,
    make: impl Fn(u64) -> Result<R, Error>,
    trim: fn(&R),
    seed: u64,
    steps: u32,
) -> Result<Figures, Failure> {
    let kernels = Kernels::load(environment.handle())?;
    let resource = make(limit(seed))?;
    let device = environment.handle();
    Round { device, kernels: &kernels, resource: &resource, trim, seed, steps }.run()
}

/// Asserts that no block of a resource is ever written to by another owner. It is made anew for
/// each round, by `make`, which is given the bytes that it may take.
#[track_caller]
pub(super) fn hold<R: Resource>(
    resource: &str,
    make: impl Fn(u64) -> Result<R, Error>,
    trim: fn(&R),
) {
    in_places_with(resource, |environment| {
        let plan = Plan::from_environment()?;
        let (figures, rounds) = plan.run(|seed, steps| {
            let figures = round(environment, &make, trim, seed, steps)?;
            environment.verify()?;
            Ok(figures)
        })?;
        let (name, seed) = (Device::current()?.name()?, plan.seed);
        // Not by `println!`, which the test runner keeps to itself unless a test fails.
        let _ignored = writeln!(
            std::io::stderr(),
            "stress on {name}: {rounds} rounds from RMM_STRESS_SEED={seed}: {figures:?}, 0 words wrong"
        );
        let is_enough = figures.allocations >= 16 * rounds && figures.handed_on > 0;
        rmm_conformance::ensure(is_enough, || format!("too little was done: {figures:?}"))
    });
}
