//! The combinations that checks run in.

use std::fmt;

use rmm_core::{
    CudaStream, Device, DeviceResource, Error, ErrorKind, StreamFlags, check, current_driver,
};
use rmm_sys::{CuDeviceAttribute, CuResult};

use crate::environment::variable;
use crate::failure::ensure;
use crate::{Adapted, Environment, Failure, Kernels, Outcome, Place, Subject};

macro_rules! define_streams {
    ($($name:literal: $variant:ident, $doc:literal,)*) => {
        /// A kind of stream.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum StreamChoice {
            $(#[doc = $doc] $variant,)*
        }

        impl StreamChoice {
            const ALL: &[(&'static str, Self)] = &[$(($name, Self::$variant)),*];
        }
    };
}
every_stream!(define_streams);

macro_rules! define_resources {
    ($($name:literal: $variant:ident, $doc:literal,)*) => {
        /// A resource that ships.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum ResourceChoice {
            $(#[doc = $doc] $variant,)*
            /// An adaptor over a pool over `CudaMemoryResource`.
            Adapted(Adapted),
        }

        impl ResourceChoice {
            const NOT_ADAPTED: &[(&'static str, Self)] = &[$(($name, Self::$variant)),*];
        }
    };
}
every_resource!(define_resources);

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
    /// All of them, by the names that the environment knows.
    fn all() -> Vec<(&'static str, Self)> {
        let adapted = Adapted::ALL.iter().map(|&(name, adapted)| (name, Self::Adapted(adapted)));
        Self::NOT_ADAPTED.iter().copied().chain(adapted).collect()
    }

    /// Whether the current device and its driver have what the resource needs, by the documentation
    /// of CUDA.
    ///
    /// # Errors
    /// If the driver refuses to tell.
    pub fn is_supported(self) -> Result<bool, Error> {
        use CuDeviceAttribute as Attribute;
        let device = Device::current()?;
        let has = |attribute| match device.attribute(attribute) {
            Ok(value) => Ok(value != 0),
            // An attribute that is newer than the driver.
            Err(error) if error.code() == Some(CuResult::INVALID_VALUE) => Ok(false),
            Err(error) => Err(error),
        };
        Ok(match self {
            Self::Pool | Self::Binning | Self::Arena | Self::Cuda | Self::Adapted(_) => true,
            Self::CudaAsync | Self::CudaAsyncView => has(Attribute::MEMORY_POOLS_SUPPORTED)?,
            Self::Virtual | Self::PoolVirtual => {
                has(Attribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)?
            }
            Self::CudaAsyncManaged => {
                has(Attribute::CONCURRENT_MANAGED_ACCESS)? && driver_version()? >= 13000
            }
            Self::CudaAsyncPinned => has(Attribute::HOST_MEMORY_POOLS_SUPPORTED)?,
            Self::Managed => has(Attribute::MANAGED_MEMORY)?,
            Self::Pinned => has(Attribute::UNIFIED_ADDRESSING)?,
            Self::System => has(Attribute::PAGEABLE_MEMORY_ACCESS)?,
            Self::SamHeadroom => {
                has(Attribute::PAGEABLE_MEMORY_ACCESS)? && driver_version()? >= 12020
            }
        })
    }

    /// Whether it is run on this kind of stream where so many kinds are chosen: an adaptor passes a
    /// stream on whatever it is, so that one kind will do.
    fn is_run_on(self, stream: StreamChoice, kinds: usize) -> bool {
        !matches!(self, Self::Adapted(_)) || stream == StreamChoice::NonBlocking || kinds == 1
    }

    /// Bytes that the resource can never give, if it may be asked for them.
    fn too_much(self, place: Place) -> Result<Option<usize>, Error> {
        Ok(match self {
            Self::Pool
            | Self::Adapted(_)
            | Self::Binning
            | Self::Arena
            | Self::Cuda
            | Self::Virtual
            | Self::PoolVirtual
            | Self::CudaAsync
            | Self::CudaAsyncView => Some(twice_the_device()?),
            // A GPU that is asked for more managed memory than it has can hang, and harm more than
            // this program.
            Self::Managed | Self::CudaAsyncManaged if matches!(place, Place::Gpu(_)) => None,
            Self::Managed | Self::CudaAsyncManaged => Some(BEYOND_ADDRESSES),
            Self::CudaAsyncPinned | Self::Pinned | Self::System | Self::SamHeadroom => {
                Some(BEYOND_ADDRESSES)
            }
        })
    }
}

fn driver_version() -> Result<i32, Error> {
    let mut version = 0;
    // SAFETY: `version` may be written to.
    let code = unsafe { current_driver()?.cuDriverGetVersion(&raw mut version) };
    check("cuDriverGetVersion", code)?;
    Ok(version)
}

/// Bytes that no address space of a host has.
const BEYOND_ADDRESSES: usize = 1 << 50;

impl Cell {
    /// The cells that the environment chooses.
    ///
    /// # Errors
    /// If a variable has a value that means nothing.
    pub fn selected() -> Result<Vec<Self>, Failure> {
        let streams = choose("RMM_TEST_STREAM", StreamChoice::ALL)?;
        let resources = choose("RMM_TEST_RESOURCE", &ResourceChoice::all())?;
        let mut cells = Vec::new();
        for place in Place::selected()? {
            for &stream in &streams {
                let is_run = |resource: &&ResourceChoice| resource.is_run_on(stream, streams.len());
                let resources = resources.iter().filter(is_run);
                cells.extend(resources.map(|&resource| Self { place, stream, resource }));
            }
        }
        Ok(cells)
    }

    /// Runs a check over a resource that `make` makes, on a device opened for it. `capacity` are
    /// the bytes that the resource can hand out at once, if it has a limit of its own.
    ///
    /// Where the device [lacks](ResourceChoice::is_supported) what the resource needs, the check is
    /// another one: that making the resource is refused as unsupported.
    ///
    /// # Errors
    /// What the check, or the [device](Environment::verify) after it, finds wrong.
    pub fn run<R: DeviceResource>(
        &self,
        capacity: Option<usize>,
        make: impl FnOnce() -> Result<R, Error>,
        check: impl FnOnce(&Subject<'_, R>) -> Outcome,
    ) -> Outcome {
        let environment = Environment::open(self.place)?;
        if !self.resource.is_supported()? {
            refuses(make)?;
            return environment.verify();
        }
        let too_much = match capacity {
            Some(capacity) => Some(beyond(capacity)),
            None => self.resource.too_much(self.place)?,
        };
        run_with(&environment, self.stream, (capacity, too_much), make, check)
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
    let too_much = match capacity {
        Some(capacity) => beyond(capacity),
        None => twice_the_device()?,
    };
    run_with(environment, stream, (capacity, Some(too_much)), make, check)
}

/// Bytes that a resource of this capacity can never give.
fn beyond(capacity: usize) -> usize {
    capacity.saturating_add(256)
}

/// Bytes that a resource over device memory can never give.
fn twice_the_device() -> Result<usize, Error> {
    Ok(Device::current()?.total_memory()?.saturating_mul(2))
}

/// That a resource is not made where it is not supported, and says why.
fn refuses<R>(make: impl FnOnce() -> Result<R, Error>) -> Outcome {
    match make() {
        Ok(_) => Err(Failure::new("made, although the device lacks what it needs")),
        Err(error) => ensure(error.kind() == ErrorKind::Unsupported, || {
            format!("the refusal is not that it is unsupported: {error}")
        }),
    }
}

fn run_with<R: DeviceResource>(
    environment: &Environment,
    stream: StreamChoice,
    (capacity, too_much): (Option<usize>, Option<usize>),
    make: impl FnOnce() -> Result<R, Error>,
    check: impl FnOnce(&Subject<'_, R>) -> Outcome,
) -> Outcome {
    let device = environment.handle();
    let kernels = Kernels::load(device)?;
    {
        let resource = make()?;
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

#[cfg(test)]
mod tests {
    //! What counts as a refusal.

    use super::*;

    #[test]
    fn only_unsupported_is_a_refusal() {
        assert_eq!(refuses::<()>(|| Err(Error::unsupported("system", "no"))), Ok(()));
        assert!(refuses::<()>(|| Err(Error::out_of_memory("system"))).is_err());
        assert!(refuses(|| Ok(())).is_err());
    }

    #[test]
    fn a_device_is_known_by_what_it_lacks() {
        let machine = rmm_sim::Machine::builder().driver_version(12010).build();
        let _entered = machine.enter();
        let supported = |(_, choice): &(&str, ResourceChoice)| choice.is_supported().unwrap();
        let names: Vec<&str> = ResourceChoice::all()
            .iter()
            .filter(|each| supported(each))
            .map(|each| each.0)
            .collect();
        let expected = [
            "pool",
            "binning",
            "arena",
            "cuda-async",
            "cuda",
            "virtual",
            "pool-virtual",
            "cuda-async-view",
            "managed",
            "pinned",
            "aligned",
            "callback",
            "failure-callback",
            "fallback",
            "limiting",
            "logging",
            "prefetch",
            "statistics",
            "tagged",
            "thread-safe",
            "tracking",
        ];
        assert_eq!(names, expected);
    }
}
