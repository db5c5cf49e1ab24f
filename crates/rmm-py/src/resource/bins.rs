//! A resource with bins that are added while it is used.
//!
//! ```text
//! sizes  (0, s1] -> bin 1    (s1, s2] -> bin 2    ...    beyond -> upstream
//! ```
//!
//! The engine's binning resource is complete once it is built. RMM's gets bins later; a block that
//! was allocated before is then freed into another bin than it came from. Here a bin is refused
//! while blocks of its sizes are allocated.

use std::alloc::Layout;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use rmm_core::siblings::MayBeWaitedFor;
use rmm_core::{
    AnyResource, DeviceAccessible, DevicePtr, Error, HasProperty, Introspect as _, PoolUsage,
    Query, Resource, StreamRef, Structure, SynchronousResource, TrimmableResource,
};

/// The requests of up to this size, or all larger ones.
#[derive(Debug)]
struct Slot {
    size: usize,
    resource: AnyResource,
    /// Blocks that are allocated.
    live: Arc<AtomicUsize>,
}

/// A resource with bins.
#[derive(Clone, Debug)]
pub(crate) struct Bins {
    /// By size; the last one, whose size is `usize::MAX`, is the upstream. A thread waits for the
    /// lock only while another adds a bin, which calls nothing.
    slots: Arc<RwLock<Vec<Arc<Slot>>>>,
    upstream: AnyResource,
}

/// Held while a bin is added: two resources that become each other's bins at once would see none.
static ADDING: Mutex<()> = Mutex::new(());

/// Why a bin is refused.
const IN_USE: &str = "a bin cannot be added while memory of its sizes is allocated";

impl Bins {
    pub(crate) fn new(upstream: AnyResource) -> Self {
        let last = Slot { size: usize::MAX, resource: upstream.clone(), live: Arc::default() };
        Self { slots: Arc::new(RwLock::new(vec![Arc::new(last)])), upstream }
    }

    /// Adds a bin, or replaces the one of this size.
    ///
    /// # Errors
    /// If memory of its sizes is allocated, or is being allocated; `InvalidArgument` if the bin
    /// takes its memory from these bins.
    pub(crate) fn add(&self, size: usize, resource: AnyResource) -> Result<(), Error> {
        let adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_below(&resource, &mut Vec::new()) {
            let text = "a binning resource cannot be its own bin, nor below one";
            return Err(Error::invalid_argument("binning", text));
        }
        let in_use = || Error::unsupported("binning", IN_USE);
        let mut slots = match self.slots.try_write() {
            Ok(slots) => slots,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(in_use()),
        };
        let place = slots.partition_point(|slot| slot.size < size);
        // The last slot has the largest size, so there is one.
        if slots.get(place).is_some_and(|slot| slot.live.load(Ordering::Relaxed) > 0) {
            return Err(in_use());
        }
        let slot = Arc::new(Slot { size, resource, live: Arc::default() });
        let replaced = if slots.get(place).is_some_and(|known| known.size == size) {
            slots.get_mut(place).map(|known| std::mem::replace(known, slot))
        } else {
            slots.insert(place, slot);
            None
        };
        drop((slots, adding));
        // Without the lock: it may call the driver.
        drop(replaced);
        Ok(())
    }

