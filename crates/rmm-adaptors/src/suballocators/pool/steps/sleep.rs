//! Sleep: all physical memory goes back to the device, all addresses stay, and the pool maps memory
//! there again when it wakes up.
//!
//! Falling asleep, with the pool's lock released from 4 on:
//!
//! 1. no thread gets memory any more, and those that are in the middle of a request finish it
//! 2. all caches are flushed, and none is made while the pool is not awake: so the fast path, which
//!    does not look at the pool, has nothing
//! 3. all work of the device is waited for
//! 4. contents are copied to the host, if they are to be kept
//! 5. upstream suspends all blocks, all or none
//!
//! A step that fails is undone, and the pool is awake. Waking up is 5 and 4 backwards. Where memory
//! is short, siblings and the program's callbacks are asked as for an allocation; if it fails, the
//! pool goes on sleeping.
//!
//! What stands above the pool, such as a reservation, an arena or another pool, hands out nothing
//! from 1 on either: see [`sleeping_memory`](crate::suballocators::pool::state::sleeping_memory).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rmm_core::siblings::allocate_with;
use rmm_core::{
    AnyResource, CudaStream, Device, DevicePtr, Error, ErrorKind, ExtendableResource,
    RelaxedCapture, StreamRef, fork,
};

use super::pressure::{self, Pressure};
use crate::suballocators::pool::state::asleep::{Asleep, Left, Phase, Pieces, bytes_of};
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::host_copy::HostCopy;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::state::session::Session;
use crate::suballocators::pool::state::sleeping_memory::{SleepingMemory, merged};
use crate::suballocators::pool::state::upstream_observers::{allocated, released};
use crate::suballocators::pool::values::sleep_options::{Contents, CopyProgress, SleepOptions};

/// A pool that is not awake, and is so again when this is dropped.
struct Change<'s, 'p> {
    session: &'s mut Session<'p>,
    /// `None` once the pool sleeps.
    memory: Option<SleepingMemory>,
}

impl Drop for Change<'_, '_> {
    fn drop(&mut self) {
        if self.memory.is_some() {
            self.session.phase = Phase::Awake;
        }
    }
}

impl<'s, 'p> Change<'s, 'p> {
    /// Keeps all threads from allocating, and waits for those that are in the middle of it.
    fn begin(session: &'s mut Session<'p>) -> Result<Self, Error> {
        session.phase.check_awake(session.core.name)?;
        session.phase = Phase::Changing;
        let memory = SleepingMemory::new(session.upstream_ranges());
        let change = Self { session, memory: Some(memory) };
        change.session.wait_until_alone()?;
        // Those threads may have got more.
        if let Some(memory) = &change.memory {
            memory.set(change.session.upstream_ranges());
        }
        Ok(change)
    }

    /// The pool sleeps from now on.
    fn keep(mut self, pieces: Pieces, contents: Option<HostCopy>, left: Left) {
        if let Some(memory) = self.memory.take() {
            self.session.phase = Phase::Asleep(Asleep { pieces, contents, left, _memory: memory });
        }
    }

    /// Waits for the device, and finds out what has to be suspended and copied.
    fn prepare(
        &mut self,
        waits: bool,
        contents: Contents,
    ) -> Result<(Pieces, Vec<(u64, u64)>), Error> {
        let core = self.session.core;
        let session = &mut *self.session;
        core.flush_caches(session);
        if session.may_capture() {
            let why =
                "a pool cannot fall asleep during a capture, whose graph would use its memory";
            return Err(Error::unsupported(core.name, why));
        }
        if !session.graph_blocks.is_empty() {
            let why = "memory is reserved for graphs, which may be launched at any time";
            return Err(Error::unsupported(core.name, why));
        }
        if !waits && session.has_pending_work()? {
            let why = "work is pending: synchronize, or allow it to wait";
            return Err(Error::not_ready(core.name, why));
        }
        session.try_wait_for_device()?;
        let pieces = session.heap.pieces().map(|piece| session.upstream_block(piece));
        let pieces = pieces.map(|block| (block.base, block.layout)).collect();
        let is_kept = contents == Contents::ToHost;
        Ok((pieces, if is_kept { session.live_ranges() } else { Vec::new() }))
    }
}

