//! Containers in memory that is not there: while the pool sleeps or falls asleep, and after the end
//! of its context, none is made, grown or cloned.

use rmm_adaptors::{Contents, PoolMemoryResource, SleepOptions};
use rmm_containers::{DeviceBuffer, DeviceScalar, DeviceUVector, HostVec};
use rmm_core::{AnyResource, CudaStream, Device, Error, HostDeviceAccessible};
use rmm_resources::{PinnedHostMemoryResource, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};
use rmm_sys::CuResult;

type Pool = PoolMemoryResource;

/// Makes a container in the resource, or makes one larger that was made before.
type Way = fn(&AnyResource, &CudaStream, &mut DeviceUVector<u32>) -> Result<(), Error>;

const BYTES: usize = 4096;

const WAYS: [(&str, Way); 9] = [
    ("a buffer", |pool, on, _| DeviceBuffer::uninit_in(BYTES, on, pool).map(drop)),
    ("a large buffer", |pool, on, _| DeviceBuffer::uninit_in(3 << 20, on, pool).map(drop)),
    ("a vector", |pool, on, _| DeviceUVector::<u32>::uninit_in(BYTES, on, pool).map(drop)),
    ("a filled vector", |pool, on, _| DeviceUVector::<u32>::zeroed_in(BYTES, on, pool).map(drop)),
    ("a copy", |pool, on, _| DeviceUVector::from_slice_in(&[7_u32; 100], on, pool).map(drop)),
    ("a scalar", |pool, on, _| DeviceScalar::<u32>::new_in(7, on, pool).map(drop)),
    ("a clone", |_, _, old| old.try_clone().map(drop)),
    ("a vector that grows", |_, _, old| old.resize(2 * BYTES)),
    ("a vector that reserves", |_, _, old| old.reserve(2 * BYTES)),
];

fn ask(pool: &Pool, on: &CudaStream, old: &mut DeviceUVector<u32>, is_it: fn(&Error) -> bool) {
    let reserved = AnyResource::new(pool.clone());
    for (name, way) in WAYS {
        let error = way(&reserved, on, old).expect_err(name);
        assert!(is_it(&error), "{name}: {error}");
    }
}

fn in_state(enter: impl Fn(&Pool, &CudaStream, &mut DeviceUVector<u32>)) {
    let machine = Machine::builder().memory(64 << 20).schedule(Schedule::Lazy).enter();
    let _current = Device::new(0).and_then(Device::make_current).expect("a device");
    let pages = VirtualMemoryResource::new().expect("pages");
    let pool = PoolMemoryResource::builder(pages).build().expect("a pool");
    let on = CudaStream::new().expect("a stream");
    let mut old = DeviceUVector::from_slice_in(&[7_u32; BYTES], &on, &pool).expect("memory");
    // Blocks of every size are cached.
    let mut larger = old.try_clone().expect("memory");
    larger.resize(2 * BYTES).expect("memory");
    drop(larger);
    enter(&pool, &on, &mut old);
    drop((old, pool, on));
    machine.assert_no_violations();
}

#[test]
fn no_container_is_made_while_its_pool_sleeps() {
    in_state(|pool, on, old| {
        let sleep = |report: &mut dyn FnMut()| {
            let options = SleepOptions::new(Contents::ToHost).wait_for_work(true);
            // SAFETY: no work uses the pool's memory until it is awake again.
            unsafe { pool.sleep_with(options.on_progress(|_| report())) }.expect("it sleeps");
        };
        sleep(&mut || ask(pool, on, old, Error::is_not_ready));
        ask(pool, on, old, Error::is_not_ready);
        pool.wake_with(|_| ask(pool, on, old, Error::is_not_ready)).expect("there is memory");
        assert_eq!(old.to_vec().expect("it is awake"), [7; BYTES]);
        old.resize(2 * BYTES).expect("it is awake");
    });
}

#[test]
fn no_container_is_made_after_the_end_of_a_context() {
    in_state(|pool, on, old| {
        let device = Device::new(0).expect("a device");
        // SAFETY: the library supports a reset.
        let code = unsafe { rmm_sim::driver().cuDevicePrimaryCtxReset_v2(device.as_raw()) };
        assert_eq!(code, CuResult::SUCCESS);
        ask(pool, on, old, Error::is_context_lost);
        let _next = device.make_current().expect("a device");
        ask(pool, on, old, Error::is_context_lost);
    });
}

#[test]
fn no_host_vector_is_made_in_a_pool_whose_context_ended() {
    let machine = Machine::builder().memory(64 << 20).enter();
    let _current = Device::new(0).and_then(Device::make_current).expect("a device");
    let pinned = PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(
        PinnedHostMemoryResource::new(),
    );
    let pinned = pinned.build().expect("a pool");
    let reserved = pinned.reserve(1 << 20).expect("memory");
    let old = HostVec::<u8, _>::zeroed_in(BYTES, pinned.clone()).expect("memory");
    let device = Device::new(0).expect("a device");
    // SAFETY: nothing accesses the old context's memory afterwards.
    let code = unsafe { rmm_sim::driver().cuDevicePrimaryCtxReset_v2(device.as_raw()) };
    assert_eq!(code, CuResult::SUCCESS);
    let _next = device.make_current().expect("a device");
    HostVec::<u8, _>::zeroed_in(BYTES, pinned.clone()).expect_err("its memory is gone");
    HostVec::<u8, _>::zeroed_in(BYTES, reserved).expect_err("its memory is gone");
    drop((old, pinned));
    machine.assert_no_violations();
}
