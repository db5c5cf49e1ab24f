//! Allocating and freeing: the rules that involve allocations, devices, pools and streams.
#![forbid(unsafe_code)]

use rmm_sys::CuResult;

use crate::engine::session::Session;
use crate::engine::state::State;
use crate::model::context::Scope;
use crate::model::device::ALIGNMENT;
use crate::model::memory::{Allocation, AllocationKind};
use crate::model::pool::{Medium, Pool};
use crate::model::trace::LeakKind;
use crate::model::vector_clock::{Point, VectorClock};
use crate::model::work::Work;

impl State {
    /// The effect of a synchronisation on the pools of a device: memory whose frees are complete
    /// can be reused on any stream, and free segments are released to the device down to each
    /// pool's release threshold.
    pub(crate) fn release_free_segments(&mut self, device: usize) {
        let pools: Vec<u64> = self.pools_of(device);
        for pool in pools {
            self.note_completed_frees(pool);
            let keep = self
                .pools
                .get(&pool)
                .map_or(0, |pool| if pool.destroyed { 0 } else { pool.threshold });
            self.trim_pool(pool, keep);
        }
    }

    /// Releases the free segments of a device's pools, regardless of their thresholds.
    fn release_all_segments(&mut self, device: usize) {
        for pool in self.pools_of(device) {
            self.trim_pool(pool, 0);
        }
    }

    fn pools_of(&self, device: usize) -> Vec<u64> {
        self.pools.iter().filter(|(_, pool)| pool.device == device).map(|(&key, _)| key).collect()
    }

    /// Makes memory of a pool whose frees are complete known to be so, as a wait of the host does.
    fn note_completed_frees(&mut self, key: u64) {
        let Self { pools, streams, .. } = self;
        if let Some(pool) = pools.get_mut(&key) {
            pool.coalesce(|point| streams.is_complete(point));
        }
    }

    /// Releases the free segments of a pool, keeping at least `keep` bytes. Removes a destroyed
    /// pool without allocations.
    ///
    /// Memory that was freed since the host last waited stays with the pool, whether the device has
    /// completed the free or not (seen on an H100). A destroyed pool keeps only what is not
    /// complete.
    pub(crate) fn trim_pool(&mut self, key: u64, keep: usize) {
        if self.pools.get(&key).is_some_and(|pool| pool.destroyed) {
            self.note_completed_frees(key);
        }
        let Self { pools, devices, host, .. } = self;
        let Some(pool) = pools.get_mut(&key) else { return };
        pool.coalesce(|_| false);
        for (start, len) in pool.shrink(keep) {
            match pool.medium {
                Medium::Device => devices[pool.device].deallocate(start, len),
                Medium::Managed | Medium::Host => host.deallocate(start, len),
            }
        }
        if pool.destroyed && pool.used() == 0 && pool.reserved() == 0 {
            pools.remove(&key);
        }
    }

    /// Allocates a block that the stream may reuse now.
    fn take_ordered(&mut self, key: u64, len: usize, stream: u64) -> Option<usize> {
        let Self { pools, streams, .. } = self;
        let pool = pools.get_mut(&key)?;
        let reuse = pool.reuse;
        let frontier = &streams.get(stream)?.frontier;
        let usable = |freed: Option<Point>| {
            freed.is_none_or(|point| {
                point.stream == stream
                    || streams.get(point.stream).is_none()
                    || (reuse.follow_events && frontier.covers(point))
                    || (reuse.opportunistic && streams.is_complete(point))
            })
        };
        pool.allocate(len, usable).map(|(start, _)| start)
    }

    /// Grows a pool by a segment that fits `len` bytes.
    fn grow_pool(&mut self, key: u64, len: usize) -> bool {
        let Self { pools, devices, host, .. } = self;
        let Some(pool) = pools.get_mut(&key) else { return false };
        let mut take = |size| match pool.medium {
            Medium::Device => devices[pool.device].allocate(size),
            Medium::Managed | Medium::Host => host.allocate(size).ok(),
        };
        let sizes = pool.growth(len).unwrap_or_default();
        let taken =
            sizes.into_iter().filter(|&size| size > 0).find_map(|size| Some((take(size)?, size)));
        let Some((start, size)) = taken else { return false };
        pool.grow(start, size);
        true
    }

