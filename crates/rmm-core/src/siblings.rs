//! The suballocators of a device that can return memory to each other's upstream: a registry, and
//! the order in which a resource that is out of memory asks them. For this library's resources.
//!
//! ```text
//!   device (uuid), kind of memory: one group
//!   +-------------------------------------------------------+
//!   | turn: a lock, held by the one thread that asks         |
//!   | members: weak -> pool A   draws on: limit 1            |
//!   |          weak -> pool B   draws on: limit 1, pool A    |
//!   |          weak -> driver pool C                         |
//!   | device memory: the driver's default and current pools  |
//!   +-------------------------------------------------------+
//! ```
//!
//! Linux calls such a registry the shrinkers, and what it does direct reclaim. The rules:
//!
//! 1. A thread asks with no lock of a resource held, so two pools may ask each other at once.
//! 2. One thread of a group asks at a time, and retries its request meanwhile. Two requests cannot
//!    take each other's memory piece by piece until both fail.
//! 3. Lock order: a turn, then the locks of resources. Only the outermost request of a thread takes
//!    a turn, so a pool over a pool takes one.
//! 4. Where a limit has refused, only resources that draw on it are asked.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rmm_sys::{CuStream, CuUuid};

use crate::driver_pools::DriverPools;
pub use crate::limit_id::LimitId;
use crate::{
    CaptureScope, CudaStream, Device, Error, Introspect, MemoryKind, PoolUsage, StreamRef,
    SyncResource, TrimmableResource, fork,
};

/// What a group's members draw on: the memory of a device, of one kind.
type Key = (CuUuid, MemoryKind);

struct Group {
    key: Key,
    members: Mutex<Vec<Member>>,
    /// The pools of the driver from which any library of the process may allocate, for device
    /// memory.
    driver_pools: Option<Arc<dyn TrimmableResource>>,
    /// Held by the thread that asks.
    turn: Mutex<()>,
}

struct Member {
    id: LimitId,
    resource: Weak<dyn TrimmableResource>,
    /// The limits in the stack below.
    draws_on: Arc<[LimitId]>,
}

/// The groups that exist: a handful. Lock order: a leaf, as the members' lock of each.
static GROUPS: Mutex<Vec<Weak<Group>>> = Mutex::new(Vec::new());

fn group_of(device: Device, kind: MemoryKind) -> Result<Arc<Group>, Error> {
    let key = (device.uuid()?, kind);
    let mut groups = fork::lock(&GROUPS);
    groups.retain(|group| group.strong_count() > 0);
    let known = groups.iter().filter_map(Weak::upgrade).find(|group| group.key == key);
    Ok(known.unwrap_or_else(|| {
        let of_driver = || Arc::new(DriverPools::of(device)) as Arc<dyn TrimmableResource>;
        let group = Arc::new(Group {
            key,
            members: Mutex::default(),
            driver_pools: (kind == MemoryKind::Device).then(of_driver),
            turn: Mutex::default(),
        });
        groups.push(Arc::downgrade(&group));
        group
    }))
}

impl Group {
    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        let mut members = fork::lock(&self.members);
        members.retain(|member| member.resource.strong_count() > 0);
        members
    }
}

/// A place in a group, from which others can be asked.
#[derive(Clone)]
pub struct Siblings {
    group: Arc<Group>,
    id: LimitId,
}

impl fmt::Debug for Siblings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Siblings").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Siblings {
    /// A place among the resources of a device whose memory is of this kind; device memory if the
    /// kind is unknown.
    ///
    /// # Errors
    /// If the driver refuses the query for the device.
    pub fn join(device: Device, kind: Option<MemoryKind>) -> Result<Self, Error> {
        let group = group_of(device, kind.unwrap_or(MemoryKind::Device))?;
        Ok(Self { group, id: LimitId::new() })
    }

    /// The resource at this place, as something that refuses requests.
    pub fn id(&self) -> LimitId {
        self.id
    }

    /// From now on the others may ask `resource`, which is at this place and over `upstream`, until
    /// it is dropped.
    pub fn announce(
        &self,
        resource: Weak<dyn TrimmableResource>,
        upstream: Option<&(dyn SyncResource + 'static)>,
    ) {
        let mut draws_on = Vec::new();
        if let Some(upstream) = upstream {
            note_limits(upstream, &mut draws_on);
        }
        self.group.members().push(Member { id: self.id, resource, draws_on: draws_on.into() });
    }

    /// Whether there are others that draw on `limit`, or any. The driver's pools count only if they
    /// hold memory that is not in use.
    pub fn has_others(&self, limit: Option<LimitId>) -> bool {
        let has_member = self.group.members().iter().any(|member| self.may_ask(member, limit));
        has_member || self.driver_pools(limit).is_some_and(|pools| pools.usage().free_bytes() > 0)
    }

    /// The driver's pools, which draw on no limit.
    fn driver_pools(&self, limit: Option<LimitId>) -> Option<&Arc<dyn TrimmableResource>> {
        self.group.driver_pools.as_ref().filter(|_| limit.is_none())
    }

    fn may_ask(&self, member: &Member, limit: Option<LimitId>) -> bool {
        member.id != self.id && limit.is_none_or(|limit| member.draws_on.contains(&limit))
    }

    /// The others, the oldest first and the driver's pools last: those that draw on `limit`, or
    /// all.
    pub fn others(&self, limit: Option<LimitId>) -> Others {
        let members = self.group.members();
        let helpers = members.iter().filter(|member| self.may_ask(member, limit));
        let helpers = helpers.map(|member| member.resource.clone());
        let resources = helpers.chain(self.driver_pools(limit).map(Arc::downgrade)).collect();
        drop(members);
        Others { group: Arc::clone(&self.group), resources }
    }
}

