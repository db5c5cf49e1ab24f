//! Memory pools of the driver itself, which probes call without anything between.

use std::ffi::{c_int, c_void};

use rmm_conformance::{CheckResult, Failure};
use rmm_core::Device;
use rmm_sys::{
    CuDevicePtr, CuMemLocation, CuMemLocationType, CuMemPool, CuMemPoolAttribute, CuMemPoolProps,
    CuResult,
};

use super::raw::{Stream, driver};
use super::{answers, works};

/// The bytes of most blocks: large enough that a pool has to grow unless it reuses one.
pub(super) const BLOCK: usize = 64 << 20;

/// A pool of the current device, destroyed when this is dropped.
pub(super) struct Pool {
    /// # Invariant
    /// Made by `made`, and not destroyed.
    raw: CuMemPool,
}

/// Memory of a pool. Dropping it does not free it.
pub(super) struct CheckedBlock {
    /// # Invariant
    /// Allocated by `Pool::allocate`, and not freed.
    pub(super) pointer: CuDevicePtr,
}

impl Pool {
    /// A pool with the driver's defaults and this maximum size; 0 for no limit.
    pub(super) fn made(max_size: usize) -> Result<Self, Failure> {
        let id = c_int::try_from(Device::current()?.ordinal()).map_err(Failure::new)?;
        let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id };
        let properties = CuMemPoolProps { max_size, ..CuMemPoolProps::pinned(location) };
        let mut raw = CuMemPool::NULL;
        // SAFETY: `raw` may be written to, and the properties read.
        let code = unsafe { driver().cuMemPoolCreate(&raw mut raw, &raw const properties) };
        code.result()?;
        Ok(Self { raw })
    }

    /// A pool that releases nothing by itself, and that reuses memory of other streams by none of
    /// the ways that can be switched.
    pub(super) fn that_keeps(max_size: usize) -> Result<Self, Failure> {
        let pool = Self::made(max_size)?;
        pool.set(CuMemPoolAttribute::RELEASE_THRESHOLD, u64::MAX).result()?;
        for switch in [
            CuMemPoolAttribute::REUSE_FOLLOW_EVENT_DEPENDENCIES,
            CuMemPoolAttribute::REUSE_ALLOW_OPPORTUNISTIC,
            CuMemPoolAttribute::REUSE_ALLOW_INTERNAL_DEPENDENCIES,
        ] {
            pool.switch(switch, false).result()?;
        }
        Ok(pool)
    }

    pub(super) fn raw(&self) -> CuMemPool {
        self.raw
    }

    pub(super) fn allocate(&self, bytes: usize, stream: &Stream) -> Result<CheckedBlock, CuResult> {
        let mut pointer = CuDevicePtr::NULL;
        // SAFETY: `pointer` may be written to, and the pool and the stream exist.
        let code = unsafe {
            driver().cuMemAllocFromPoolAsync(&raw mut pointer, bytes, self.raw, stream.raw())
        };
        code.result().map(|()| CheckedBlock { pointer })
    }

    pub(super) fn trim_to(&self, keep: usize) -> CuResult {
        // SAFETY: the pool exists.
        unsafe { driver().cuMemPoolTrimTo(self.raw, keep) }
    }

    /// Sets one of the attributes that are a `u64`.
    pub(super) fn set(&self, attribute: CuMemPoolAttribute, mut value: u64) -> CuResult {
        let value = (&raw mut value).cast::<c_void>();
        // SAFETY: the pool exists, and the value is of the attribute's type.
        unsafe { driver().cuMemPoolSetAttribute(self.raw, attribute, value) }
    }

    /// Sets one of the attributes that are a `c_int`.
    pub(super) fn switch(&self, attribute: CuMemPoolAttribute, on: bool) -> CuResult {
        let mut value = c_int::from(on);
        let value = (&raw mut value).cast::<c_void>();
        // SAFETY: the pool exists, and the value is of the attribute's type.
        unsafe { driver().cuMemPoolSetAttribute(self.raw, attribute, value) }
    }

    /// Reads one of the attributes that are a `u64`.
    pub(super) fn get(&self, attribute: CuMemPoolAttribute) -> Result<u64, CuResult> {
        let mut value = u64::MAX;
        let place = (&raw mut value).cast::<c_void>();
        // SAFETY: the pool exists, and the place takes the attribute's type.
        let code = unsafe { driver().cuMemPoolGetAttribute(self.raw, attribute, place) };
        code.result().map(|()| value)
    }

    /// Reads one of the attributes that are a `c_int`.
    pub(super) fn is_on(&self, attribute: CuMemPoolAttribute) -> Result<bool, CuResult> {
        let mut value: c_int = -1;
        let place = (&raw mut value).cast::<c_void>();
        // SAFETY: the pool exists, and the place takes the attribute's type.
        let code = unsafe { driver().cuMemPoolGetAttribute(self.raw, attribute, place) };
        code.result().map(|()| value == 1)
    }

    /// Fails unless the pool's attribute has this value.
    #[track_caller]
    pub(super) fn counts(
        &self,
        when: &str,
        attribute: CuMemPoolAttribute,
        bytes: usize,
    ) -> CheckResult {
        answers(&format!("{attribute:?} {when}"), &self.get(attribute), &Ok(bytes as u64))
    }

    /// Fails unless this many bytes are reserved.
    #[track_caller]
    pub(super) fn reserves(&self, when: &str, bytes: usize) -> CheckResult {
        self.counts(when, CuMemPoolAttribute::RESERVED_MEM_CURRENT, bytes)
    }

    /// Fails unless this many bytes are allocated.
    #[track_caller]
    pub(super) fn hands_out(&self, when: &str, bytes: usize) -> CheckResult {
        self.counts(when, CuMemPoolAttribute::USED_MEM_CURRENT, bytes)
    }

    /// Destroys the pool.
    pub(super) fn destroy(self) -> CuResult {
        let raw = std::mem::ManuallyDrop::new(self).raw;
        // SAFETY: made by `made`, and not used again.
        unsafe { driver().cuMemPoolDestroy(raw) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: made by `made`, and not used again. A failure means that the driver is gone.
        let _ignored = unsafe { driver().cuMemPoolDestroy(self.raw) };
    }
}

impl CheckedBlock {
    /// Frees it in the stream's order.
    pub(super) fn free(self, stream: &Stream) -> CheckResult {
        // SAFETY: allocated by `Pool::allocate`, and not used again; probes use it in streams that
        // come before.
        works("a free in stream order", unsafe {
            driver().cuMemFreeAsync(self.pointer, stream.raw())
        })
    }

    /// Enqueues that its first word becomes `value`.
    pub(super) fn write(&self, stream: &Stream, value: u32) -> CuResult {
        // SAFETY: the memory is longer than a word; probes free it in streams that come after.
        unsafe { driver().cuMemsetD32Async(self.pointer, value, 1, stream.raw()) }
    }

    /// Fails unless its first word is `expected`, for a stream that is ordered after the write.
    pub(super) fn holds(&self, stream: &Stream, expected: u32) -> CheckResult {
        let mut word = [0u8; 4];
        // SAFETY: both are so long; the copy is complete when the wait below returns.
        let code = unsafe {
            driver().cuMemcpyDtoHAsync_v2(
                word.as_mut_ptr().cast(),
                self.pointer,
                word.len(),
                stream.raw(),
            )
        };
        works("the copy of a word", code)?;
        works("the wait for it", stream.synchronize())?;
        answers("the word in memory", &u32::from_ne_bytes(word), &expected)
    }
}
