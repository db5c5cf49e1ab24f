//! The timed loop: replays a list of operations.

use std::time::{Duration, Instant};

use rmm_core::{CudaStream, DevicePtr, Error, Resource, StreamFlags, copy};

use crate::program::{Call, Program};

/// A [`Program`] with the streams and the table that it needs.
#[derive(Debug)]
pub struct Player<'a> {
    program: &'a Program,
    streams: Vec<CudaStream>,
    blocks: Vec<DevicePtr>,
    /// # Invariant
    /// The number of calls of the current run that were made, all on one resource and all with
    /// success.
    done: usize,
}

impl<'a> Player<'a> {
    /// Makes the streams: non-blocking ones of the current device.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new(program: &'a Program) -> Result<Self, Error> {
        let stream = |_| CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0);
        let streams = (0..program.streams()).map(stream).collect::<Result<_, _>>()?;
        Ok(Self { program, streams, blocks: vec![DevicePtr::NULL; program.slots()], done: 0 })
    }

    /// Makes all calls on this stream, whichever the list names.
    pub fn on_stream(program: &'a Program, stream: &CudaStream) -> Self {
        let streams = vec![stream.clone(); program.streams()];
        Self { program, streams, blocks: vec![DevicePtr::NULL; program.slots()], done: 0 }
    }

    /// Makes all calls.
    ///
    /// # Errors
    /// If an allocation fails. What is live then is lost to the program; a benchmark ends there.
    pub fn run(&mut self, resource: &impl Resource) -> Result<(), Error> {
        self.start_over();
        self.play(resource, usize::MAX, &mut Untimed)
    }

    /// Goes back to the first call of the list.
    pub fn start_over(&mut self) {
        self.done = 0;
    }

    /// Makes the next `count` calls of the list, or those that are left of it; the first after the
    /// last one.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    ///
    /// # Safety
    /// Unless this is the first of the list, the calls before it were made on this resource.
    pub unsafe fn run_next(&mut self, resource: &impl Resource, count: usize) -> Result<(), Error> {
        self.play(resource, count, &mut Untimed)
    }

    /// Makes all calls, and has each block filled by its stream once it is allocated.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run), and one if the driver refuses the work.
    ///
    /// # Safety
    /// The list frees each block on the stream that it was allocated on, as random lists do.
    pub unsafe fn run_filling_each(&mut self, resource: &impl Resource) -> Result<(), Error> {
        self.start_over();
        self.play(resource, usize::MAX, &mut Filling)
    }

    /// Makes all calls, reads the clock around each allocation, and adds what each took to `times`.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub fn run_timing_allocations(
        &mut self,
        resource: &impl Resource,
        times: &mut Vec<Duration>,
    ) -> Result<(), Error> {
        self.start_over();
        self.play(resource, usize::MAX, &mut Timing::<false>(times))
    }

    /// Makes all calls, reads the clock around each, and adds what each took to `times`.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub fn run_timing_each(
        &mut self,
        resource: &impl Resource,
        times: &mut Vec<Duration>,
    ) -> Result<(), Error> {
        self.start_over();
        self.play(resource, usize::MAX, &mut Timing::<true>(times))
    }

    /// Makes the next `count` calls, at most those that are left. After the last one comes the
    /// first.
    #[inline]
    fn play(
        &mut self,
        resource: &impl Resource,
        count: usize,
        how: &mut impl Around,
    ) -> Result<(), Error> {
        let list = &self.program.list()[std::mem::take(&mut self.done)..];
        let made = count.min(list.len());
        for call in &list[..made] {
            match *call {
                Call::Allocate { slot, stream, layout } => {
                    let stream = &self.streams[stream];
                    let block = how.allocation(|| resource.allocate(stream, layout))?;
                    self.blocks[slot] = block;
                    // SAFETY: the block was allocated just now on this stream, with this layout.
                    unsafe { how.allocated(stream, block, layout.size()) }?;
                }
                Call::Free { slot, stream, layout } => {
                    let (stream, block) = (&self.streams[stream], self.blocks[slot]);
                    // SAFETY: by the invariant of `Program` the slot holds a block that was
                    // allocated with this layout, in this run and so from this resource, and
                    // nothing frees it again. No work uses it, but for that which
                    // `run_filling_each` enqueues: on this stream, by its caller's contract.
                    how.free(|| unsafe { resource.deallocate(stream, block, layout) });
                }
            }
        }
        if made < list.len() {
            self.done = self.program.list().len() - (list.len() - made);
        }
        Ok(())
    }
}

/// What is done around each call.
trait Around {
    #[inline]
    fn allocation<T>(&mut self, call: impl FnOnce() -> T) -> T {
        call()
    }

    #[inline]
    fn free(&mut self, call: impl FnOnce()) {
        call();
    }

    /// # Safety
    /// The block has `bytes` bytes, which the next work on the stream may use.
    #[inline]
    unsafe fn allocated(&mut self, _: &CudaStream, _: DevicePtr, _: usize) -> Result<(), Error> {
        Ok(())
    }
}

/// Nothing.
struct Untimed;

impl Around for Untimed {}

/// The clock is read: around allocations, and around frees if `FREES`.
struct Timing<'t, const FREES: bool>(&'t mut Vec<Duration>);

impl<const FREES: bool> Around for Timing<'_, FREES> {
    #[inline]
    fn allocation<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let clock = Instant::now();
        let made = call();
        self.0.push(clock.elapsed());
        made
    }

    #[inline]
    fn free(&mut self, call: impl FnOnce()) {
        if FREES { self.allocation(call) } else { call() }
    }
}

/// Blocks are filled.
struct Filling;

impl Around for Filling {
    unsafe fn allocated(
        &mut self,
        stream: &CudaStream,
        block: DevicePtr,
        bytes: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller's contract.
        unsafe { copy::fill(block, 1, bytes, stream) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nothing::Nothing;
    use crate::protocol::RandomOps;

    #[test]
    fn a_list_run_in_parts_makes_each_call_once() {
        let program = Program::random(RandomOps { steps: 100, ..RandomOps::of_thread(0) }).unwrap();
        let calls = usize::try_from(program.calls()).unwrap();
        let mut player = Player {
            program: &program,
            streams: vec![CudaStream::legacy()],
            blocks: vec![],
            done: 0,
        };
        player.blocks = vec![DevicePtr::NULL; program.slots()];
        let mut times = Vec::new();
        for (count, made, done) in [(60, 60, 60), (usize::MAX, calls, 0), (calls, 2 * calls, 0)] {
            player.play(&Nothing, count, &mut Timing::<true>(&mut times)).unwrap();
            assert_eq!((times.len(), player.done), (made, done));
        }
        times.clear();
        player.run_timing_allocations(&Nothing, &mut times).unwrap();
        assert_eq!(times.len(), calls / 2, "a list frees what it allocates");
    }
}
