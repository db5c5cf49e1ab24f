//! Containers report what another container can be made like them with.

use std::fmt::{self, Write as _};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceBuffer, DeviceUVector};
use rmm_core::{AnyResource, CudaStream, Error, HasResource};
use rmm_resources::CudaMemoryResource;

/// A buffer from the same resource as `container`.
fn beside<H>(container: &H, alignment: usize, stream: &CudaStream) -> Result<DeviceBuffer, Error>
where
    H: HasResource<Resource = AnyResource>,
{
    DeviceBuffer::uninit_aligned_in(100, alignment, stream, container.memory_resource())
}

#[test]
fn a_container_is_made_like_another() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let stream = CudaStream::new()?;
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    let vector = DeviceUVector::<f64>::uninit_aligned_in(10, 512, &stream, &pool)?;
    assert_eq!((vector.alignment(), vector.as_ptr().0 % 512), (512, 0));
    let first = beside(&vector, vector.alignment(), &stream)?;
    let second = beside(&first, first.alignment(), &stream)?;
    for buffer in [&first, &second] {
        assert_eq!((buffer.alignment(), buffer.as_ptr().0 % 512), (512, 0));
        assert!(buffer.resource().is_equal(&pool));
    }
    assert_eq!(pool.statistics().allocations, 3);
    Ok(())
}

#[test]
fn a_wrong_alignment_does_not_reach_the_resource() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let stream = CudaStream::new()?;
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    for wrong in [0, 4, 24] {
        let error = DeviceUVector::<f64>::uninit_aligned_in(10, wrong, &stream, &pool).unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
    }
    assert_eq!(pool.statistics().allocations, 0);
    Ok(())
}

/// A writer that uses the buffer which is written to it.
struct Using<'a>(&'a DeviceBuffer, &'a CudaStream);

impl fmt::Write for Using<'_> {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        self.0.use_on(self.1).map(drop).map_err(|_| fmt::Error)
    }
}

#[test]
fn a_writer_may_use_the_buffer_that_it_gets() {
    let (done, is_done) = channel();
    thread::spawn(move || {
        let _machine = rmm_sim::enter();
        let [owner, other] = [(); 2].map(|()| CudaStream::new().expect("a stream"));
        let buffer = DeviceBuffer::uninit(100, &owner).expect("there is memory");
        let _recorded = buffer.use_on(&other).expect("it is recorded, and so listed");
        let written = write!(Using(&buffer, &other), "{buffer:?}");
        done.send(written.is_ok()).expect("the test waits for it");
    });
    let ended = is_done.recv_timeout(Duration::from_secs(60));
    assert_eq!(ended, Ok(true), "it does not wait for itself");
}
