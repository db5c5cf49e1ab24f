//! The test matrix: device x kind of stream x resource.

use std::fmt;

use rmm_core::{Device, DeviceResource, Error, ErrorKind, check, current_driver};
use rmm_spec::stacks::{NamedStack, STACKS, StackBase, StackKind};
use rmm_sys::{CuDeviceAttribute, CuResult};

use crate::environment::variable;
use crate::failure::ensure;
use crate::{
    CheckResult, Environment, ErasedStack, Failure, Kernels, Place, StreamChoice, Subject,
};

/// Where, on which stream and over which resource a check runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The device.
    pub place: Place,
    /// The stream.
    pub stream: StreamChoice,
    /// The resource.
    pub resource: &'static NamedStack,
}

/// Whether the current device and its driver have what the resource needs, by the documentation of
/// CUDA.
///
/// # Errors
/// The driver's error.
pub fn is_supported(stack: &NamedStack) -> Result<bool, Error> {
    use CuDeviceAttribute as Attribute;
    let device = Device::current()?;
    let has = |attribute| match device.attribute(attribute) {
        Ok(value) => Ok(value != 0),
        // An attribute that is newer than the driver.
        Err(error) if error.code() == Some(CuResult::INVALID_VALUE) => Ok(false),
        Err(error) => Err(error),
    };
    Ok(match stack.base {
        StackBase::Cuda => true,
        StackBase::CudaAsync => has(Attribute::MEMORY_POOLS_SUPPORTED)?,
        StackBase::Virtual => has(Attribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)?,
        StackBase::HostVirtual => {
            has(Attribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)?
                && has(Attribute::HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)?
        }
        StackBase::CudaAsyncManaged => {
            has(Attribute::CONCURRENT_MANAGED_ACCESS)? && driver_version()? >= 13000
        }
        StackBase::CudaAsyncPinned => has(Attribute::HOST_MEMORY_POOLS_SUPPORTED)?,
        StackBase::Managed => has(Attribute::MANAGED_MEMORY)?,
        StackBase::Pinned => has(Attribute::UNIFIED_ADDRESSING)?,
        StackBase::Registered => has(Attribute::CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)?,
        StackBase::System => has(Attribute::PAGEABLE_MEMORY_ACCESS)?,
        StackBase::SamHeadroom => {
            has(Attribute::PAGEABLE_MEMORY_ACCESS)? && driver_version()? >= 12020
        }
    })
}

/// A size that the resource can never allocate, unless a request for it could harm the device.
fn too_much(stack: &NamedStack, place: Place) -> Result<Option<usize>, Error> {
    Ok(match stack.base {
        // A GPU that is asked for more managed memory than it has can hang, and harm more than this
        // program.
        StackBase::Managed | StackBase::CudaAsyncManaged if matches!(place, Place::Gpu(_)) => None,
        StackBase::Cuda | StackBase::CudaAsync | StackBase::Virtual => Some(twice_the_device()?),
        _ => Some(BEYOND_ADDRESSES),
    })
}

/// Whether the stack is an adaptor over a pool. An adaptor passes on any stream unchanged, so one
/// kind of stream is enough.
fn is_adaptor(stack: &'static NamedStack) -> bool {
    stack.kind == StackKind::Adaptor
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
        let stacks: Vec<_> = every_stack().map(|stack| (stack.name, stack)).collect();
        let resources = choose("RMM_TEST_RESOURCE", &stacks)?;
        let mut cells = Vec::new();
        for place in Place::selected()? {
            for &stream in &streams {
                let is_one_of_many = stream != StreamChoice::NonBlocking && streams.len() > 1;
                let resources =
                    resources.iter().filter(|resource| !(is_one_of_many && is_adaptor(resource)));
                cells.extend(resources.map(|&resource| Self { place, stream, resource }));
            }
        }
        Ok(cells)
    }

    /// Runs a check over the resource, on a device opened for it. Pools take at most `room` bytes.
    ///
    /// Where the device [lacks](is_supported) what the resource needs, the check is another one:
    /// that creating the resource fails as unsupported.
    ///
    /// # Errors
    /// What the check, or the [device](Environment::verify) after it, finds wrong.
    pub fn run(
        &self,
        room: usize,
        check: impl FnOnce(&Subject<'_, ErasedStack>) -> CheckResult,
    ) -> CheckResult {
        let environment = Environment::open(self.place)?;
        let make = || ErasedStack::new(self.resource, room);
        if !is_supported(self.resource)? {
            refuses(make)?;
            return environment.verify();
        }
        // Only a pool with a limit serves requests of any sizes up to exactly that many bytes:
        // aligned blocks take more of a pool than their size, blocks of two pools or of bins never
        // merge, and an arena or virtual memory may be left with two halves in different places.
        let capacity = self.resource.spec.contains("max={max}").then_some(room);
        let too_much = match capacity {
            Some(capacity) => Some(beyond(capacity)),
            None => too_much(self.resource, self.place)?,
        };
        run_with(&environment, self.stream, (capacity, too_much), make, check)
    }
}

/// The resources and adaptors that checks run over.
fn every_stack() -> impl Iterator<Item = &'static NamedStack> {
    STACKS.iter().filter(|stack| stack.kind != StackKind::Variant)
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, stream, resource } = self;
        write!(f, "{place:?}, {stream:?} stream, {}", resource.name)
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
    check: impl FnOnce(&Subject<'_, R>) -> CheckResult,
) -> CheckResult {
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
    let bytes = Device::current()?.total_memory()?.saturating_mul(2);
    // No request is larger than the address space of the host.
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// That a resource is not made where it is not supported, and says why.
fn refuses<R>(make: impl FnOnce() -> Result<R, Error>) -> CheckResult {
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
    check: impl FnOnce(&Subject<'_, R>) -> CheckResult,
) -> CheckResult {
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
        let _machine = rmm_sim::Machine::builder().driver_version(12010).enter();
        let names: Vec<&str> = every_stack()
            .filter(|stack| is_supported(stack).unwrap())
            .map(|stack| stack.name)
            .collect();
        let expected = [
            "pool",
            "pool-cuda",
            "binning",
            "arena",
            "cuda-async",
            "cuda",
            "virtual",
            "host-virtual",
            "backing",
            "pool-virtual",
            "cuda-async-view",
            "managed",
            "pinned",
            "registered",
            "aligned",
            "callback",
            "failure-callback",
            "fallback",
            "limiting",
            "logging",
            "prefetch",
            "recorder",
            "statistics",
            "tagged",
            "thread-safe",
            "tracking",
        ];
        assert_eq!(names, expected);
    }
}
