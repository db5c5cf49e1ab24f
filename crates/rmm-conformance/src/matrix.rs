//! The combinations that checks run in.

use std::fmt;

use rmm_core::{CudaStream, Device, DeviceResource, Error, StreamFlags};

use crate::environment::variable;
use crate::{Environment, Failure, Kernels, Outcome, Place, Subject};

/// A kind of stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamChoice {
    /// The legacy default stream.
    Legacy,
    /// The per-thread default stream.
    PerThread,
    /// A stream of this library that does not order itself with the legacy one.
    NonBlocking,
}

/// A resource that ships.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResourceChoice {
    /// `PoolMemoryResource` over `CudaMemoryResource`.
    Pool,
    /// `CudaAsyncMemoryResource`.
    CudaAsync,
    /// `CudaMemoryResource`.
    Cuda,
}

/// Where, on which stream and over which resource a check runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The device.
    pub place: Place,
    /// The stream.
    pub stream: StreamChoice,
    /// The resource.
    pub resource: ResourceChoice,
}

impl StreamChoice {
    const ALL: [(&'static str, Self); 3] = [
        ("legacy", Self::Legacy),
        ("per-thread", Self::PerThread),
        ("non-blocking", Self::NonBlocking),
    ];

    /// A stream of this kind, for the calling thread.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn open(self) -> Result<CudaStream, Error> {
        match self {
            Self::Legacy => Ok(CudaStream::legacy()),
            Self::PerThread => Ok(CudaStream::per_thread()),
            Self::NonBlocking => CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0),
        }
    }
}

impl ResourceChoice {
    const ALL: [(&'static str, Self); 3] =
        [("pool", Self::Pool), ("cuda-async", Self::CudaAsync), ("cuda", Self::Cuda)];
}

impl Cell {
    /// The cells that the environment chooses.
    ///
    /// # Errors
    /// If a variable has a value that means nothing.
    pub fn selected() -> Result<Vec<Self>, Failure> {
        let streams = choose("RMM_TEST_STREAM", &StreamChoice::ALL)?;
        let resources = choose("RMM_TEST_RESOURCE", &ResourceChoice::ALL)?;
        let mut cells = Vec::new();
        for place in Place::selected()? {
            for &stream in &streams {
                cells.extend(resources.iter().map(|&resource| Self { place, stream, resource }));
            }
        }
        Ok(cells)
    }

    /// Runs a check over a resource that `make` makes, on a device opened for it. `capacity` are the bytes that the resource can
    /// hand out at once, if it has a limit of its own.
    ///
    /// # Errors
    /// What the check, or the [device](Environment::verify) after it, finds wrong.
    pub fn run<R: DeviceResource>(
        &self,
        capacity: Option<usize>,
        make: impl FnOnce() -> Result<R, Error>,
        check: impl FnOnce(&Subject<'_, R>) -> Outcome,
    ) -> Outcome {
        run_in(&Environment::open(self.place)?, self.stream, capacity, make, check)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, stream, resource } = self;
        write!(f, "{place:?}, {stream:?} stream, {resource:?}")
    }
}

/// Runs a check as [`Cell::run`], on a device that is open.
///
/// # Errors
/// As there.
pub fn run_in<R: DeviceResource>(
    environment: &Environment,
    stream: StreamChoice,
    capacity: Option<usize>,
    make: impl FnOnce() -> Result<R, Error>,
    check: impl FnOnce(&Subject<'_, R>) -> Outcome,
) -> Outcome {
    let device = environment.handle();
    let kernels = Kernels::load(device)?;
    {
        let resource = make()?;
        let too_much = match capacity {
            Some(capacity) => capacity.saturating_add(256),
            None => Device::current()?.total_memory()?.saturating_mul(2),
        };
        let subject = Subject {
            device,
            kernels: &kernels,
            choice: stream,
            stream: stream.open()?,
            resource: &resource,
            capacity,
            too_much,
        };
        check(&subject)?;
    }
    environment.verify()
}

fn choose<T: Copy>(name: &str, all: &[(&'static str, T)]) -> Result<Vec<T>, Failure> {
    let wish = variable(name);
    if wish.is_empty() {
        return Ok(all.iter().map(|&(_, choice)| choice).collect());
    }
    let chosen = all.iter().find(|(known, _)| *known == wish);
    let names: Vec<&str> = all.iter().map(|&(known, _)| known).collect();
    let unknown = || Failure::new(format!("{name} is {wish:?}; expected one of {names:?}"));
    Ok(vec![chosen.ok_or_else(unknown)?.1])
}
