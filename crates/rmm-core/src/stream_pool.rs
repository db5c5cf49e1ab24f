//! A fixed set of streams, assigned round-robin.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{CudaStream, Error, StreamFlags};

/// A fixed set of streams of one device, assigned round-robin.
///
/// Streams are not taken out of the pool, so two callers may get the same one; their work is then
/// ordered, which is slower but correct. Any thread may call. A clone of a stream outlives the
/// pool.
///
/// ```
/// use rmm_core::{CudaStreamPool, StreamFlags};
///
/// # let _machine = rmm_sim::enter();
/// let pool = CudaStreamPool::new(2, StreamFlags::NON_BLOCKING)?;
/// let (first, second, third) = (pool.get(), pool.get(), pool.get());
/// assert_ne!(first, second);
/// assert_eq!(first, third);
/// assert_eq!(pool.get_at(5), pool.get_at(1));
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[doc(alias = "rmm::cuda_stream_pool")]
#[derive(Debug)]
pub struct CudaStreamPool {
    /// # Invariant
    /// Not empty.
    streams: Box<[CudaStream]>,
    /// The number of streams assigned so far; it may wrap.
    turn: AtomicUsize,
}

impl CudaStreamPool {
    /// How many streams [`with_default_size`](Self::with_default_size) makes.
    pub const DEFAULT_SIZE: usize = 16;

    /// A pool of `size` new streams of the current device.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if `size` is 0; whatever
    /// the driver reports.
    pub fn new(size: usize, flags: StreamFlags) -> Result<Self, Error> {
        if size == 0 {
            return Err(Error::invalid_argument("CudaStreamPool", "a pool of 0 streams"));
        }
        // No capacity is reserved: the driver fails before an absurd size exhausts host memory.
        let streams = (0..size)
            .map(|_| CudaStream::with_flags(flags, 0))
            .collect::<Result<Vec<_>, _>>()?
            .into_boxed_slice();
        Ok(Self { streams, turn: AtomicUsize::new(0) })
    }

    /// A pool of [`DEFAULT_SIZE`](Self::DEFAULT_SIZE) new streams of the current device.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn with_default_size(flags: StreamFlags) -> Result<Self, Error> {
        Self::new(Self::DEFAULT_SIZE, flags)
    }

    /// The next stream, round-robin.
    #[doc(alias = "get_stream")]
    pub fn get(&self) -> &CudaStream {
        // Relaxed: it guards no other data. One round is cut short where the count wraps, which is
        // harmless.
        self.get_at(self.turn.fetch_add(1, Ordering::Relaxed))
    }

    /// The stream with this number; numbers beyond the last start again at the first.
    #[doc(alias = "get_stream")]
    pub fn get_at(&self, index: usize) -> &CudaStream {
        &self.streams[index % self.streams.len()]
    }

    /// How many streams there are: at least 1.
    #[doc(alias = "get_pool_size")]
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there are none: always `false`.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<CudaStreamPool>();
};

#[cfg(test)]
mod tests {
    //! The counter's wrap, which no program reaches from outside.

    use super::*;

    #[test]
    fn the_round_robin_continues_where_its_count_wraps() {
        let _machine = rmm_sim::enter();
        let mut pool = CudaStreamPool::new(3, StreamFlags::empty()).unwrap();
        *pool.turn.get_mut() = usize::MAX;
        assert_eq!(pool.get(), pool.get_at(usize::MAX));
        assert_eq!(pool.get(), pool.get_at(0));
        assert_eq!(pool.get(), pool.get_at(1));
    }
}