/// Adds the limits of all resources in the stack that starts here.
fn note_limits(resource: &(dyn SyncResource + 'static), limits: &mut Vec<LimitId>) {
    if let Some(limit) = resource.request_value::<LimitId>()
        && !limits.contains(&limit)
    {
        limits.push(limit);
    }
    for upstream in resource.upstream_resource().into_iter().chain(resource.other_upstreams()) {
        note_limits(upstream, limits);
    }
}

/// What a request may ask others for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// Memory that is known to be unused.
    Idle,
    /// Memory that is unused once the device has completed its work.
    Wait,
}

/// Resources that may return memory.
#[derive(Clone)]
pub struct Others {
    group: Arc<Group>,
    resources: Vec<Weak<dyn TrimmableResource>>,
}

impl fmt::Debug for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Others").field("count", &self.resources.len()).finish_non_exhaustive()
    }
}

impl Others {
    /// The resources that draw on a limit.
    pub fn of_limit(limit: LimitId) -> Option<Self> {
        let groups: Vec<_> = fork::lock(&GROUPS).iter().filter_map(Weak::upgrade).collect();
        groups.into_iter().find_map(|group| {
            let members = group.members();
            let holders = members.iter().filter(|member| member.draws_on.contains(&limit));
            let resources: Vec<_> = holders.map(|member| member.resource.clone()).collect();
            drop(members);
            (!resources.is_empty()).then_some(Self { group, resources })
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// What each of them holds.
    pub fn usages(&self) -> Vec<(&'static str, PoolUsage)> {
        let alive = self.resources.iter().filter_map(Weak::upgrade);
        alive.map(|resource| (resource.trim_name(), resource.usage())).collect()
    }

    /// Whether all that they could return, and `free` bytes more, are enough for `needed` bytes.
    pub fn could_help(&self, needed: u64, free: u64) -> bool {
        let held = self
            .usages()
            .iter()
            .fold(0_u64, |sum, (_, usage)| sum.saturating_add(usage.free_bytes()));
        held > 0 && held.saturating_add(free) >= needed
    }

    /// Waits until no other thread of the group asks.
    pub fn take_turn(&self) -> Turn<'_> {
        Turn { others: self, _held: fork::lock(&self.group.turn) }
    }
}

/// The right to ask. No lock of a resource may be held while it is taken or used.
#[must_use = "others may ask once it is dropped"]
pub struct Turn<'o> {
    others: &'o Others,
    _held: MutexGuard<'o, ()>,
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("others", self.others).finish()
    }
}

impl Turn<'_> {
    /// Asks one after another for `needed` bytes in all, and then each for all that it has, and
    /// calls `attempt` whenever memory was returned, until that breaks. Each call of a resource
    /// runs in `unlocked`, which releases the caller's own lock meanwhile.
    pub fn ask<C, T>(
        &self,
        effort: Effort,
        needed: u64,
        caller: &mut C,
        unlocked: impl Fn(&mut C, &mut dyn FnMut() -> u64) -> u64,
        mut attempt: impl FnMut(&mut C) -> ControlFlow<T>,
    ) -> ControlFlow<T> {
        let mut missing = needed;
        if effort == Effort::Idle {
            for other in &self.others.resources {
                let given = unlocked(caller, &mut || {
                    give(other, |usage| usage.reserved.saturating_sub(missing))
                });
                missing = missing.saturating_sub(given);
                if missing == 0 {
                    break;
                }
            }
            if missing < needed {
                attempt(caller)?;
            }
        }
        let mut has_waited = false;
        for other in &self.others.resources {
            let given = unlocked(caller, &mut || match effort {
                Effort::Idle => give(other, |_| 0),
                Effort::Wait => give_after_wait(other),
            });
            if given > 0 {
                attempt(caller)?;
            }
            has_waited = effort == Effort::Wait && given == 0;
        }
        // A wait lets the driver release memory by itself, too.
        if has_waited {
            attempt(caller)?;
        }
        ControlFlow::Continue(())
    }
}

