//! The memory of a session, mapped.

mod allocation;
mod mappings;
mod names;
mod sleep;

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rmm_core::{Device, fork, process_is_exiting};
use rmm_sys::Driver;

pub use self::mappings::LeasedRange;
use self::mappings::{Mappings, access, pieces};
pub use self::names::NamedRange;
use crate::device::device_of;
use crate::memory::granularity_on;
use crate::protocol::{AllocationRecord, Granted, Identity};
use crate::{Lease, LeaseError, Refusal};
use rmm_resources::ImportedMemory;

/// The resource's name in errors and logs.
const NAME: &str = "leased";

/// Device memory of an [owner](crate::Server) in another process: of a [`Lease`], mapped into this
/// one. It outlives this process once it is committed.
///
/// - A session that **writes** allocates: as the upstream of a pool, whose buffers are then in the
///   owner's memory. [`commit`](Self::commit) publishes it, and makes it read-only here, too.
/// - A session that **reads** maps what is committed: whole [allocations](Self::map), or what the
///   writer has given a [name](Self::put).
/// - A session that reads can [sleep](Self::detach): its memory is unmapped and the lock returned,
///   and [`attach`](Self::attach) maps it again at the same addresses, without a copy.
///
/// Each block is an allocation of the owner's, whose bytes are rounded up to the device's
/// granularity (2 MiB), and takes three requests to the owner and some driver calls: put a pool
/// above it. A request waits for the owner at most its [answer time](Lease::set_answer_time).
/// Freeing a block waits for its uses as a
/// [`VirtualMemoryResource`](rmm_resources::VirtualMemoryResource) does. After a commit nothing can
/// be allocated, and a block that is freed is unmapped here, but stays the owner's.
///
/// It is a handle: clones share the session, and are equal. Dropping the last clone waits for the
/// work of this process, unmaps what was mapped by name, and ends the session; blocks that were not
/// freed stay mapped. Any thread may use it. In a child that was forked all calls fail.
///
/// ```
/// # use std::os::unix::net::UnixStream;
/// use rmm_core::{Device, SynchronousResource};
/// use rmm_lease::protocol::Lock;
/// use rmm_lease::{Lease, LeasedMemoryResource, Server, ServerOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _here = machine.enter();
/// # let folder = tempfile::tempdir()?;
/// # let socket = folder.path().join("weights.sock");
/// # let mut server = Server::bind(&socket, Device::new(0)?, ServerOptions::default())?;
/// # let (stop, other) = UnixStream::pair()?;
/// # let thread = std::thread::spawn({
/// #     let machine = machine.clone();
/// #     move || { let _here = machine.enter(); server.run(other) }
/// # });
/// let pages = LeasedMemoryResource::new(Lease::connect(&socket, Lock::Write, None)?)?;
/// let layout = std::alloc::Layout::from_size_align(2 << 20, 256)?;
/// let block = pages.allocate_sync(layout)?; // of the owner's memory
/// pages.commit()?; // others can map it
/// # // SAFETY: allocated above with this layout, and not used.
/// # unsafe { pages.deallocate_sync(block, layout) };
/// # drop((stop, pages));
/// # thread.join().expect("it does not panic")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LeasedMemoryResource {
    shared: Arc<Shared>,
}

struct Shared {
    device: Device,
    /// The device's granularity, in bytes.
    page: usize,
    /// Lock order: a leaf among this library's locks. The owner and the driver are called with it.
    state: Mutex<Leased>,
}

struct Leased {
    /// None while detached.
    lease: Option<Lease>,
    /// The owner that the mappings are of, and its socket.
    owner: Identity,
    path: PathBuf,
    answer: Duration,
    /// Begins the names of blocks, so that no other session makes the same.
    prefix: String,
    last: u64,
    mappings: Mappings,
}

