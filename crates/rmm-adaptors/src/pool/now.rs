//! Calls that do not wait: from and to the thread's cache, or not at all.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::sync::atomic::Ordering;

use rmm_core::{DevicePtr, StreamKind, StreamLifetime, StreamRef};

use super::core::PoolCore;

impl PoolCore {
    /// Allocates a block of the thread's cache. `None` if that is not certain to need no driver
    /// call and no lock.
    #[inline]
    pub(super) fn try_allocate_now(
        &self,
        stream: StreamRef<'_>,
        layout: Layout,
    ) -> Option<DevicePtr> {
        let class = self.class(layout)?;
        if !is_identified(stream) || !self.is_calm() {
            return None;
        }
        let pointer = DevicePtr(self.caches.take_now(stream.id(), class)?);
        self.annotator.allocated(pointer, layout, Some(stream));
        Some(pointer)
    }

    /// Frees a block into the thread's cache. `false` if that is not certain to need no driver call
    /// and no lock, or if memory is due to be returned to upstream, which `deallocate` does.
    #[inline]
    pub(super) fn try_deallocate_now(
        &self,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
        layout: Layout,
    ) -> bool {
        let Some(class) = self.class(layout) else { return false };
        if self.checks_frees
            || self.release_is_due.load(Ordering::Relaxed)
            || !is_identified(stream)
            || !self.is_calm()
        {
            return false;
        }
        let freed = || self.annotator.freed(pointer, layout, Some(stream));
        self.caches.put_now(stream.id(), class, pointer.0, freed)
    }
}

/// Whether the stream's identity is known without a question to the driver.
#[inline]
fn is_identified(stream: StreamRef<'_>) -> bool {
    stream.kind() != StreamKind::Adopted(StreamLifetime::Unknown)
}
