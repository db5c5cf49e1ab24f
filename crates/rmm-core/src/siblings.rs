//! The suballocators of a device that can return memory to each other's upstream: a registry, and
//! the order in which a resource that is out of memory asks them. For this library's resources.
//!
//! ```text
//!   device (uuid), kind of memory: one group
//!   +-------------------------------------------------------+
//!   | turns: one thread asks at a time                       |
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
//!    a turn, so a pool over a pool takes one. An adaptor with code or locks of the program asks
//!    after these, for all that is below it ([`allocate_in_program`]).
//! 4. Where a limit has refused, only resources that draw on it are asked, in all groups.
//! 5. No thread waits long for one that runs code of the program ([`in_program`]).

mod awaited;
mod holders;
mod request;
mod thread_state;
mod turn;
mod turns;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rmm_sys::CuUuid;

pub use self::awaited::{
    Awaited, MayBeWaitedFor, awaited, in_library, in_program, is_in_program, not_waited_for,
};
pub use self::request::{Asking, OnFailure, Unasked, allocate_in_program, allocate_with};
pub use self::turn::{AskedFor, Turn};
use self::turns::Turns;
use crate::driver_pools::DriverPools;
pub use crate::limit_id::LimitId;
use crate::{
    Device, Error, Introspect, MemoryKind, PoolUsage, Structure, SynchronousResource,
    TrimmableResource, fork,
};

/// What a group's members draw on: the memory of a device, of one kind.
type Key = (CuUuid, MemoryKind);

struct Group {
    key: Key,
    members: Mutex<Vec<Member>>,
    /// The pools of the driver from which any library of the process may allocate, for device
    /// memory.
    driver_pools: Option<Arc<dyn TrimmableResource>>,
    turns: Turns,
}

struct Member {
    id: LimitId,
    other: Other,
    /// The limits in the stack below.
    draws_on: Arc<[LimitId]>,
}

/// A resource that may return memory.
#[derive(Clone)]
struct Other {
    resource: Weak<dyn TrimmableResource>,
    /// Whether all that is below it [may be waited for](MayBeWaitedFor).
    may_be_waited_for: bool,
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
            turns: Turns::default(),
        });
        groups.push(Arc::downgrade(&group));
        group
    }))
}

impl Group {
    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        let mut members = fork::lock(&self.members);
        members.retain(|member| member.other.resource.strong_count() > 0);
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
        upstream: Option<&(dyn SynchronousResource + 'static)>,
    ) {
        let mut draws_on = Vec::new();
        if let Some(upstream) = upstream {
            note_limits(upstream, &mut draws_on);
        }
        let may_be_waited_for = upstream.is_none_or(may_be_waited_for);
        let other = Other { resource, may_be_waited_for };
        self.group.members().push(Member { id: self.id, other, draws_on: draws_on.into() });
    }

    /// Whether there are others that draw on `limit`, or any.
    pub fn has_others(&self, limit: Option<LimitId>) -> bool {
        let has_member = || self.group.members().iter().any(|member| self.may_ask(member));
        limit.is_none() && has_member() || !self.others(limit).is_empty()
    }

    /// What is over this resource through code of the program may be in the middle of that code, on
    /// this thread.
    fn may_ask(&self, member: &Member) -> bool {
        member.id != self.id
            && (member.other.may_be_waited_for || !member.draws_on.contains(&self.id))
    }

    /// The others, the oldest first: those of any group that draw on `limit`, or all of this one.
    /// The driver's pools, which draw on no limit, come last, if they hold memory that is not in
    /// use.
    pub fn others(&self, limit: Option<LimitId>) -> Others {
        if let Some(limit) = limit {
            let may_ask =
                |member: &Member| self.may_ask(member) && member.draws_on.contains(&limit);
            return Others::among(all_groups(), may_ask);
        }
        let mut others = Others::among(vec![Arc::clone(&self.group)], |it| self.may_ask(it));
        if let Some(pools) = &self.group.driver_pools
            && pools.usage().free_bytes() > 0
        {
            let resource = Arc::downgrade(pools);
            others.resources.push(Other { resource, may_be_waited_for: true });
            others.groups = vec![Arc::clone(&self.group)];
        }
        others
    }
}

fn all_groups() -> Vec<Arc<Group>> {
    fork::lock(&GROUPS).iter().filter_map(Weak::upgrade).collect()
}

/// Adds the limits of all resources in the stack that starts here.
fn note_limits(resource: &(dyn SynchronousResource + 'static), limits: &mut Vec<LimitId>) {
    if let Some(limit) = resource.try_value::<LimitId>()
        && !limits.contains(&limit)
    {
        limits.push(limit);
    }
    for upstream in Structure::of(resource).upstreams() {
        note_limits(upstream, limits);
    }
}

/// Whether all resources in the stack that starts here [may be waited for](MayBeWaitedFor).
pub fn may_be_waited_for(resource: &(dyn SynchronousResource + 'static)) -> bool {
    resource.try_value::<MayBeWaitedFor>().is_some()
        && Structure::of(resource).upstreams().all(may_be_waited_for)
}

/// Resources that may return memory.
#[derive(Clone)]
pub struct Others {
    /// In the order of their addresses.
    groups: Vec<Arc<Group>>,
    resources: Vec<Other>,
}

impl fmt::Debug for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Others").field("count", &self.resources.len()).finish_non_exhaustive()
    }
}

impl Others {
    /// The resources that draw on a limit, for that: it does not know what is above it.
    pub fn of_limit(limit: LimitId) -> Self {
        let draws_on = |member: &Member| member.draws_on.contains(&limit);
        Self::among(all_groups(), draws_on).that_may_be_waited_for()
    }

    /// Those among the members of some groups.
    fn among(groups: Vec<Arc<Group>>, is_one: impl Fn(&Member) -> bool) -> Self {
        let mut others = Self { groups: Vec::new(), resources: Vec::new() };
        for group in groups {
            let members = group.members();
            let before = others.resources.len();
            let found = members.iter().filter(|member| is_one(member));
            others.resources.extend(found.map(|member| member.other.clone()));
            drop(members);
            if others.resources.len() > before {
                others.groups.push(group);
            }
        }
        others.groups.sort_by_key(|group| Arc::as_ptr(group).addr());
        others
    }

    /// Those of them that [may be waited for](MayBeWaitedFor): a resource which does not know what
    /// is above it asks no others, through which its own thread may have come.
    #[must_use]
    pub fn that_may_be_waited_for(mut self) -> Self {
        self.resources.retain(|other| other.may_be_waited_for);
        self
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// What each of them holds.
    pub fn usages(&self) -> Vec<(&'static str, PoolUsage)> {
        let alive = self.resources.iter().filter_map(|other| other.resource.upgrade());
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
}

/// The resources of a device whose memory is of this kind, for one that is not among them and does
/// not know what is above it.
pub fn of_device(device: Device, kind: MemoryKind) -> Option<Others> {
    let place = Siblings::join(device, Some(kind));
    place.ok().map(|place| place.others(None).that_may_be_waited_for())
}

/// The resources of the current device whose memory is of this kind, see [`of_device`].
pub fn of_current_device(kind: MemoryKind) -> Option<Others> {
    of_device(Device::current().ok()?, kind)
}
