//! Publishing what was written; sleeping, and waking up at the same addresses.

use std::time::Instant;

use rmm_core::known_contexts::wait_for_all_contexts;
use rmm_core::{Context, Error, fork};
use rmm_resources::ImportAccess;

use super::mappings::{access, pieces};
use super::{DETACHED, Leased, LeasedMemoryResource};
use crate::protocol::{Granted, Lock};
use crate::{Lease, LeaseError};

impl LeasedMemoryResource {
    /// Publishes all that was allocated: others can map it, also when this process has ended. The
    /// session then reads, and the memory is read-only in this process, at the same addresses.
    ///
    /// It waits for the work of this process. Enqueue nothing meanwhile that writes to the memory:
    /// a kernel that writes to what is read-only faults, and its context is lost. Fills and copies
    /// to it are refused by the driver. A pool above this resource has only read-only memory to
    /// hand out: allocate what is to be written from another one.
    ///
    /// # Errors
    /// [`LeaseError::Refused`] if the session only reads; [`LeaseError::Memory`] if the work of
    /// this process has failed, or may be under capture, or the driver refuses;
    /// [`LeaseError::Ended`] if an earlier request has found the session over: then nothing has
    /// changed. If the owner does not answer, it is not known whether it has published the memory,
    /// and the memory stays read-only; `detach` and `attach` find out.
    pub fn commit(&self) -> Result<(), LeaseError> {
        wait_for_work()?;
        let mut state = self.shared.state();
        let Leased { lease, mappings, .. } = &mut *state;
        let lease = lease.as_mut().ok_or(DETACHED)?;
        if lease.is_over() {
            return Err(LeaseError::Ended);
        }
        if lease.lock() == Granted::Read {
            return lease.commit(); // The owner's words.
        }
        let committed = mappings.set_access(ImportAccess::ReadOnly).and_then(|()| lease.commit());
        if let Err(LeaseError::Memory(_) | LeaseError::Refused(_)) = committed {
            // What the driver refuses now stays read-only.
            let _ignored = mappings.set_access(ImportAccess::ReadWrite);
        }
        mappings.forget_sizes();
        committed
    }

    /// Unmaps all memory and ends the session, so that this process holds no one up and takes no
    /// memory of the device. The addresses stay reserved, for [`attach`](Self::attach). Waits for
    /// the work of this process.
    ///
    /// # Errors
    /// [`LeaseError::State`] if the session writes and is not known to be over, since the owner
    /// would free what is not committed; [`LeaseError::Memory`] if the work of this process has
    /// failed, or may be under capture, or the driver refuses. Then the session goes on; what was
    /// unmapped is mapped by the next `attach`, after another call of this one.
    ///
    /// # Safety
    /// No work uses the memory until it is attached: of buffers and pools over this resource, of
    /// graphs, and of addresses that were returned. Nor is it registered with another library, such
    /// as by the segments of a pool. No process makes memory under the names of this resource's
    /// blocks, which it would get as theirs: they are drawn, so only one that copies them could.
    pub unsafe fn detach(&self) -> Result<(), LeaseError> {
        wait_for_work()?;
        let mut state = self.shared.state();
        let lease = state.lease()?;
        if lease.lock() == Granted::Write && !lease.is_over() {
            return Err(LeaseError::State("commit first: what is not committed would be freed"));
        }
        let mut outcome = Ok(());
        for mapping in state.mappings.all() {
            // SAFETY: the work that was enqueued has completed, and there is no other, by the
            // caller's contract.
            outcome = outcome.and(unsafe { mapping.memory.unmap() });
        }
        outcome?;
        state.mappings.forget_sizes();
        state.lease = None;
        Ok(())
    }

