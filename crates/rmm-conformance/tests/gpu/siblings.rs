//! Two pools of one device that need most of its memory in turn: neither is refused what the other
//! has no use for.
//!
//! On a GPU nothing else may hold its memory meanwhile, so there the check runs only where
//! `RMM_WHOLE_DEVICE` is set:
//!
//! ```sh
//! RMM_DRIVER=cuda RMM_WHOLE_DEVICE=1 archive/bin/gpu siblings:: driver_pools::
//! ```

use rmm_adaptors::{PoolMemoryResource, PoolPreset, default_pool};
use rmm_conformance::{CheckResult, Environment, Failure, Kernels, Place, Random, ensure};
use rmm_containers::DeviceBuffer;
use rmm_core::{CudaStream, Device, DeviceResource, StreamFlags};
use rmm_resources::CudaMemoryResource;

use crate::run::in_every_environment;

/// How often each pool takes most of the device's memory, which takes a GPU two milliseconds a GiB.
const ROUNDS: u64 = 4;

/// For how long the streams stand still before each pool's blocks are freed.
const CYCLES: u64 = 1_000_000;

/// What the phases share.
struct Program {
    kernels: Kernels,
    streams: [CudaStream; 2],
    /// Bytes that each phase needs.
    bytes: usize,
    random: Random,
}

impl Program {
    /// Takes blocks of random sizes, and frees them while the streams still work.
    fn use_most(&mut self, pool: &impl DeviceResource) -> CheckResult {
        let (mut held, mut left) = (Vec::new(), self.bytes);
        while left > self.bytes / 64 {
            let size = (self.bytes / 64 + self.random.index(self.bytes / 16)).min(left);
            held.push(DeviceBuffer::uninit_in(size, &self.streams[held.len() % 2], pool)?);
            left -= size;
        }
        for stream in &self.streams {
            self.kernels.stall(stream.as_stream_ref(), CYCLES)?;
        }
        Ok(())
    }
}

/// Each pool in turn needs nine tenths of 95 % of what is free at first.
fn neither_pool_is_refused(environment: &Environment, preset: PoolPreset) -> CheckResult {
    let free = usize::try_from(Device::memory_info()?.free).unwrap_or(usize::MAX);
    let stream = || CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0);
    let mut program = Program {
        kernels: Kernels::load(environment.handle())?,
        streams: [stream()?, stream()?],
        bytes: free / 100 * 95 / 10 * 9,
        random: Random::new(7),
    };
    let first: PoolMemoryResource = default_pool()?;
    let second = PoolMemoryResource::builder(CudaMemoryResource::new()).preset(preset).build()?;
    for _ in 0..ROUNDS {
        program.use_most(&first)?;
        program.use_most(&second)?;
    }
    let reserved = second.statistics().reserved_bytes;
    let has_it = reserved >= program.bytes as u64 / 64 * 63;
    ensure(has_it, || format!("the last pool has {reserved} bytes"))
}

/// Whether no one else needs memory of the device.
pub(crate) fn may_fill_the_device() -> Result<bool, Failure> {
    let is_alone = std::env::var_os("RMM_WHOLE_DEVICE").is_some();
    Ok(is_alone || !Place::selected()?.iter().any(|place| matches!(place, Place::Gpu(_))))
}

#[test]
fn two_pools_share_the_memory_of_a_device() {
    in_every_environment(|environment| {
        if !may_fill_the_device()? {
            return Ok(());
        }
        for preset in [PoolPreset::Throughput, PoolPreset::Compact, PoolPreset::Deterministic] {
            neither_pool_is_refused(environment, preset)?;
        }
        Ok(())
    });
}