    /// Allocates a block that other streams may still use, and makes the stream wait for them.
    fn take_waiting(&mut self, key: u64, len: usize, stream: u64) -> Option<usize> {
        let pool = self.pools.get_mut(&key).filter(|pool| pool.reuse.internal_dependencies)?;
        let (start, points) = pool.allocate(len, |_| true)?;
        let after: VectorClock = points.into_iter().collect();
        // The stream exists, so the wait can be enqueued.
        self.enqueue_after(stream, Work::Marker("wait for freed memory"), &after).ok()?;
        Some(start)
    }
}

impl Session<'_> {
    /// Allocates memory of a device.
    pub(crate) fn allocate(&mut self, device: usize, bytes: usize) -> Result<usize, CuResult> {
        if bytes == 0 {
            return Err(CuResult::INVALID_VALUE);
        }
        let start = self.take_from_device(device, bytes)?;
        self.allocations.insert(start, bytes, AllocationKind::Device, device);
        self.note_origin(LeakKind::Allocation, start as u64);
        self.check_allocated(start, bytes, None);
        self.trace_address(start);
        Ok(start)
    }

    /// Takes memory from a device, without recording an allocation.
    pub(crate) fn take_from_device(
        &mut self,
        device: usize,
        bytes: usize,
    ) -> Result<usize, CuResult> {
        self.check_allocation_fault(bytes)?;
        let mut start = self.devices[device].allocate(bytes);
        if start.is_none() {
            // As in the driver, memory that pools only reserve is released before an allocation
            // fails, without a wait.
            self.release_all_segments(device);
            start = self.devices[device].allocate(bytes);
        }
        start.ok_or(CuResult::OUT_OF_MEMORY)
    }

    /// Allocates pinned or managed memory.
    pub(crate) fn allocate_host(
        &mut self,
        device: usize,
        bytes: usize,
        kind: AllocationKind,
    ) -> Result<usize, CuResult> {
        if bytes == 0 {
            // Seen on an H200: an allocation of no pinned bytes succeeds. The null address is a
            // guess.
            return if kind == AllocationKind::Pinned {
                Ok(0)
            } else {
                Err(CuResult::INVALID_VALUE)
            };
        }
        self.check_allocation_fault(bytes)?;
        let start = self.host.allocate(bytes)?;
        self.prefetches.clear(&(start..start + bytes));
        self.allocations.insert(start, bytes, kind, device);
        self.note_origin(LeakKind::Allocation, start as u64);
        self.check_allocated(start, bytes, None);
        self.trace_address(start);
        Ok(start)
    }

    /// Allocates from a pool in stream order. The stream may belong to another device: the pool
    /// decides where the memory is, the stream only when it may be used.
    pub(crate) fn allocate_from(
        &mut self,
        key: u64,
        bytes: usize,
        stream: u64,
    ) -> Result<usize, CuResult> {
        let pool = self.pools.get(&key).ok_or(CuResult::INVALID_VALUE)?;
        let (device, medium) = (pool.device, pool.medium);
        if pool.imported_from().is_some() {
            return Err(CuResult::INVALID_VALUE);
        }
        if bytes == 0 {
            // Seen on an H200.
            return Ok(0);
        }
        self.check_allocation_fault(bytes)?;
        let len = bytes.checked_next_multiple_of(ALIGNMENT).ok_or(CuResult::OUT_OF_MEMORY)?;
        // First, so that the stream is already ordered after all that its next item would
        // implicitly wait for.
        self.enqueue(stream, Work::Marker("allocation"))?;
        let mut start = self.take_ordered(key, len, stream);
        if start.is_none() && self.grow_pool(key, len) {
            start = self.take_ordered(key, len, stream);
        }
        if start.is_none() {
            start = self.take_waiting(key, len, stream);
        }
        if start.is_none() {
            // The last resort: release what pools reserve. For what was freed in the pool itself,
            // wait for all devices, since that may have been on any of their streams.
            if self.pools.get(&key).is_some_and(Pool::has_pending_frees) {
                self.drain(Scope::All);
                self.note_completed_frees(key);
            }
            self.release_all_segments(device);
            let fits = self.grow_pool(key, len);
            start = if fits { self.take_ordered(key, len, stream) } else { None };
        }
        let start = start.ok_or(CuResult::OUT_OF_MEMORY)?;
        if let Some(pool) = self.pools.get_mut(&key) {
            pool.add_used(bytes);
        }
        if medium == Medium::Managed {
            self.prefetches.clear(&(start..start + bytes));
        }
        self.allocations.insert(start, bytes, AllocationKind::Pool(key, medium), device);
        self.note_origin(LeakKind::Allocation, start as u64);
        let end = self.streams.end_of(stream);
        self.check_allocated(start, bytes, Some(end));
        self.trace_address(start);
        Ok(start)
    }

    /// Frees pool memory in stream order.
    pub(crate) fn free_in_order(&mut self, start: usize, stream: u64) -> Result<(), CuResult> {
        let allocation = self.allocations.at(start);
        if let Some(imported) = allocation.filter(Allocation::is_imported) {
            return self.release_import(&imported, stream);
        }
        let from_pool = allocation.and_then(|allocation| match allocation.kind {
            AllocationKind::Pool(key, _) => Some((allocation, key)),
            _ => None,
        });
        let Some((allocation, key)) = from_pool else {
            self.check_bad_free("cuMemFreeAsync", start);
            return Err(CuResult::INVALID_VALUE);
        };
        self.trace_address(start);
        let point = self.enqueue(stream, Work::Release { allocation: allocation.id })?;
        self.check_freed(&allocation, Some(point));
        self.end_imports(&allocation);
        self.allocations.forget(&allocation);
        self.give_to_pool(key, &allocation, Some(point));
        Ok(())
    }

    /// Frees memory of a kind that `accepts` accepts: memory of pools immediately, other memory
    /// after all work that may use it is complete.
    pub(crate) fn free(
        &mut self,
        start: usize,
        accepts: impl Fn(AllocationKind) -> bool,
    ) -> Result<(), CuResult> {
        let find = |session: &Self| {
            session.allocations.at(start).filter(|allocation| accepts(allocation.kind))
        };
        let Some(allocation) = find(self) else {
            self.check_bad_free("a free", start);
            return Err(CuResult::INVALID_VALUE);
        };
        self.trace_address(start);
        // Freeing device memory waits for the device; programs rely on that. For host memory it is
        // not documented, and for pool memory it is documented not to wait.
        let is_of_pool =
            matches!(allocation.kind, AllocationKind::Pool(..) | AllocationKind::Imported { .. });
        let waits = !allocation.is_pinned() && !is_of_pool;
        let device = allocation.device;
        let known =
            if waits { self.clock_of_scope(Scope::Device(device)) } else { VectorClock::default() };
        let waited_for =
            if allocation.on_device_only() { Scope::Device(device) } else { Scope::All };
        if waits {
            self.drain(waited_for);
            self.failure_of(device)?;
            self.join_host_clock_of(Scope::Device(device), &known);
        } else if !is_of_pool {
            self.run_pending(waited_for);
        }
        // Another thread may have freed it meanwhile.
        let still = find(self).filter(|still| still.id == allocation.id);
        let allocation = still.ok_or(CuResult::INVALID_VALUE)?;
        self.check_freed(&allocation, None);
        self.end_imports(&allocation);
        self.allocations.forget(&allocation);
        self.allocations.release(allocation.id);
        match allocation.kind {
            AllocationKind::Device => {
                self.devices[allocation.device].deallocate(start, allocation.bytes);
            }
            AllocationKind::Pool(key, _) => self.give_to_pool(key, &allocation, None),
            AllocationKind::Managed | AllocationKind::Pinned => {
                self.host.deallocate(start, allocation.bytes);
            }
            AllocationKind::Imported { .. } => {
                self.virtual_memory.return_addresses(start, allocation.bytes);
            }
            AllocationKind::Registered | AllocationKind::Mapped => {}
        }
        Ok(())
    }

    fn give_to_pool(&mut self, key: u64, allocation: &Allocation, freed: Option<Point>) {
        let len = allocation.bytes.next_multiple_of(ALIGNMENT);
        let pool = self.pools.get_mut(&key);
        let pool = pool.expect("a pool exists while memory of it is allocated");
        pool.deallocate(allocation.start, len, freed);
        if freed.is_some() {
            pool.sub_used(allocation.bytes);
        }
        if pool.destroyed {
            self.trim_pool(key, 0);
        }
    }
}
