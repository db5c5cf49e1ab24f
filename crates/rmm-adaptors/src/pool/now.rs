//! Calls that do not wait: from and to the thread's cache, or not at all.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::sync::atomic::Ordering;

use rmm_core::{DevicePtr, StreamRef};

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
        if !self.is_identified(stream) || !self.is_calm() {
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
        if self.checks.is_some()
            || self.release_is_due.load(Ordering::Relaxed)
            || !self.is_identified(stream)
            || !self.is_calm()
        {
            return false;
        }
        let freed = || self.annotator.freed(pointer, layout, Some(stream));
        self.caches.put_now(stream.id(), class, pointer.0, freed)
    }
}

#[cfg(all(test, not(rmm_loom)))]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use rmm_core::{CudaStream, Resource};
    use rmm_resources::CudaMemoryResource;

    use super::*;
    use crate::PoolMemoryResource;

    /// Longer than any thread is kept from running: only a call that waits takes this long.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_locked_pool_is_not_waited_for() {
        let machine = rmm_sim::Machine::new();
        let _entered = machine.enter();
        let builder = PoolMemoryResource::builder(CudaMemoryResource::new()).check_frees(false);
        let pool = builder.initial_size(1 << 20).build().expect("a pool");
        let stream = CudaStream::non_blocking().expect("a stream");
        let core = &pool.inner.core;
        let [cached, cold] = [1000, 5000].map(|size| Layout::from_size_align(size, 256).unwrap());
        for _ in 0..20 {
            let block = pool.allocate(&stream, cached).expect("memory");
            core.deallocate(Some(stream.as_stream_ref()), block, cached);
        }
        let (arrived, arrival) = channel();
        let (signal, go_on) = channel();
        thread::scope(|scope| {
            let locker = scope.spawn(move || {
                let locked = core.lock();
                arrived.send(()).expect("the test waits for it");
                let is_told = go_on.recv_timeout(LONG).is_ok();
                drop(locked);
                is_told
            });
            arrival.recv_timeout(LONG).expect("the thread locks the pool");
            let stream = stream.as_stream_ref();
            let block = pool.try_allocate_now(stream, cached).expect("it is cached");
            assert_eq!(pool.try_allocate_now(stream, cold), None);
            assert!(core.try_deallocate_now(stream, block, cached));
            assert!(!core.try_deallocate_now(StreamRef::legacy(), block, cached), "not cached");
            signal.send(()).expect("the thread waits");
            assert!(locker.join().expect("it does not panic"), "the calls waited");
        });
    }
}