    /// Whether a resource is this one, or takes memory from it. Looks at each of the others once.
    fn is_below(
        &self,
        resource: &(dyn SynchronousResource + 'static),
        seen: &mut Vec<*const RwLock<Vec<Arc<Slot>>>>,
    ) -> bool {
        for resource in resource.stack() {
            if let Some(bins) = resource.as_any().downcast_ref::<Self>() {
                if bins == self {
                    return true;
                }
                let known = Arc::as_ptr(&bins.slots);
                if seen.contains(&known) {
                    return false;
                }
                seen.push(known);
                if bins.bins().iter().any(|bin| self.is_below(&bin.resource, seen)) {
                    return true;
                }
            }
            if resource.other_upstreams().into_iter().any(|other| self.is_below(other, seen)) {
                return true;
            }
        }
        false
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Arc<Slot>>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(slots: &[Arc<Slot>], layout: Layout) -> Option<Arc<Slot>> {
        let place = slots.partition_point(|slot| slot.size < layout.size());
        slots.get(place).or(slots.last()).cloned()
    }

    /// The slot of a request, in which a block is counted before the lock is released: no bin of
    /// its size can be added from then on.
    fn slot(&self, layout: Layout) -> Option<Arc<Slot>> {
        let slots = self.read();
        let slot = Self::place(&slots, layout)?;
        let _ignored = slot.live.fetch_add(1, Ordering::Relaxed);
        Some(slot)
    }

    fn allocate_by(
        &self,
        layout: Layout,
        act: impl FnOnce(&AnyResource) -> Result<DevicePtr, Error>,
    ) -> Result<DevicePtr, Error> {
        let slot = self.slot(layout).ok_or_else(|| Error::unsupported("binning", "no slot"))?;
        let allocated = act(&slot.resource);
        if allocated.is_err() {
            let _ignored = slot.live.fetch_sub(1, Ordering::Relaxed);
        }
        allocated
    }

    fn free_by(&self, layout: Layout, act: impl FnOnce(&AnyResource)) {
        let slot = Self::place(&self.read(), layout);
        if let Some(slot) = slot {
            act(&slot.resource);
            let _ignored = slot.live.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl PartialEq for Bins {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.slots, &other.slots)
    }
}

// SAFETY: each request and its free go to the same resource: the slot of a size does not change
// while a block of it is counted, which it is before it is allocated, and until after it is freed.
unsafe impl SynchronousResource for Bins {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_by(layout, |resource| resource.allocate_sync(layout))
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract; the block came from this resource.
        self.free_by(layout, |resource| unsafe { resource.deallocate_sync(pointer, layout) });
    }

    fn name(&self) -> &'static str {
        "binning"
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::over(&self.upstream).with_trimmable(self)
    }

    rmm_core::__by_clone!(to_any_sync);

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.value(|| MayBeWaitedFor);
        query.properties(self).has::<DeviceAccessible>();
    }
}

impl Bins {
    /// The bins, without the upstream.
    fn bins(&self) -> Vec<Arc<Slot>> {
        self.read().iter().filter(|slot| slot.size < usize::MAX).cloned().collect()
    }

    /// The bytes that the bins return: of a bin over the common upstream those that went there.
    fn trimmed(
        &self,
        own: impl Fn(&dyn TrimmableResource) -> u64,
        stack: impl Fn(&AnyResource) -> u64,
    ) -> u64 {
        let trim = |slot: Arc<Slot>| {
            let bin = slot.resource.stack().next().and_then(|bin| bin.as_trimmable());
            bin.map_or_else(|| stack(&slot.resource), &own)
        };
        self.bins().into_iter().map(trim).sum()
    }
}

/// A trim of a stack sees what a resource is made of, and not bins that may be replaced meanwhile:
/// so they are trimmed here, before the upstream.
impl TrimmableResource for Bins {
    fn trim_name(&self) -> &'static str {
        "binning"
    }

    fn usage(&self) -> PoolUsage {
        let of_bin = |slot: &Arc<Slot>| {
            let bin = slot.resource.stack().next()?.as_trimmable()?;
            Some(bin.usage())
        };
        let usages = self.bins();
        let usages = usages.iter().filter_map(of_bin);
        let (reserved, live) = usages
            .fold((0, 0), |(reserved, live), usage| (reserved + usage.reserved, live + usage.live));
        PoolUsage::new(reserved, live)
    }

    fn trim_to(&self, keep: u64) -> u64 {
        self.trimmed(|bin| bin.trim_to(keep), |stack| stack.trim(keep))
    }

    fn trim_to_blocking(&self, keep: u64) -> u64 {
        self.trimmed(|bin| bin.trim_to_blocking(keep), |stack| stack.trim_blocking(keep))
    }
}

// SAFETY: as above.
unsafe impl Resource for Bins {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_by(layout, |resource| resource.allocate(stream, layout))
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        self.free_by(layout, |resource| {
            // SAFETY: the caller's contract; the block came from this resource.
            unsafe { resource.deallocate(stream, pointer, layout) };
        });
    }

    rmm_core::__by_clone!(to_any);
}

// SAFETY: all memory comes from resources of memory that the device can use.
unsafe impl HasProperty<DeviceAccessible> for Bins {}
