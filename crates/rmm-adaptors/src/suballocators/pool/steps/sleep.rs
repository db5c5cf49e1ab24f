//! Sleep and wake: a pool returns all physical memory to the device, keeps its addresses, and later
//! maps memory there again.
//!
//! To fall asleep:
//!
//! 1. Set the phase, so that every new request fails. Wait until requests in progress have ended.
//! 2. Flush all caches. No cache is made while the pool is not awake, so the fast path, which does
//!    not read the phase, misses.
//! 3. Wait for all work of the device.
//! 4. Release the pool's lock. Copy the contents of live blocks to the host, if they are kept.
//! 5. Suspend all blocks in the upstream: all of them or none.
//!
//! If a step fails, the steps before it are undone and the pool is awake.
//!
//! To wake up:
//!
//! 1. Resume all blocks in the upstream. If memory is short, siblings and then the program's
//!    callbacks are asked for memory, as for an allocation.
//! 2. Copy the contents back.
//!
//! If a step fails, the blocks are suspended again and the pool still sleeps.
//!
//! Suballocators above the pool, such as reservations, arenas and other pools, refuse requests for
//! as long as it is not awake: see
//! [`sleeping_memory`](crate::suballocators::pool::state::sleeping_memory).

use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rmm_core::siblings::allocate_with;
use rmm_core::{
    AnyResource, CudaStream, Device, DevicePtr, Error, ErrorKind, ExtendableResource, Introspect,
    RelaxedCapture, StreamRef, fork,
};

use super::pressure::{self, Pressure};
use crate::suballocators::pool::heap::Block;
use crate::suballocators::pool::state::asleep::{Asleep, Left, Phase, Pieces, bytes_of};
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::host_copy::HostCopy;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::state::session::Session;
use crate::suballocators::pool::state::sleeping_memory::{SleepingMemory, merged};
use crate::suballocators::pool::values::sleep_options::{Contents, CopyProgress, SleepOptions};
use crate::suballocators::pool::values::units::ListId;

/// Keeps the pool in [`Phase::Changing`]; the drop makes it awake, unless [`keep`](Self::keep) has
/// put it to sleep.
struct Change<'s, 'p> {
    session: &'s mut Session<'p>,
    /// The pool's published addresses; `None` once the pool sleeps.
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
    /// Makes new requests fail, and waits for those in progress.
    ///
    /// # Errors
    /// Not ready if the pool is not awake, or if a request in progress runs code of the program for
    /// long.
    fn begin(session: &'s mut Session<'p>) -> Result<Self, Error> {
        session.phase.check_awake(session.core.name)?;
        session.phase = Phase::Changing;
        let memory = SleepingMemory::new(session.upstream_ranges());
        let change = Self { session, memory: Some(memory) };
        change.session.wait_until_alone()?;
        // The requests that were waited for may have grown the pool.
        if let Some(memory) = &change.memory {
            memory.set(change.session.upstream_ranges());
        }
        Ok(change)
    }

    /// Puts the pool to sleep with what `wake` needs.
    fn keep(mut self, pieces: Pieces, contents: Option<HostCopy>, left: Left) {
        if let Some(memory) = self.memory.take() {
            self.session.phase = Phase::Asleep(Asleep { pieces, contents, left, _memory: memory });
        }
    }

