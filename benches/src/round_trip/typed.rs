//! The trip by the containers.

use rmm_adaptors::PoolMemoryResource;
use rmm_conformance::Kernels;
use rmm_containers::{DeviceUVector, PinnedVec};
use rmm_core::CudaStream;
use rmm_resources::CudaMemoryResource;

use super::{Allocation, Trip, source};
use crate::workloads::Outcome;

pub(super) struct Typed<'a> {
    kernels: &'a Kernels,
    stream: &'a CudaStream,
    words: u32,
    pool: PoolMemoryResource<CudaMemoryResource>,
    source: PinnedVec<u32>,
    target: PinnedVec<u32>,
    /// The vector that was allocated once, if that was asked for.
    vector: Option<DeviceUVector<u32>>,
}

impl<'a> Typed<'a> {
    pub(super) fn new(
        kernels: &'a Kernels,
        stream: &'a CudaStream,
        words: u32,
        allocation: Allocation,
    ) -> Outcome<Self> {
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
        let len = usize::try_from(words)?;
        let vector = match allocation {
            Allocation::Once => Some(DeviceUVector::uninit(len, stream, &pool)?),
            Allocation::EachTrip => None,
        };
        let mut from = PinnedVec::zeroed(len)?;
        from.as_mut_slice()?.iter_mut().zip(source(words)).for_each(|(word, value)| *word = value);
        let target = PinnedVec::zeroed(len)?;
        Ok(Self { kernels, stream, words, pool, source: from, target, vector })
    }
}

impl Trip for Typed<'_> {
    fn go(&mut self, summand: u32) -> Outcome {
        let mut taken;
        let vector = if let Some(vector) = &mut self.vector {
            vector
        } else {
            taken = DeviceUVector::uninit(self.source.len(), self.stream, &self.pool)?;
            &mut taken
        };
        vector.copy_from(self.source.device_slice())?;
        let used = vector.use_on_mut(self.stream)?;
        // SAFETY: the vector has so many words, and its uses on this stream are in order.
        unsafe { self.kernels.add(used.stream(), used.as_ptr(), self.words, summand) }?;
        vector.copy_to_slice(self.target.as_mut_slice()?, self.stream)?;
        Ok(())
    }

    fn result(&self) -> Outcome<&[u32]> {
        Ok(self.target.as_slice()?)
    }
}
