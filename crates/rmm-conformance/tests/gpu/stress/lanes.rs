//! The streams of a round.

use rmm_conformance::Random;
use rmm_core::{CudaStream, Error, StreamFlags};

/// Streams that all threads share, which nothing orders with any other.
const NON_BLOCKING: usize = 5;
/// Streams that all threads share, which order themselves with the legacy default stream. That one
/// makes them eight.
const BLOCKING: usize = 2;

/// Streams that all threads share.
pub(super) struct Lanes(Vec<CudaStream>);

impl Lanes {
    pub(super) fn new() -> Result<Self, Error> {
        let mut lanes = vec![CudaStream::legacy()];
        for _ in 0..NON_BLOCKING {
            lanes.push(CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?);
        }
        for _ in 0..BLOCKING {
            lanes.push(CudaStream::new()?);
        }
        Ok(Self(lanes))
    }

    /// One of them; sometimes the calling thread's own default stream, sometimes a stream that goes
    /// with its last block.
    pub(super) fn pick(&self, random: &mut Random) -> Result<CudaStream, Error> {
        match random.below(16) {
            0 => CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0),
            1 | 2 => Ok(CudaStream::per_thread()),
            _ => Ok(self.0[random.index(self.0.len())].clone()),
        }
    }
}
