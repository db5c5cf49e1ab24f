//! Each driver call of a program fails in turn: no accesses race, no memory leaks, and containers
//! are unchanged.

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceBuffer, DeviceScalar, DeviceUVector, PinnedVec};
use rmm_core::sys::CuResult;
use rmm_core::{AnyResource, Context, CudaStream, Error, StreamFlags};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
use rmm_sim::{Checker, Fault, Machine, Schedule};

struct Scene {
    resource: AnyResource,
    own: CudaStream,
    other: CudaStream,
}

fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

fn over_driver() -> AnyResource {
    AnyResource::new(CudaAsyncMemoryResource::new().expect("a resource"))
}

fn over_pool() -> AnyResource {
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new());
    AnyResource::new(pool.initial_size(1 << 20).build().expect("a pool"))
}

/// Runs `program` once for each of its driver calls, which fails, and then `afterwards`, which must
/// hold whichever failed.
fn fail_each<T>(
    resource: fn() -> AnyResource,
    prepare: impl Fn(&Scene) -> T,
    program: impl Fn(&Scene, &mut T) -> Result<(), Error>,
    afterwards: impl Fn(&Scene, T),
) -> u64 {
    let machine = Machine::builder().memory(1 << 30).schedule(Schedule::Lazy);
    Checker::new().machine(machine).fail_each_call(CuResult::UNKNOWN, |machine| {
        let (scene, mut prepared) = machine.without_faults(|| {
            let scene = Scene { resource: resource(), own: stream(), other: stream() };
            let prepared = prepare(&scene);
            (scene, prepared)
        });
        let outcome = program(&scene, &mut prepared);
        machine.without_faults(|| {
            assert!(outcome.is_ok() || !machine.failed_calls().is_empty(), "{outcome:?}");
            afterwards(&scene, prepared);
            drop(scene);
        });
    })
}

#[test]
fn a_failed_constructor_leaks_nothing() {
    for resource in [over_driver, over_pool] {
        let failed = fail_each(
            resource,
            |_| (),
            |scene, ()| {
                let buffer = DeviceBuffer::from_slice_in(b"bytes", &scene.own, &scene.resource)?;
                let cloned = buffer.try_clone_on(&scene.other)?;
                // SAFETY: the buffer is on this stream and has 5 bytes.
                let again = unsafe {
                    DeviceBuffer::from_device_ptr_in(
                        buffer.as_ptr(),
                        5,
                        &scene.own,
                        &scene.resource,
                    )
                }?;
                drop((cloned, again));
                DeviceScalar::new_in(5u64, &scene.other, &scene.resource).map(drop)
            },
            |_, ()| (),
        );
        assert!(failed > 10, "{failed} calls");
    }
}

#[test]
fn a_failed_change_leaves_the_vector_unchanged() {
    let numbers: Vec<u32> = (0..100).collect();
    for resource in [over_driver, over_pool] {
        fail_each(
            resource,
            |scene| {
                let mut vector =
                    DeviceUVector::from_slice_in(&numbers, &scene.own, &scene.resource)
                        .expect("there is memory");
                vector.as_slice_mut().slice(..1).unwrap().fill_on(0, &scene.other).unwrap();
                vector
            },
            |scene, vector| {
                vector.reserve(1000)?;
                vector.resize(200)?;
                vector.resize(100)?;
                vector.shrink_to_fit()?;
                vector.set_stream(&scene.other)
            },
            |scene, mut vector| {
                assert!(vector.capacity() >= vector.len());
                vector.resize(100).unwrap();
                assert_eq!(vector.to_vec_on(&scene.own).unwrap(), numbers);
            },
        );
    }
}

#[test]
fn uses_on_other_streams_are_ordered_or_refused() {
    for resource in [over_driver, over_pool] {
        fail_each(
            resource,
            |scene| {
                let zeros = [0u32; 100];
                DeviceUVector::from_slice_in(&zeros, &scene.own, &scene.resource).unwrap()
            },
            |scene, vector| {
                let (mut left, mut right) = vector.as_slice_mut().split_at(50)?;
                left.fill_on(1, &scene.other)?;
                right.fill_on(1, &scene.own)?;
                right.copy_from_on(left.as_slice(), &scene.other)?;
                drop(vector.use_on(&scene.other)?);
                vector.fill(1)?;
                vector.wait_for_other_streams()?;
                vector.to_vec_on(&scene.other).map(drop)
            },
            |scene, vector| {
                let elements = vector.to_vec_on(&scene.own).unwrap();
                assert!(elements.iter().all(|element| *element <= 1));
                drop(vector);
            },
        );
    }
}

#[test]
fn dropping_never_fails() {
    for resource in [over_driver, over_pool] {
        fail_each(
            resource,
            |scene| {
                let mut vector =
                    DeviceUVector::<u32>::uninit_in(100, &scene.own, &scene.resource).unwrap();
                vector.as_slice_mut().fill_on(1, &scene.other).unwrap();
                vec![vector]
            },
            |_, vectors| {
                vectors.clear();
                Ok(())
            },
            |scene, _| {
                let next = DeviceUVector::<u32>::uninit_in(100, &scene.own, &scene.resource);
                next.unwrap().fill(2).unwrap();
            },
        );
    }
}

#[test]
fn host_memory_is_not_freed_under_a_copy() {
    fail_each(
        over_driver,
        |scene| {
            Context::current().unwrap();
            DeviceUVector::from_slice_in(&[7u32; 100], &scene.own, &scene.resource).unwrap()
        },
        |scene, vector| {
            let mut pinned = PinnedVec::from_slice(&[7; 100])?;
            vector.as_slice_mut().copy_from_on(pinned.device_slice(), &scene.other)?;
            pinned.copy_from_device(vector.as_slice(), &scene.own)?;
            assert_eq!(pinned.as_slice()?, [7; 100]);
            pinned.as_mut_slice()?.fill(7);
            vector.as_slice_mut().copy_from_on(pinned.device_slice(), &scene.other)?;
            pinned.extend_from_slice(&[1])
        },
        |scene, vector| assert_eq!(vector.to_vec_on(&scene.own).unwrap(), [7; 100]),
    );
}

#[test]
fn a_lost_device_causes_errors_and_no_hang() {
    for call in 1..40 {
        let machine = Machine::builder().memory(1 << 30).schedule(Schedule::Lazy).enter();
        let (own, other, resource) = (stream(), stream(), over_driver());
        machine.fail(Fault::device_lost(call));
        let (mut vectors, mut staging) = (None, None);
        let mut program = || -> Result<(), Error> {
            let vector = DeviceUVector::<u32>::uninit_in(100, &own, &resource)?;
            let vector = vectors.insert(vector);
            vector.as_slice_mut().fill_on(1, &other)?;
            let pinned = staging.insert(PinnedVec::zeroed(100)?);
            pinned.copy_from_device(vector.as_slice(), &own)?;
            vector.resize(200)?;
            vector.copy_from_slice(&[1; 200])?;
            pinned.as_slice().map(drop)
        };
        let outcome = program();
        assert_eq!(outcome.is_ok(), machine.failed_calls().is_empty(), "call {call}");
        drop((vectors, staging));
    }
}
