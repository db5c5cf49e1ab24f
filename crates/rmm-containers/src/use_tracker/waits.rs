//! Waits for all uses: on the owning stream, on the stream that becomes the owner, or on the host.

use rmm_core::{Context, Error, RelaxedCapture, StreamRef};

use super::pending::{Access, PendingUse};
use super::snapshot::{StreamSnapshot, is_capturing};
use super::{EndMarker, Pending, StreamIn, UseTracker};

impl UseTracker {
    /// Makes the owner wait now for all work enqueued on `stream`, so that work which the program
    /// enqueues on the owner by itself is ordered after it.
    pub(crate) fn join_into_owner(&self, stream: StreamRef<'_>) -> Result<(), Error> {
        self.with_uses(|pending| {
            let Some(uses) = pending else { return Ok(()) };
            let context = Context::current()?;
            let is_there = |other: &StreamSnapshot| other.denotes(stream, context);
            let owner = self.owner.as_ref().and_then(StreamSnapshot::reachable);
            let has_joined = |other: &PendingUse<StreamSnapshot, EndMarker>| match &other.end {
                EndMarker::Event(event) => owner.is_some_and(|owner| owner.wait(event).is_ok()),
                // An open use stays pending; its end is recorded when it is waited for.
                EndMarker::EndOfStream => !other.awaits_end(),
            };
            if !uses.iter().filter(|other| is_there(&other.stream)).all(has_joined) {
                let _relaxed = RelaxedCapture::enter();
                stream.synchronize()?;
            }
            uses.forget_ended(is_there);
            Ok(())
        })
    }

    /// Makes the owner wait for all uses. If it is the per-thread default stream, that of the
    /// calling thread waits.
    pub(crate) fn join_all(&mut self) -> Result<(), Error> {
        let _context = self.context.enter()?;
        self.join_all_in_context()
    }

    /// Makes the owner wait for all uses, where the context of the memory is current.
    fn join_all_in_context(&mut self) -> Result<(), Error> {
        self.owner().cloned().map_or(Ok(()), |owner| self.rebind_in_context((&owner).into()))
    }

    /// Makes the owner wait for all uses in a `Drop`, where the context of the memory is current:
    /// if the owner cannot wait, the host does. Returns whether the owner is ordered after all
    /// uses; it is not if one of them is on a stream that is being captured, which nothing can wait
    /// for.
    pub(crate) fn join_or_block(&mut self) -> bool {
        self.join_all_in_context().is_ok() || self.block_host()
    }

    /// Makes the host wait for all uses, in any context. Returns what
    /// [`join_or_block`](Self::join_or_block) does.
    pub(crate) fn block_host(&mut self) -> bool {
        let _relaxed = RelaxedCapture::enter();
        let owner_is_done = self.owner.as_ref().is_none_or(|owner| {
            // Work on the owner is ordered before a free there, and waiting for it would invalidate
            // the capture.
            let is_reachable = owner.reachable().is_some();
            let is_captured = is_reachable && matches!(owner.is_capturing(), Ok(true));
            is_captured || owner.synchronize().is_ok()
        });
        owner_is_done && self.wait_on_host(Access::Write).is_ok()
    }

    /// Makes `stream` the owner, after it waits for the former owner and for all uses.
    ///
    /// # Errors
    /// `Unsupported` if a capture would record one of the waits; whatever the driver reports.
    pub(crate) fn rebind(&mut self, stream: StreamRef<'_>) -> Result<(), Error> {
        let _context = self.context.enter()?;
        self.rebind_in_context(stream)
    }

    /// Makes `stream` the owner, after it waits for the former owner and for all uses, where the
    /// context of the memory is current.
    fn rebind_in_context(&mut self, stream: StreamRef<'_>) -> Result<(), Error> {
        let on = StreamIn { stream, context: self.context };
        let stays = self.is_owner(on);
        let settled = self.with_uses(|pending| {
            if stays && pending.as_ref().is_none_or(|uses| uses.is_empty()) {
                return Ok(None);
            }
            self.check_captures(pending, stream, stays)?;
            let all = 0..usize::MAX;
            let waits_in_graph = self.wait_for_conflicting(pending, &all, Access::Write, on)?;
            if waits_in_graph && pending.iter().flat_map(|uses| uses.iter()).any(PendingUse::runs) {
                return Err(captured("a wait for other streams"));
            }
            Ok(pending.take())
        })?;
        drop(settled);
        if !stays {
            self.owner = Some(StreamSnapshot::new(stream, self.context));
        }
        Ok(())
    }

    /// Refuses to make `stream` wait for all uses if a capture would record some of the waits into
    /// a graph although the work runs outside it, or make the stream part of the capture.
    fn check_captures(
        &self,
        pending: &Pending,
        stream: StreamRef<'_>,
        stays: bool,
    ) -> Result<(), Error> {
        let is_captured = is_capturing(stream)?;
        let mut is_refused = false;
        if let Some(owner) = self.owner.as_ref().filter(|_| !stays) {
            is_refused = is_captured || owner.is_capturing()?;
        }
        for earlier in pending.iter().flat_map(|uses| uses.iter()) {
            is_refused |= match earlier.runs() {
                true if is_captured => true,
                true => earlier.is_being_captured()?,
                false => !is_captured && earlier.stream.is_being_captured(),
            };
        }
        if is_refused { Err(captured("a wait for other streams")) } else { Ok(()) }
    }

    /// Waits on the host for all uses that conflict with `access`. Invalidates no capture.
    ///
    /// # Errors
    /// `Unsupported` if a stream with such a use is being captured; whatever the driver reports.
    pub(crate) fn wait_on_host(&self, access: Access) -> Result<(), Error> {
        self.with_uses(|pending| {
            let Some(uses) = pending else { return Ok(()) };
            let all = 0..usize::MAX;
            for earlier in uses.conflicting(&all, access) {
                // A wait for this use would invalidate the capture.
                if earlier.is_being_captured()? {
                    return Err(captured("a wait of the host"));
                }
            }
            // In relaxed mode, waits do not invalidate captures of other threads.
            let mut relaxed = None;
            for earlier in uses.conflicting(&all, access).filter(|earlier| earlier.runs()) {
                relaxed.get_or_insert_with(RelaxedCapture::enter);
                match &earlier.end {
                    EndMarker::Event(event) => event.synchronize()?,
                    EndMarker::EndOfStream => earlier.stream.synchronize()?,
                }
            }
            uses.forget_conflicting(&all, access);
            Ok(())
        })
    }
}

fn captured(origin: &'static str) -> Error {
    Error::unsupported(origin, "a stream that uses the memory is being captured")
}