impl PoolCore {
    /// What suspends and resumes this pool's blocks.
    fn sleeper<'u>(
        &self,
        upstream: &'u AnyResource<()>,
    ) -> Result<&'u dyn ExtendableResource, Error> {
        let why = "only a pool over `VirtualMemoryResource` can return memory and keep addresses";
        let unsupported = || Error::unsupported(self.name, why);
        let extendable = self.extendable(upstream).ok_or_else(unsupported)?;
        // SAFETY: no blocks.
        match unsafe { extendable.suspend(&[]) } {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Err(unsupported().with_source(error))
            }
            answer => answer.map(|()| extendable),
        }
    }

    /// Reports to the checker that blocks are this pool's to copy, unmap and map, or not any more.
    fn annotate_sleep(&self, pieces: &Pieces, is_asleep: bool) {
        for (base, layout) in pieces {
            self.annotator.suspended(*base, layout.size(), is_asleep);
        }
    }

    /// # Safety
    /// The contract of [`PoolMemoryResource::sleep`](crate::PoolMemoryResource::sleep).
    pub(crate) unsafe fn sleep(
        &self,
        upstream: &AnyResource<()>,
        mut options: SleepOptions<'_>,
    ) -> Result<u64, Error> {
        let extendable = self.sleeper(upstream)?;
        let _context = self.context.enter()?;
        let _relaxed = RelaxedCapture::enter();
        let mut session = Session::new(self);
        let mut change = Change::begin(&mut session)?;
        let (pieces, live) = change.prepare(options.waits, options.contents)?;
        let (mut contents, mut is_announced) = (None, false);
        let suspended = change.session.unlocked(|| {
            self.annotate_sleep(&pieces, true);
            if options.contents == Contents::ToHost {
                let mut copy = HostCopy::allocate(options.take_host_memory(), &live)?;
                let mut report = |copied, total| {
                    if let Some(report) = &mut options.report {
                        report(CopyProgress { copied, total });
                    }
                };
                // SAFETY: the ranges are blocks of the pool, all work of the context has completed,
                // and by the caller's contract there is no other.
                unsafe { copy.copy_to_host(&mut report) }?;
                contents = Some(copy);
            }
            self.observers.call(ranges_of(&pieces).map(released));
            is_announced = true;
            // SAFETY: the pieces came from this upstream with these layouts; all uses have
            // completed, and by the caller's contract none begins.
            unsafe { extendable.suspend(&pieces) }
        });
        let failed = match suspended {
            Ok(Ok(())) => {
                let bytes = bytes_of(&pieces);
                change.keep(pieces, contents, Left::Unused(Vec::new()));
                return Ok(bytes);
            }
            failed => failed,
        };
        // No block has lost its contents, and none needs new memory.
        let resumed = change.session.unlocked(|| {
            extendable.resume(&pieces).map(|()| {
                if is_announced {
                    self.observers.call(ranges_of(&pieces).map(allocated));
                }
                self.annotate_sleep(&pieces, false);
                drop(contents.take());
            })
        });
        let is_awake = matches!(resumed, Ok(Ok(())));
        if is_awake {
            drop(change);
        } else {
            let left = match &contents {
                Some(_) => Left::Unused(pieces.clone()),
                None => Left::Contents,
            };
            change.keep(pieces, contents, left);
        }
        drop(session);
        match failed {
            Ok(Err(error)) if is_awake => Err(error),
            Ok(error) => {
                let why = "the driver refused half-way, and refused to go back: wake the pool";
                Err(error.map_or_else(
                    |error| Error::not_ready(self.name, why).with_source(error),
                    |()| Error::not_ready(self.name, why),
                ))
            }
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Forgets what it keeps for blocks that never wake up, at the pool's end.
    pub(crate) fn end_sleep(&self) {
        let phase = std::mem::take(&mut self.lock().phase);
        if let Phase::Asleep(asleep) = &phase {
            self.annotate_sleep(&asleep.pieces, false);
        }
    }

    pub(crate) fn wake(
        &self,
        upstream: &AnyResource<()>,
        report: &mut dyn FnMut(CopyProgress),
    ) -> Result<u64, Error> {
        fork::check()?;
        let mut session = Session::new(self);
        if session.phase.is_awake() {
            return Ok(0);
        }
        let extendable = self.sleeper(upstream)?;
        let _context = self.context.enter()?;
        let _relaxed = RelaxedCapture::enter();
        let (mut asleep, live) = match std::mem::replace(&mut session.phase, Phase::Changing) {
            Phase::Asleep(asleep) => {
                let is_kept = asleep.contents.is_some();
                (asleep, if is_kept { session.live_ranges() } else { Vec::new() })
            }
            other => {
                session.phase = other;
                let why = "another thread is putting it to sleep or waking it";
                return Err(Error::not_ready(self.name, why));
            }
        };
        let mut is_announced = false;
        let woken = session.unlocked(|| {
            self.map_again(extendable, &asleep.pieces)?;
            self.observers.call(ranges_of(&asleep.pieces).map(allocated));
            is_announced = true;
            if let Some(contents) = &mut asleep.contents {
                let mut report = |copied, total| report(CopyProgress { copied, total });
                // SAFETY: the ranges are live blocks of the pool, whose memory was mapped just now;
                // by the contract of `sleep` no other work uses it.
                unsafe { contents.copy_to_device(&live, &mut report) }?;
            }
            Ok(())
        });
        match woken {
            Ok(Ok(())) => {
                let bytes = bytes_of(&asleep.pieces);
                let freed = session.unlocked(|| {
                    self.annotate_sleep(&asleep.pieces, false);
                    drop(asleep);
                });
                session.phase = Phase::Awake;
                drop(session);
                freed.unwrap_or_else(|panic| resume_unwind(panic));
                Ok(bytes)
            }
            failed => {
                if let Left::Unused(left) = &mut asleep.left {
                    // What is refused here is tried again by `trim`.
                    let refused = session.unlocked(|| {
                        if is_announced {
                            self.observers.call(ranges_of(&asleep.pieces).map(released));
                        }
                        // SAFETY: as when the pool fell asleep; the copies have completed or
                        // failed, and what they have copied is in host memory.
                        unsafe { suspend_each(extendable, &asleep.pieces) }
                    });
                    *left = refused.unwrap_or_else(|_panic| asleep.pieces.clone());
                }
                session.phase = Phase::Asleep(asleep);
                drop(session);
                failed.unwrap_or_else(|panic| resume_unwind(panic)).map(|()| 0)
            }
        }
    }

    /// Maps memory at all blocks. If there is too little, siblings are asked, and then the
    /// program's callbacks, each of which another attempt follows.
    fn map_again(&self, extendable: &dyn ExtendableResource, pieces: &Pieces) -> Result<(), Error> {
        let needed = bytes_of(pieces);
        // If the driver cannot say, it may be enough.
        let free = Device::memory_info().map_or(u64::MAX, |memory| memory.free);
        let attempt = || {
            let others = || Some(self.siblings.others(None));
            let others = || others().filter(|others| others.could_help(needed, free));
            allocate_with(None, needed, || extendable.resume(pieces), others)
        };
        let mut outcome = attempt();
        for callback in self.pressure.all() {
            let Err(error) = &outcome else { break };
            if !error.is_out_of_memory() {
                break;
            }
            let missing = needed.saturating_sub(free);
            let pressure = Pressure { requested: needed, missing, stream: None, error };
            if pressure::call(&*callback, &pressure) {
                outcome = attempt();
            }
        }
        outcome
    }

    /// Releases memory that the driver has refused to take when the pool could not wake up, while
    /// more than `keep` bytes of it are left. Returns the bytes.
    pub(crate) fn release_left(&self, upstream: &AnyResource<()>, keep: u64) -> u64 {
        let Ok(extendable) = self.sleeper(upstream) else { return 0 };
        let mut session = Session::new(self);
        if session.phase.left_bytes() <= keep {
            return 0;
        }
        let mut asleep = match std::mem::replace(&mut session.phase, Phase::Changing) {
            Phase::Asleep(asleep) => asleep,
            other => {
                session.phase = other;
                return 0;
            }
        };
        let before = asleep.left_bytes();
        if let Left::Unused(left) = &mut asleep.left {
            let (mut kept, mut excess) = (Vec::new(), Vec::new());
            let mut held = before;
            for piece in left.drain(..) {
                let goes = held > keep;
                held -= if goes { piece.1.size() as u64 } else { 0 };
                if goes { excess.push(piece) } else { kept.push(piece) }
            }
            let refused = session.unlocked(|| {
                // SAFETY: as when the pool fell asleep; what they hold is of no use.
                unsafe { suspend_each(extendable, &excess) }
            });
            kept.extend(refused.unwrap_or(excess));
            *left = kept;
        }
        let returned = before - asleep.left_bytes();
        session.phase = Phase::Asleep(asleep);
        returned
    }
}

/// The address and bytes of each piece.
fn ranges_of(pieces: &Pieces) -> impl Iterator<Item = (DevicePtr, u64)> + '_ {
    pieces.iter().map(|&(base, layout)| (base, layout.size() as u64))
}

