//! The timed loop: replays a list of operations.

use std::time::{Duration, Instant};

use rmm_core::{CudaStream, DevicePtr, Error, Resource, StreamFlags};

use crate::program::{Call, Program};

/// A [`Program`] with the streams and the table that it needs.
#[derive(Debug)]
pub struct Player<'a> {
    program: &'a Program,
    streams: Vec<CudaStream>,
    blocks: Vec<DevicePtr>,
}

impl<'a> Player<'a> {
    /// Makes the streams: non-blocking ones of the current device.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new(program: &'a Program) -> Result<Self, Error> {
        let stream = |_| CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0);
        let streams = (0..program.streams()).map(stream).collect::<Result<_, _>>()?;
        Ok(Self { program, streams, blocks: vec![DevicePtr::NULL; program.slots()] })
    }

    /// Makes all calls.
    ///
    /// # Errors
    /// If an allocation fails. What is live then is lost to the program; a benchmark ends there.
    pub fn run(&mut self, resource: &impl Resource) -> Result<(), Error> {
        self.play::<false>(resource, &mut Vec::new())
    }

    /// Makes all calls, reads the clock around each allocation, and adds what each took to `times`.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_timing_each(
        &mut self,
        resource: &impl Resource,
        times: &mut Vec<Duration>,
    ) -> Result<(), Error> {
        self.play::<true>(resource, times)
    }

    #[inline]
    fn play<const TIMED: bool>(
        &mut self,
        resource: &impl Resource,
        times: &mut Vec<Duration>,
    ) -> Result<(), Error> {
        for call in self.program.list() {
            match *call {
                Call::Allocate { slot, stream, layout } => {
                    let stream = self.streams[stream].as_stream_ref();
                    self.blocks[slot] = if TIMED {
                        let clock = Instant::now();
                        let block = resource.allocate(stream, layout);
                        times.push(clock.elapsed());
                        block?
                    } else {
                        resource.allocate(stream, layout)?
                    };
                }
                Call::Free { slot, stream, layout } => {
                    let (stream, block) = (&self.streams[stream], self.blocks[slot]);
                    // SAFETY: by the invariant of `Program` the slot holds a block that was
                    // allocated with this layout, in this run and so from this resource, and
                    // nothing frees it again. No work uses it.
                    unsafe { resource.deallocate(stream, block, layout) };
                }
            }
        }
        Ok(())
    }
}