/// Returns memory that is unused down to `keep`, if the resource still exists.
fn give(resource: &Weak<dyn TrimmableResource>, keep: impl Fn(&PoolUsage) -> u64) -> u64 {
    let Some(resource) = resource.upgrade() else { return 0 };
    let usage = resource.usage();
    if usage.free_bytes() == 0 { 0 } else { resource.trim_to(keep(&usage)) }
}

fn give_after_wait(resource: &Weak<dyn TrimmableResource>) -> u64 {
    let Some(resource) = resource.upgrade() else { return 0 };
    if resource.usage().free_bytes() == 0 { 0 } else { resource.trim_to_blocking(0) }
}

thread_local! {
    /// The requests of this thread that are being served, one within the other.
    static REQUESTS: Cell<u32> = const { Cell::new(0) };
}

/// A request that may ask others. Those that it makes of its upstream are its own business, and do
/// not ask.
#[derive(Debug)]
pub struct Asking {
    is_outermost: bool,
    /// The count belongs to the thread.
    thread_bound: PhantomData<*const ()>,
}

impl Asking {
    /// Begins a request.
    pub fn begin() -> Self {
        let requests = REQUESTS.get();
        REQUESTS.set(requests + 1);
        Self { is_outermost: requests == 0, thread_bound: PhantomData }
    }

    /// Whether the request is part of no other one of this thread.
    pub fn is_outermost(&self) -> bool {
        self.is_outermost
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        REQUESTS.set(REQUESTS.get() - 1);
    }
}

/// Whether a wait for the device is known to invalidate a capture: one is announced, or the stream
/// or the legacy default stream is under capture.
fn is_capturing(stream: Option<StreamRef<'_>>) -> bool {
    // SAFETY: the legacy default stream always exists.
    let legacy_says = || unsafe { CudaStream::may_be_capturing_raw(CuStream::LEGACY) };
    CaptureScope::is_announced()
        || stream.is_some_and(|stream| stream.is_capturing().unwrap_or(true))
        || legacy_says()
}

/// Calls `allocate`, and if it is out of memory asks others and calls it again: for idle memory
/// first, then for memory that is unused once the device has completed its work. `others` are asked
/// for `bytes` bytes, and found only after a failure.
///
/// # Errors
/// The last error of `allocate`.
pub fn allocate_with<T>(
    stream: Option<StreamRef<'_>>,
    bytes: u64,
    mut allocate: impl FnMut() -> Result<T, Error>,
    others: impl FnOnce() -> Option<Others>,
) -> Result<T, Error> {
    let refusal = match allocate() {
        Err(error) if error.is_out_of_memory() => error,
        outcome => return outcome,
    };
    ask_others(stream, bytes, refusal, &mut allocate, others)
}

#[cold]
fn ask_others<T>(
    stream: Option<StreamRef<'_>>,
    bytes: u64,
    refusal: Error,
    allocate: &mut dyn FnMut() -> Result<T, Error>,
    others: impl FnOnce() -> Option<Others>,
) -> Result<T, Error> {
    let asking = Asking::begin();
    if !asking.is_outermost() {
        return Err(refusal);
    }
    let Some(others) = others().filter(|others| others.could_help(0, 0)) else {
        return Err(refusal);
    };
    let turn = others.take_turn();
    let mut last = Some(refusal);
    let mut attempt = |(): &mut ()| match allocate() {
        Err(error) if error.is_out_of_memory() => {
            last = Some(error);
            ControlFlow::Continue(())
        }
        outcome => ControlFlow::Break(outcome),
    };
    for effort in [Effort::Idle, Effort::Wait] {
        if effort == Effort::Wait && is_capturing(stream) {
            break;
        }
        // Another thread may have left memory while this one waited for its turn.
        let outcome = attempt(&mut ());
        let asked = match outcome {
            ControlFlow::Continue(()) => {
                turn.ask(effort, bytes, &mut (), |(), ask| ask(), &mut attempt)
            }
            served @ ControlFlow::Break(_) => served,
        };
        if let ControlFlow::Break(outcome) = asked {
            return outcome;
        }
    }
    Err(last.unwrap_or_else(|| unreachable!("it is set above")))
}

/// The resources of the current device whose memory is of this kind, for a resource that is not
/// among them.
pub fn of_current_device(kind: MemoryKind) -> Option<Others> {
    let place = Siblings::join(Device::current().ok()?, Some(kind));
    place.ok().map(|place| place.others(None))
}