/// Suspends blocks whose contents are not needed, also if the driver refuses one. Returns those
/// that it has refused.
///
/// # Safety
/// The contract of [`ExtendableResource::suspend`].
unsafe fn suspend_each(extendable: &dyn ExtendableResource, pieces: &Pieces) -> Pieces {
    let suspend = |&(base, layout): &_| {
        // SAFETY: the caller's contract.
        let suspend = || unsafe { extendable.suspend(&[(base, layout)]) };
        // A panic of upstream was reported when it began.
        matches!(catch_unwind(AssertUnwindSafe(suspend)), Ok(Ok(())))
    };
    pieces.iter().filter(|piece| !suspend(piece)).copied().collect()
}

impl PoolState {
    /// Whether a stream that the pool knows has work, as far as the driver says.
    ///
    /// # Errors
    /// If it does not.
    fn has_pending_work(&self) -> Result<bool, Error> {
        for list in self.timeline.lists() {
            if let Some(handle) = self.timeline.late_handle(list) {
                // SAFETY: the stream exists, as `late_handle` says; the lock is held.
                if !unsafe { CudaStream::is_idle_raw(handle) }? {
                    return Ok(true);
                }
            }
        }
        StreamRef::legacy().is_idle().map(|is_idle| !is_idle)
    }

    /// The addresses and bytes of all live blocks, adjacent ones as one, by address. The rests of
    /// reservations hold nothing.
    fn live_ranges(&self) -> Vec<(u64, u64)> {
        let live = self.heap.blocks().filter(|block| block.free_in.is_none());
        let live = live.map(|block| (self.base(block.segment).0 + block.offset, block.size));
        let used = live.filter(|(start, _)| !self.set_aside.contains(start));
        merged(used).into_iter().map(|(start, end)| (start, end - start)).collect()
    }
}
