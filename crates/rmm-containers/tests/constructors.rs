//! Constructors of all containers: without suffix from the current resource of the stream's device,
//! with `_in` from the resource that is named.

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceBuffer, DeviceScalar, DeviceUVector, ManagedVec, PinnedVec};
use rmm_core::{AnyResource, CudaStream, Device, Error};
use rmm_resources::{
    CudaMemoryResource, PinnedHostMemoryResource, reset_per_device_resource,
    set_per_device_resource,
};
use rmm_sim::Machine;

type Pool = PoolMemoryResource;

fn pool() -> Result<Pool, Error> {
    Pool::builder(CudaMemoryResource::new()).build()
}

#[test]
fn constructors_without_suffix_use_the_streams_device() -> Result<(), Error> {
    let machine = Machine::builder().devices(2).enter();
    let second = Device::new(1)?;
    let (current, stream) = {
        let _current = second.make_current()?;
        (pool()?, CudaStream::new()?)
    };
    set_per_device_resource(second, &current)?;
    assert_eq!(Device::current()?.ordinal(), 0);

    let buffers = [
        DeviceBuffer::uninit(8, &stream)?,
        DeviceBuffer::uninit_aligned(8, 512, &stream)?,
        DeviceBuffer::zeroed(8, &stream)?,
        DeviceBuffer::filled(0, 8, &stream)?,
        DeviceBuffer::from_slice(&[0; 8], &stream)?,
        DeviceBuffer::from_fn(|_| 0, 8, &stream)?,
    ];
    for buffer in &buffers {
        assert!(buffer.resource().is_equal(&current));
        assert_eq!((buffer.device()?, buffer.len()), (second, 8));
        assert_eq!(buffer.stream(), &stream);
    }
    let vectors = [
        DeviceUVector::<u32>::uninit(2, &stream)?.into_buffer(),
        DeviceUVector::<u32>::uninit_aligned(2, 512, &stream)?.into_buffer(),
        DeviceUVector::<u32>::zeroed(2, &stream)?.into_buffer(),
        DeviceUVector::filled(7u32, 2, &stream)?.into_buffer(),
        DeviceUVector::from_slice(&[7u32; 2], &stream)?.into_buffer(),
        DeviceUVector::from_fn(|_| 7u32, 2, &stream)?.into_buffer(),
        DeviceScalar::new(7u64, &stream)?.into_vector().into_buffer(),
        DeviceScalar::<u64>::uninit(&stream)?.into_vector().into_buffer(),
        DeviceScalar::<u64>::zeroed(&stream)?.into_vector().into_buffer(),
    ];
    for buffer in &vectors {
        assert!(buffer.resource().is_equal(&current));
        assert_eq!((buffer.device()?, buffer.len()), (second, 8));
    }
    let staging = PinnedVec::from_slice(&[1u8, 2])?;
    let uploaded = staging.device_slice().to_device(&stream)?;
    assert!(uploaded.resource().is_equal(&current));
    assert_eq!(uploaded.to_vec()?, [1, 2]);
    // SAFETY: the source has 2 bytes that are not written.
    let copied = unsafe { DeviceBuffer::from_device_ptr(uploaded.as_ptr(), 2, &stream) }?;
    assert!(copied.resource().is_equal(&current));
    assert_eq!(current.statistics().allocations, 17);
    reset_per_device_resource(second)?;
    machine.assert_no_violations();
    Ok(())
}

#[test]
fn constructors_that_end_in_in_use_the_named_resource() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let (stream, pool) = (CudaStream::new()?, pool()?);

    assert_eq!(DeviceBuffer::zeroed_in(3, &stream, &pool)?.to_vec()?, [0; 3]);
    assert_eq!(DeviceBuffer::filled_in(9, 3, &stream, &pool)?.to_vec()?, [9; 3]);
    assert_eq!(DeviceBuffer::from_fn_in(|i| b"abc"[i], 3, &stream, &pool)?.to_vec()?, b"abc");
    assert_eq!(DeviceUVector::<f64>::zeroed_in(3, &stream, &pool)?.to_vec()?, [0.0; 3]);
    assert_eq!(DeviceUVector::filled_in(0.5, 3, &stream, &pool)?.to_vec()?, [0.5; 3]);
    let vector = DeviceUVector::from_fn_in(|i| [i, i * i], 3, &stream, &pool)?;
    assert_eq!(vector.to_vec()?, [[0, 0], [1, 1], [2, 4]]);
    assert_eq!(DeviceScalar::<u16>::zeroed_in(&stream, &pool)?.value()?, 0);
    assert_eq!(DeviceScalar::<u8>::uninit_in(&stream, &pool)?.resource(), &AnyResource::of(&pool));
    let again = vector.as_slice().to_device_in(&stream, &pool)?;
    assert_eq!(again.to_vec()?, vector.to_vec()?);
    assert_eq!(pool.statistics().allocations, 9);
    Ok(())
}