impl LeasedMemoryResource {
    /// Memory of this session, on the device of the owner.
    ///
    /// # Errors
    /// [`LeaseError::Memory`] if the owner's device is none of this process, or the driver refuses.
    pub fn new(lease: Lease) -> Result<Self, LeaseError> {
        fork::check()?;
        let owner = lease.identity().clone();
        let device = device_of(&owner.gpu_uuid)?;
        let page = granularity_on(Driver::get().map_err(rmm_core::Error::from)?, device)?;
        // Processes that were forked from one may have drawn the same numbers.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let (random, seed) = (RandomState::new(), (std::process::id(), now));
        let (first, second) = (random.hash_one((1, seed)), random.hash_one((2, seed)));
        let prefix = format!("{first:016x}{second:016x}");
        let (path, answer) = (lease.path().to_owned(), lease.answer_time());
        let (lease, mappings) = (Some(lease), Mappings::default());
        let state = Leased { lease, owner, path, answer, prefix, last: 0, mappings };
        let state = Mutex::new(state);
        Ok(Self { shared: Arc::new(Shared { device, page, state }) })
    }

    /// The device whose memory it is.
    pub fn device(&self) -> Device {
        self.shared.device
    }

    /// What the session may do; none while it is [detached](Self::detach). It waits for a request
    /// of another thread that runs.
    ///
    /// # Panics
    /// In the child of a fork, if another thread made a request at the fork.
    pub fn lock(&self) -> Option<Granted> {
        self.shared.state().lease.as_ref().map(Lease::lock)
    }

    /// All allocations of the owner, in the order in which they were made.
    ///
    /// # Errors
    /// [`LeaseError::State`] while detached; or if the owner has gone.
    pub fn list(&self) -> Result<Vec<AllocationRecord>, LeaseError> {
        fork::check()?;
        self.shared.state().lease()?.list()
    }

    /// Maps the owner's allocation of this name: for reading, or for writing if the session writes.
    /// It is mapped once, and unmapped with the last clone of this resource; a block that was found
    /// by its name stays until then, also if it is freed.
    ///
    /// What is written there by others is not ordered with this process's work: readers see what
    /// was committed.
    ///
    /// # Errors
    /// [`LeaseError::Refused`] if nothing has that name; [`LeaseError::State`] while detached, or
    /// where a [`detach`](Self::detach) that failed has unmapped it; or if the owner has gone, or
    /// the driver refuses.
    pub fn map(&self, id: &str) -> Result<LeasedRange, LeaseError> {
        fork::check()?;
        self.shared.state().map(id, self.shared.device)
    }
}

impl Shared {
    /// Locks the state, which is consistent between two calls.
    fn state(&self) -> MutexGuard<'_, Leased> {
        fork::lock(&self.state)
    }
}

impl Leased {
    /// The session, which exists unless the resource is detached.
    fn lease(&mut self) -> Result<&mut Lease, LeaseError> {
        self.lease.as_mut().ok_or(DETACHED)
    }

    fn map(&mut self, id: &str, device: Device) -> Result<LeasedRange, LeaseError> {
        let lease = self.lease.as_mut().ok_or(DETACHED)?;
        if let Some(range) = self.mappings.keep(id)? {
            return Ok(range);
        }
        let bytes = self.mappings.sizes(lease)?.get(id).copied().ok_or_else(|| {
            LeaseError::Refused(Refusal::new(format!("there is no allocation {id:?}")))
        })?;
        let memory = ImportedMemory::map(pieces(lease, id, bytes)?, device, access(lease))?;
        let pointer = self.mappings.add(id.to_owned(), memory, false);
        Ok(LeasedRange { pointer, bytes })
    }
}

const DETACHED: LeaseError = LeaseError::State("the resource is detached: attach it first");

impl Drop for Shared {
    fn drop(&mut self) {
        if process_is_exiting() || fork::check().is_err() {
            return;
        }
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Before the lock is returned: what this process reads, no one replaces.
        state.mappings.end();
    }
}

impl fmt::Debug for LeasedMemoryResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("LeasedMemoryResource");
        fields.field("device", &self.shared.device);
        let state = match self.shared.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            // A request may wait for the owner.
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(state) = state {
            fields.field("lock", &state.lease.as_ref().map(Lease::lock));
            fields.field("mapped_bytes", &state.mappings.bytes());
        }
        fields.finish_non_exhaustive()
    }
}

impl PartialEq for LeasedMemoryResource {
    /// Whether both are handles to the same session.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for LeasedMemoryResource {}