    /// Reads again, of the same owner, and maps all that was mapped at the same addresses. Waits
    /// until the deadline for writers; without end, if there is none.
    ///
    /// Each name has to have as many bytes as before. What a resource allocated itself has names
    /// that no other makes, so it has its old contents; what was mapped by a name of the program's
    /// has what the last writer committed under it.
    ///
    /// # Errors
    /// Those of [`Lease::reconnect`]: [`LeaseError::Refused`] if the owner is another one, which
    /// has none of the memory; [`LeaseError::Layout`] if a name is missing or has another size;
    /// [`LeaseError::State`] if it is not detached; [`LeaseError::Memory`] if the driver refuses.
    /// Then it is detached as before.
    pub fn attach(&self, deadline: Option<Instant>) -> Result<(), LeaseError> {
        self.attach_to(deadline, false, &mut || true)
    }

    /// [Attaches](Self::attach), also to another owner at the same socket: one that was started
    /// again, and to which a writer has committed the same names and sizes.
    ///
    /// # Errors
    /// Those of `attach`.
    pub fn attach_to_any_owner(&self, deadline: Option<Instant>) -> Result<(), LeaseError> {
        self.attach_to(deadline, true, &mut || true)
    }

    /// [Attaches](Self::attach), to [any owner](Self::attach_to_any_owner) if so asked, and asks
    /// each 50 ms of the wait for the lock whether it is to go on, such as after a signal.
    ///
    /// # Errors
    /// Those of `attach`; [`LeaseError::GivenUp`]: then it is detached as before.
    pub fn attach_while(
        &self,
        deadline: Option<Instant>,
        any_owner: bool,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(), LeaseError> {
        self.attach_to(deadline, any_owner, &mut goes_on)
    }

    fn attach_to(
        &self,
        deadline: Option<Instant>,
        any: bool,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), LeaseError> {
        fork::check()?;
        let (path, owner) = {
            let state = self.shared.state();
            require_detached(&state)?;
            (state.path.clone(), state.owner.clone())
        };
        // Other threads can free meanwhile.
        let expected = (!any).then(|| owner.clone());
        let mut lease = Lease::begin(&path, Lock::Read, expected, deadline, goes_on)?;
        if lease.identity().gpu_uuid != owner.gpu_uuid {
            let text = format!("its memory is of {}", lease.identity().gpu_uuid);
            return Err(LeaseError::Layout(text));
        }
        let mut state = self.shared.state();
        require_detached(&state)?;
        lease.set_answer_time(state.answer);
        state.mappings.forget_sizes();
        if let Err(error) = state.map_again(&mut lease) {
            for mapping in state.mappings.all() {
                // SAFETY: mapped just now, and no work uses it before this returns well, by the
                // contract of `detach`. What the driver refuses, the next call tries again.
                let _ignored = unsafe { mapping.memory.unmap() };
            }
            return Err(error);
        }
        state.owner = lease.identity().clone();
        state.lease = Some(lease);
        Ok(())
    }
}

/// Waits for the work of this process.
fn wait_for_work() -> Result<(), Error> {
    fork::check()?;
    // The context of this thread is waited for even if the library has not seen it before.
    let _noted = Context::current()?;
    wait_for_all_contexts()
}

fn require_detached(state: &Leased) -> Result<(), LeaseError> {
    match state.lease {
        Some(_) => Err(LeaseError::State("the resource is attached")),
        None => Ok(()),
    }
}

impl Leased {
    /// Maps all that is unmapped, if the owner has all of it.
    fn map_again(&mut self, lease: &mut Lease) -> Result<(), LeaseError> {
        let sizes = self.mappings.sizes(lease)?.clone();
        for mapping in self.mappings.all() {
            let (id, bytes) = (&mapping.id, mapping.memory.bytes());
            match sizes.get(id) {
                Some(&found) if found == bytes => {}
                Some(found) => {
                    let text = format!("{id:?} has {found} bytes, and had {bytes}");
                    return Err(LeaseError::Layout(text));
                }
                None => return Err(LeaseError::Layout(format!("{id:?} is not there"))),
            }
        }
        for mapping in self.mappings.all() {
            // SAFETY: as in `attach_to`; only what an earlier call could not unmap is mapped.
            unsafe { mapping.memory.unmap() }?;
            let pieces = pieces(lease, &mapping.id, mapping.memory.bytes())?;
            mapping.memory.remap(pieces, access(lease))?;
        }
        Ok(())
    }
}