#[test]
fn a_clone_keeps_stream_and_resource_unless_another_is_named() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
    let (pool, second) = (pool()?, pool()?);

    let vector = DeviceUVector::from_slice_in(&[1u32, 2, 3], &stream, &pool)?;
    let clones = [
        (vector.try_clone()?, &stream, &pool),
        (vector.try_clone_on(&other)?, &other, &pool),
        (vector.try_clone_in(&other, &second)?, &other, &second),
    ];
    for (clone, its_stream, its_pool) in &clones {
        assert_eq!(clone.to_vec()?, [1, 2, 3]);
        assert_eq!(&clone.stream(), its_stream);
        assert!(clone.resource().is_equal(*its_pool));
    }
    let scalar = DeviceScalar::new_in(25, &stream, &pool)?;
    assert_eq!(scalar.try_clone()?.value()?, 25);
    let elsewhere = scalar.try_clone_in(&other, &second)?;
    assert_eq!((elsewhere.value()?, elsewhere.stream()), (25, &other));
    assert!(elsewhere.resource().is_equal(&second));
    assert_eq!(DeviceBuffer::from_slice(b"bytes", &stream)?.try_clone()?.to_vec()?, b"bytes");
    Ok(())
}

#[test]
fn host_vectors_have_the_same_constructors() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let resource = PinnedHostMemoryResource::new();
    assert!(PinnedVec::<u8>::new()?.is_empty());
    assert_eq!(PinnedVec::<u8>::zeroed(2)?.as_slice()?, [0, 0]);
    assert_eq!(ManagedVec::filled(3u8, 2)?.as_slice()?, [3, 3]);
    assert_eq!(PinnedVec::filled_in(4u8, 2, resource)?.as_slice()?, [4, 4]);
    assert_eq!(ManagedVec::from_fn(|i| i, 3)?.as_slice()?, [0, 1, 2]);
    let vector = PinnedVec::from_fn_in(|i| [0u16, 1, 2][i], 3, resource)?;
    assert_eq!((vector.resource(), vector.device()?.ordinal()), (&resource, 0));
    assert_eq!(vector.try_clone()?.as_slice()?, [0, 1, 2]);
    assert_eq!(vector.try_clone_in(resource)?.as_slice()?, [0, 1, 2]);
    Ok(())
}

#[test]
fn names_are_shown_and_stay_when_the_memory_moves() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let stream = CudaStream::new()?;
    let mut weights = DeviceUVector::from_slice(&[1.0f32; 4], &stream)?.with_name("weights");
    weights.resize(1000)?;
    assert_eq!(weights.name(), Some("weights"));
    for shown in [format!("{weights:?}"), format!("{:?}", weights.as_slice())] {
        assert!(shown.contains(r#"name: "weights""#), "{shown}");
    }
    let errors = [
        weights.element(1000).unwrap_err(),
        weights.copy_from_slice(&[0.0; 1001]).unwrap_err(),
        weights.as_slice_mut().copy_from_slice_on(&[0.0; 3], &stream).unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().ends_with("in `weights`"), "{error}");
    }
    assert_eq!(weights.try_clone()?.name(), None);
    let staging = PinnedVec::<u8>::zeroed(1)?.with_name("staging");
    assert!(format!("{staging:?}").contains(r#"name: "staging""#));
    assert_eq!(staging.name(), Some("staging"));
    let scalar = DeviceScalar::new(1u8, &stream)?.with_name("sum");
    assert_eq!(scalar.into_vector().into_buffer().name(), Some("sum"));
    Ok(())
}
