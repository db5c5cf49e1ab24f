//! The streams of a round: created, default and adopted ones.

use rmm_conformance::Random;
use rmm_core::{CudaStream, Error, StreamFlags, StreamLifetime};

/// Streams that all threads share, which nothing orders with any other.
const NON_BLOCKING: usize = 3;
/// Streams that all threads share, which order themselves with the legacy default stream.
const BLOCKING: usize = 2;

/// Streams that all threads share: eleven with the legacy one and the adopted ones.
pub(super) struct Lanes {
    /// Dropped first: the adopted ones are streams of the owners.
    shared: Vec<CudaStream>,
    _owners: Vec<CudaStream>,
}

impl Lanes {
    pub(super) fn new() -> Result<Self, Error> {
        let (mut shared, mut owners) = (vec![CudaStream::legacy()], Vec::new());
        for _ in 0..NON_BLOCKING {
            shared.push(CudaStream::non_blocking()?);
        }
        for _ in 0..BLOCKING {
            shared.push(CudaStream::new()?);
        }
        for lifetime in [StreamLifetime::UntilDropped, StreamLifetime::Unknown] {
            for flags in [StreamFlags::empty(), StreamFlags::NON_BLOCKING] {
                let owner = CudaStream::with_flags(flags, 0)?;
                // SAFETY: the owner is dropped after the adopted stream, and after the blocks of
                // the round.
                shared.push(unsafe { CudaStream::adopt(owner.as_raw(), lifetime) }?);
                owners.push(owner);
            }
        }
        // A second name of a stream that is adopted already.
        // SAFETY: the owner is dropped after the adopted stream, and after the blocks of the round.
        shared.push(unsafe { CudaStream::adopt(owners[0].as_raw(), StreamLifetime::Unknown) }?);
        Ok(Self { shared, _owners: owners })
    }

    /// One of them; often a default stream, sometimes a stream that goes with its last block.
    pub(super) fn pick(&self, random: &mut Random) -> Result<CudaStream, Error> {
        match random.below(16) {
            0 => CudaStream::non_blocking(),
            1 | 2 => Ok(CudaStream::per_thread()),
            3 | 4 => Ok(CudaStream::legacy()),
            _ => Ok(self.shared[random.index(self.shared.len())].clone()),
        }
    }
}
