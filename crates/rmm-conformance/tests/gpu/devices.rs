//! Objects belong to their device, whichever of two devices is current.

use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rmm_adaptors::PoolMemoryResource;
use rmm_conformance::{CheckResult, Failure, Random, ensure};
use rmm_containers::DeviceBuffer;
use rmm_core::{CudaStream, Device, DevicePtr, Error, Resource, SynchronousResource, copy};
use rmm_resources::{
    CudaAsyncMemoryResource, CudaMemoryResource, current_device_resource, per_device_resource,
    reset_per_device_resource, set_per_device_resource,
};

use crate::pair::{Pair, device_of, in_every_pair, on, stream};
use crate::witness::Witness;

const MIB: usize = 1 << 20;

/// `count` MiB of device memory, in bytes.
const fn mib(count: u64) -> u64 {
    count << 20
}

#[track_caller]
fn is_current(device: Device) -> CheckResult {
    let current = Device::current()?;
    ensure(current == device, || format!("{current:?} is current, expected {device:?}"))
}

#[test]
fn guards_restore_the_device_that_was_current() {
    in_every_pair(|&Pair { home, other, .. }| {
        is_current(home)?;
        let outer = other.make_current()?;
        {
            let _inner = home.make_current()?;
            is_current(home)?;
            let _same = home.make_current()?;
            is_current(home)?;
        }
        is_current(other)?;
        drop(outer);
        is_current(home)?;

        let fail = || -> Result<(), Error> {
            let _guard = other.make_current()?;
            Device::new(Device::count()?).map(drop)
        };
        ensure(fail().is_err_and(|error| error.is_invalid_argument()), || {
            "a device that is not there was found".to_owned()
        })?;
        is_current(home)?;

        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _outer = other.make_current().expect("a device");
            let _inner = home.make_current().expect("a device");
            panic!("leaves both scopes");
        }));
        ensure(panicked.is_err(), || "the panic got lost".to_owned())?;
        is_current(home)
    });
}

/// Allocates from the resource while `current` is current, and frees what `check` has looked at.
fn allocated_on(
    current: Device,
    resource: &impl SynchronousResource,
    check: impl FnOnce(DevicePtr) -> CheckResult,
) -> CheckResult {
    on(current, || {
        let layout = Layout::new::<[u8; MIB]>();
        let pointer = resource.allocate_sync(layout)?;
        let result = check(pointer);
        // SAFETY: allocated above with this layout, and not used.
        unsafe { resource.deallocate_sync(pointer, layout) };
        result
    })
}

#[track_caller]
fn lies_on(pointer: DevicePtr, device: Device) -> CheckResult {
    let found = device_of(pointer)?;
    ensure(found == device.ordinal(), || format!("memory of device {found}, expected {device:?}"))
}

#[test]
fn each_device_has_its_own_resource() {
    in_every_pair(|pair| {
        let resources = pair.devices().map(|device| {
            let made = on(device, || Ok(CudaAsyncMemoryResource::new()?))?;
            set_per_device_resource(device, &made)?;
            Ok::<_, Failure>((device, made))
        });
        for result in resources {
            let (device, made) = result?;
            let found = on(device, || Ok(current_device_resource()?))?;
            ensure(found.downcast_ref() == Some(&made), || {
                format!("{device:?} has the resource {}", found.name())
            })?;
            ensure(found == per_device_resource(device)?, || "two for one device".to_owned())?;
            for current in pair.devices() {
                allocated_on(current, &found, |pointer| lies_on(pointer, device))?;
            }
            let reset = reset_per_device_resource(device)?;
            ensure(reset.downcast_ref() == Some(&made), || "another one was set".to_owned())?;
        }
        for current in pair.devices() {
            let plain = on(current, || Ok(current_device_resource()?))?;
            allocated_on(current, &plain, |pointer| lies_on(pointer, current))?;
        }
        Ok(())
    });
}

#[test]
fn a_buffer_works_and_ends_on_the_device_that_it_was_made_on() {
    in_every_pair(|&Pair { home, other, .. }| {
        let witness = Witness::default();
        let mut buffer = on(other, || {
            let own = stream()?;
            Ok(DeviceBuffer::from_slice_in(&[5; 1000], &own, &witness)?)
        })?;
        is_current(home)?;
        lies_on(buffer.as_ptr(), other)?;
        buffer.resize(MIB)?;
        lies_on(buffer.as_ptr(), other)?;
        let own = buffer.stream().clone();
        let copied = buffer.try_clone_on(&own)?;
        ensure(copied.to_vec_on(&own)?[..1000] == [5; 1000], || {
            "other bytes came back".to_owned()
        })?;
        drop((buffer, copied));
        is_current(home)?;
        let (seen, expected) = (witness.seen(), vec![other.ordinal(); 6]);
        ensure(seen == expected, || {
            format!("three allocations and their frees on {seen:?}, expected {expected:?}")
        })
    });
}

/// A block of a pool, which holds its own number.
struct Held {
    place: usize,
    pointer: DevicePtr,
    layout: Layout,
    number: u32,
}

fn write(held: &Held, stream: &CudaStream) -> CheckResult {
    let bytes = held.number.to_ne_bytes();
    // SAFETY: a block is at least as long and in this stream's order, and `bytes` lives until the
    // synchronization below.
    unsafe { copy::host_to_device(held.pointer, bytes.as_ptr().cast(), 4, stream) }?;
    Ok(stream.synchronize()?)
}

fn still_holds_its_number(held: &Held, stream: &CudaStream) -> CheckResult {
    let mut bytes = [0u8; 4];
    // SAFETY: as in `write`.
    unsafe { copy::device_to_host(bytes.as_mut_ptr().cast(), held.pointer, 4, stream) }?;
    stream.synchronize()?;
    let (found, number) = (u32::from_ne_bytes(bytes), held.number);
    ensure(found == number, || format!("block {number} holds {found}"))
}

#[test]
fn pools_of_two_devices_never_mix_their_blocks() {
    in_every_pair(|pair| {
        let make = |device| {
            on(device, || {
                let pool = PoolMemoryResource::builder(CudaMemoryResource::new());
                Ok((pool.maximum_size(mib(64)).build()?, stream()?))
            })
        };
        let places = [make(pair.home)?, make(pair.other)?];
        let (mut random, mut held) = (Random::new(7), Vec::<Held>::new());
        for number in 0..400 {
            let _current = pair.devices()[random.index(2)].make_current()?;
            if held.len() < 40 && random.below(3) > 0 {
                let place = random.index(2);
                let size = 256 * (1 + random.index(1000));
                let layout = Layout::from_size_align(size, 256).map_err(Failure::new)?;
                let (pool, own) = &places[place];
                let pointer = pool.allocate(own, layout)?;
                held.push(Held { place, pointer, layout, number });
                lies_on(pointer, pair.devices()[place])?;
                on(pair.devices()[place], || write(&held[held.len() - 1], own))?;
            } else if !held.is_empty() {
                let given = held.swap_remove(random.index(held.len()));
                let (pool, own) = &places[given.place];
                on(pair.devices()[given.place], || still_holds_its_number(&given, own))?;
                // SAFETY: allocated from this pool with this layout, and all uses are done.
                unsafe { pool.deallocate(own, given.pointer, given.layout) };
            }
        }
        for given in held {
            let (pool, own) = &places[given.place];
            on(pair.devices()[given.place], || still_holds_its_number(&given, own))?;
            // SAFETY: as above.
            unsafe { pool.deallocate(own, given.pointer, given.layout) };
        }
        Ok(())
    });
}
