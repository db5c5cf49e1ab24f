//! Resources, containers, streams and events of a context that is reset or lost: they say so and do
//! no harm, and those made afterwards work. Beside `resets.rs` and `failures.rs`, which ask the
//! driver alone.

use rmm_adaptors::{
    ArenaMemoryResource, BinningMemoryResource, FixedSizeMemoryResource, PoolMemoryResource,
};
use rmm_conformance::{CheckResult, DeviceHandle, Environment, ensure};
use rmm_containers::{DeviceBuffer, DeviceUVector, PinnedVec};
use rmm_core::{CudaEvent, CudaStream, Device, DeviceResource, Error, StreamRef};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource};
use rmm_sys::CuResult;

use super::alone::in_a_process_of_its_own;
use super::failures::lose;
use super::raw::driver;
use super::works;

const MIB: usize = 1 << 20;

/// `count` MiB of device memory, in bytes.
const fn mib(count: u64) -> u64 {
    count << 20
}

fn host_words() -> Vec<u32> {
    (0..1024).collect()
}

fn lost<T>(what: &str, answer: Result<T, Error>) -> CheckResult {
    match answer {
        Ok(_) => ensure(false, || format!("{what} succeeded in a context that is gone")),
        Err(error) => ensure(error.is_context_lost(), || format!("{what}: {error}")),
    }
}

/// What was made in a context, and used.
struct Made<R: DeviceResource> {
    resource: R,
    vector: DeviceUVector<u32>,
    buffer: DeviceBuffer,
    pinned: PinnedVec<u32>,
    event: CudaEvent,
    stream: CudaStream,
    other: CudaStream,
}

impl<R: DeviceResource + Clone + 'static> Made<R> {
    fn new(resource: R) -> Result<Self, Error> {
        let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
        let vector = DeviceUVector::from_slice_in(&host_words(), &stream, &resource)?;
        let buffer = DeviceBuffer::uninit_in(3 * MIB / 2, &other, &resource)?;
        let mut pinned = PinnedVec::zeroed(1024)?;
        pinned.device_slice_mut().copy_from_on(vector.as_slice(), &other)?;
        // In caches and lists, of both streams.
        for stream in [&stream, &other, &stream] {
            drop(DeviceBuffer::uninit_in(4096, stream, &resource)?);
            drop(DeviceBuffer::uninit_in(MIB, stream, &resource)?);
        }
        let event = other.record_event()?;
        Ok(Self { resource, vector, buffer, pinned, event, stream, other })
    }

    /// Nothing but an error that says so comes of them.
    fn say_that_it_is_lost(&mut self) -> CheckResult {
        lost("allocation", DeviceBuffer::uninit_in(4096, &self.stream, &self.resource))?;
        lost("allocation", DeviceBuffer::uninit_in(MIB, &self.other, &self.resource))?;
        lost("copy", self.vector.to_vec_on(&self.stream))?;
        lost("growth", self.buffer.resize(4 * MIB))?;
        lost("wait for a stream", self.stream.synchronize())?;
        lost("question to an event", self.event.is_complete())?;
        lost("wait for a stream by another", self.other.wait(&self.event))?;
        lost("copy to the host", self.pinned.as_slice().map(<[u32]>::len))
    }
}

/// Uses a resource and containers before, during and after a reset; one that holds memory serves no
/// stream of the next context. What the software device still has at the end is of the driver's
/// pools.
fn outlives_a_reset<R: DeviceResource + Clone + 'static>(
    environment: &Environment,
    holds_memory: bool,
    make: impl Fn() -> Result<R, Error>,
) -> CheckResult {
    let device = Device::current()?;
    let mut old = Made::new(make()?)?;
    // SAFETY: what this process does afterwards is what the library promises to bear.
    works("the reset", unsafe { driver().cuDevicePrimaryCtxReset_v2(device.as_raw()) })?;
    old.say_that_it_is_lost()?;
    let _next_is_current = device.make_current()?;
    old.say_that_it_is_lost()?;
    let new = Made::new(make()?)?;
    lost("allocation", DeviceBuffer::uninit_in(MIB, &old.stream, &new.resource))?;
    if holds_memory {
        lost("allocation", DeviceBuffer::uninit_in(MIB, &new.stream, &old.resource))?;
        lost("allocation", DeviceBuffer::uninit_in(MIB, StreamRef::legacy(), &old.resource))?;
    }
    drop(old);
    ensure(new.vector.to_vec_on(&new.stream)? == host_words(), || "other words came back".into())?;
    ensure(new.pinned.as_slice()? == host_words(), || "other words came back".into())?;
    drop(new);
    let DeviceHandle::Software(machine) = environment.handle() else { return Ok(()) };
    machine.assert_no_violations();
    let left = machine.leaks();
    ensure(left.iter().all(|leak| leak.what.contains("Pool")), || format!("{left:?}"))
}

#[test]
fn suballocators_and_containers_outlive_a_reset() {
    in_a_process_of_its_own(
        "driver::survivors::suballocators_and_containers_outlive_a_reset",
        |environment| {
            let cuda = CudaMemoryResource::new;
            outlives_a_reset(environment, true, || PoolMemoryResource::builder(cuda()).build())?;
            outlives_a_reset(environment, true, || {
                PoolMemoryResource::builder(VirtualMemoryResource::new()?).build()
            })?;
            outlives_a_reset(environment, true, || {
                ArenaMemoryResource::builder(cuda()).arena_size(mib(32)).build()
            })?;
            outlives_a_reset(environment, true, || {
                FixedSizeMemoryResource::builder(cuda()).block_size(mib(4)).blocks(16).build()
            })?;
            outlives_a_reset(environment, true, || {
                let pool = PoolMemoryResource::builder(cuda()).build()?;
                Ok(BinningMemoryResource::builder(pool).bins_of_powers(12..=21)?.build())
            })
        },
    );
}

#[test]
fn base_resources_outlive_a_reset() {
    in_a_process_of_its_own("driver::survivors::base_resources_outlive_a_reset", |environment| {
        outlives_a_reset(environment, false, || Ok(CudaMemoryResource::new()))?;
        outlives_a_reset(environment, false, VirtualMemoryResource::new)?;
        outlives_a_reset(environment, false, || CudaAsyncMemoryResource::builder().build())
    });
}

#[test]
fn a_pool_and_its_containers_say_that_a_kernel_has_failed() {
    in_a_process_of_its_own(
        "driver::survivors::a_pool_and_its_containers_say_that_a_kernel_has_failed",
        |environment| {
            let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
            let mut made = Made::new(pool)?;
            lose(environment)?;
            let error = made.stream.synchronize().err();
            ensure(
                error.as_ref().and_then(Error::code) == Some(CuResult::ILLEGAL_ADDRESS),
                || format!("the wait said {error:?}"),
            )?;
            made.say_that_it_is_lost()
        },
    );
}