    /// Waits for the device. Returns the upstream blocks to suspend, and the live ranges to copy:
    /// none if the contents are discarded.
    ///
    /// # Errors
    /// Unsupported if a stream may be under capture or memory is reserved for graphs; not ready if
    /// work is pending and `waits` is false; errors of the driver.
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
    /// The upstream's interface that suspends and resumes blocks.
    ///
    /// # Errors
    /// Unsupported if the upstream cannot suspend blocks.
    fn suspender<'u>(
        &self,
        upstream: &'u AnyResource<()>,
    ) -> Result<&'u dyn ExtendableResource, Error> {
        let why = "only a pool over `VirtualMemoryResource` can return memory and keep addresses";
        let unsupported = || Error::unsupported(self.name, why);
        if self.growth.is_pinned {
            return Err(Error::unsupported(self.name, "its segments are pinned: it cannot sleep"));
        }
        let is_divided = self.growth.block.is_none();
        let extendable = upstream.as_extendable().filter(|_| is_divided).ok_or_else(unsupported)?;
        // SAFETY: no blocks.
        match unsafe { extendable.suspend(&[]) } {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Err(unsupported().with_source(error))
            }
            answer => answer.map(|()| extendable),
        }
    }

    /// Whether the upstream can suspend and resume this pool's blocks.
    pub(crate) fn can_sleep(&self, upstream: &AnyResource<()>) -> bool {
        self.suspender(upstream).is_ok()
    }

    /// Copies kept contents of a pool that sleeps.
    ///
    /// # Errors
    /// Not ready if the pool does not sleep; invalid argument if the bytes were not kept.
    pub(crate) fn read_asleep(&self, from: DevicePtr, out: &mut [u8]) -> Result<(), Error> {
        fork::check()?;
        let state = self.lock();
        let Phase::Asleep(asleep) = &state.phase else {
            return Err(Error::not_ready(self.name, "it does not sleep: read the memory itself"));
        };
        let is_kept = asleep.contents.as_ref().is_some_and(|copy| copy.read(from.0, out));
        let why = "these bytes were not kept when the pool fell asleep";
        if is_kept { Ok(()) } else { Err(Error::invalid_argument(self.name, why)) }
    }

    /// Reports to the software device that the pool is about to copy, unmap and map its blocks
    /// (`true`), or that it is done (`false`).
    fn annotate_sleep(&self, pieces: &Pieces, is_asleep: bool) {
        for (base, layout) in pieces {
            self.annotator.suspended(*base, layout.size(), is_asleep);
        }
    }

    /// Puts the pool to sleep, in the steps of the [module](self). Returns the bytes that were
    /// returned to the device.
    ///
    /// # Errors
    /// The errors of [`PoolMemoryResource::sleep`](crate::PoolMemoryResource::sleep).
    ///
    /// # Safety
    /// The contract of [`PoolMemoryResource::sleep`](crate::PoolMemoryResource::sleep).
    pub(crate) unsafe fn sleep(
        &self,
        upstream: &AnyResource<()>,
        mut options: SleepOptions<'_>,
    ) -> Result<u64, Error> {
        let extendable = self.suspender(upstream)?;
        let _context = self.context.enter()?;
        let _relaxed = RelaxedCapture::enter();
        let mut session = Session::new(self);
        let mut change = Change::begin(&mut session)?;
        let (pieces, live) = change.prepare(options.waits, options.contents)?;
        let (mut contents, mut is_removed) = (None, false);
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
            is_removed = true;
            self.remove_segments(ranges_of(&pieces))?;
            // SAFETY: the blocks came from this upstream with these layouts. All work has
            // completed, and by the caller's contract none begins before they are resumed.
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
        // Undo: after a failed `suspend`, `resume` brings back all contents.
        let resumed = change.session.unlocked(|| {
            extendable.resume(&pieces)?;
            if is_removed {
                self.add_segments(ranges_of(&pieces))?;
            }
            self.annotate_sleep(&pieces, false);
            drop(contents.take());
            Ok::<(), Error>(())
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
            Ok(failed) => {
                let undo = match resumed {
                    Ok(Err(error)) => error.to_string(),
                    _ => "a panic".to_owned(),
                };
                let why = format!("it cannot sleep, and cannot go back ({undo}): wake the pool");
                let error = Error::not_ready(self.name, why);
                Err(match failed {
                    Err(reason) => error.with_source(reason),
                    Ok(()) => error,
                })
            }
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Discards what a sleeping pool keeps for `wake`, when the pool is dropped.
    pub(crate) fn end_sleep(&self) {
        let phase = std::mem::take(&mut self.lock().phase);
        if let Phase::Asleep(asleep) = &phase {
            self.annotate_sleep(&asleep.pieces, false);
        }
    }

    /// Wakes the pool, in the steps of the [module](self). Returns the bytes that were mapped, or 0
    /// if it is awake already.
    ///
    /// # Errors
    /// The errors of [`PoolMemoryResource::wake`](crate::PoolMemoryResource::wake).
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
        let extendable = self.suspender(upstream)?;
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
        let woken = session.unlocked(|| {
            self.map_again(extendable, &asleep.pieces)?;
            self.add_segments(ranges_of(&asleep.pieces))?;
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
                    // `trim` tries again to suspend what the driver refuses here.
                    let refused = session.unlocked(|| {
                        // SAFETY: the blocks came from this upstream with these layouts. By the
                        // contract of `sleep` no work uses them while the pool is not awake, and
                        // this call's copies have ended. The host still has the contents.
                        unsafe { self.suspend_each(extendable, &asleep.pieces) }
                    });
                    *left = refused.unwrap_or_else(|_panic| asleep.pieces.clone());
                }
                session.phase = Phase::Asleep(asleep);
                drop(session);
                failed.unwrap_or_else(|panic| resume_unwind(panic)).map(|()| 0)
            }
        }
    }

    /// Maps memory at all blocks.
    ///
    /// If there is too little, it asks siblings for idle memory, and then runs the program's
    /// callbacks, with another attempt after each that has freed some.
    ///
    /// # Errors
    /// Out of memory if that is not enough; errors of the driver.
    fn map_again(&self, extendable: &dyn ExtendableResource, pieces: &Pieces) -> Result<(), Error> {
        let needed = bytes_of(pieces);
        // If the driver does not say what is free, assume that it is enough.
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

    /// Releases memory that a failed `wake` could not unmap, until at most `keep` bytes of it are
    /// left. Returns the bytes released.
    pub(crate) fn release_left(&self, upstream: &AnyResource<()>, keep: u64) -> u64 {
        let Ok(extendable) = self.suspender(upstream) else { return 0 };
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
                // SAFETY: the blocks came from this upstream with these layouts. By the contract of
                // `sleep` no work uses them while the pool is not awake. Their contents are not
                // needed.
                unsafe { self.suspend_each(extendable, &excess) }
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

impl PoolCore {
    /// Suspends blocks one by one, and goes on after a failure. Returns the blocks that failed, or
    /// that a callback does not let go of.
    ///
    /// # Safety
    /// The contract of [`ExtendableResource::suspend`].
    unsafe fn suspend_each(&self, extendable: &dyn ExtendableResource, pieces: &Pieces) -> Pieces {
        let suspend = |&(base, layout): &_| {
            if self.remove_segment(base, Layout::size(&layout) as u64).is_err() {
                return false;
            }
            // SAFETY: the caller's contract.
            let suspend = || unsafe { extendable.suspend(&[(base, layout)]) };
            // A panic is a failure, too; the panic hook has reported it.
            matches!(catch_unwind(AssertUnwindSafe(suspend)), Ok(Ok(())))
        };
        pieces.iter().filter(|piece| !suspend(piece)).copied().collect()
    }
}

impl PoolState {
    /// Whether a stream that the pool knows, or the legacy default stream, has pending work.
    ///
    /// # Errors
    /// Errors of the driver.
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

    /// The ranges (address, bytes) of all live blocks, sorted by address, with adjacent ones
    /// merged.
    ///
    /// Memory that is set aside for reservations and not allocated from them is not included: it
    /// has no contents.
    ///
    /// In a pool for graphs what was freed counts as live: an output of a graph is there from one
    /// launch to the next, whether or not it is a block then.
    fn live_ranges(&self) -> Vec<(u64, u64)> {
        let is_for_graphs = self.timeline.isolates;
        let is_live = |block: &Block| {
            block.free_in.is_none_or(|list| is_for_graphs && list != ListId::ANY_STREAM)
        };
        let live = self.heap.blocks().filter(is_live);
        let live = live.map(|block| (self.base(block.segment).0 + block.offset, block.size));
        let used = live.filter(|(start, _)| !self.set_aside.contains(start));
        merged(used).into_iter().map(|(start, end)| (start, end - start)).collect()
    }
}
