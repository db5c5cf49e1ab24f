//! Machines, and the registry that finds the machine of a handle or an address.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use crate::engine::state::State;
use crate::model::device::Device;
use crate::model::handle::{self, Hint};

/// A set of simulated devices and their host memory, independent of every other machine.
///
/// Clones refer to the same machine. Dropping the last clone unmaps its memory and invalidates its
/// handles.
///
/// ```
/// use rmm_sim::{Machine, Schedule};
///
/// let machine = Machine::builder().devices(2).memory(1 << 30).schedule(Schedule::Lazy).build();
/// let _guard = machine.enter(); // this thread's driver calls go to `machine` until it is dropped
/// let mut count = 0;
/// let driver = rmm_sim::driver();
/// // SAFETY: `cuInit` takes no pointer.
/// assert!(unsafe { driver.cuInit(0) }.is_success());
/// // SAFETY: `count` is valid for a write.
/// assert!(unsafe { driver.cuDeviceGetCount(&mut count) }.is_success());
/// assert_eq!(count, 2);
/// ```
#[derive(Clone)]
pub struct Machine(pub(crate) Arc<MachineInner>);

pub(crate) struct MachineInner {
    id: u32,
    state: Mutex<State>,
    /// Notified when a piece of work has finished and, if threads run work in the background, when
    /// there may be more.
    pub(crate) ran: Condvar,
}

impl Drop for MachineInner {
    fn drop(&mut self) {
        let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
        registry.by_id.remove(&self.id);
        registry.ranges.retain(|_, (_, owner)| *owner != self.id);
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("id", &self.0.id).finish_non_exhaustive()
    }
}

/// The machines of the process.
#[derive(Default)]
struct Registry {
    by_id: BTreeMap<u32, Weak<MachineInner>>,
    /// The address ranges that machines allocate from: start to length and machine.
    ranges: BTreeMap<usize, (usize, u32)>,
}

static REGISTRY: RwLock<Registry> =
    RwLock::new(Registry { by_id: BTreeMap::new(), ranges: BTreeMap::new() });
static LAST_ID: AtomicU32 = AtomicU32::new(0);

impl Registry {
    fn owner_of(&self, address: usize) -> Option<u32> {
        let (&start, &(len, id)) = self.ranges.range(..=address).next_back()?;
        (address - start < len).then_some(id)
    }
}

/// A number for a new machine.
pub(crate) fn next_id() -> u32 {
    LAST_ID.fetch_add(1, Ordering::Relaxed) + 1
}

/// Adds an address range, as (start, length), that a machine allocates from.
pub(crate) fn register_range(id: u32, (start, len): (usize, usize)) {
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    registry.ranges.insert(start, (len, id));
}

/// Whether `address` lies in a range that some machine allocates from.
pub(crate) fn is_simulated(address: usize) -> bool {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner).owner_of(address).is_some()
}

impl Machine {
    pub(crate) fn from_state(state: State) -> Self {
        let id = state.machine;
        let mut ranges: Vec<_> = state.devices.iter().map(Device::range).collect();
        ranges.push(state.host.range());
        let shared = Arc::new(MachineInner { id, state: Mutex::new(state), ran: Condvar::new() });
        let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
        registry.by_id.insert(id, Arc::downgrade(&shared));
        registry.ranges.extend(ranges.into_iter().map(|(start, len)| (start, (len, id))));
        drop(registry);
        Self(shared)
    }

    /// The machine of the first handle or address that names one.
    pub(crate) fn named_by(hints: &[Hint]) -> Option<Self> {
        let registry = REGISTRY.read().unwrap_or_else(PoisonError::into_inner);
        hints.iter().find_map(|&hint| {
            let id = match hint {
                Hint::Handle(word) => handle::machine_of(word),
                Hint::Address(address) => registry.owner_of(address),
            };
            registry.by_id.get(&id?)?.upgrade().map(Self)
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
