//! Tensors that another library holds, and one of another library.

use std::ptr::NonNull;

use rmm_conformance::Failure;
use rmm_containers::{DeviceUVector, PinnedVec};
use rmm_core::CudaStream;
use rmm_interop_dlpack::{DLManagedTensorVersioned, DlpackTensor, Ready, ToDlpack, from_dlpack};

use super::program::Held;

struct Tensors {
    exported: Vec<NonNull<DLManagedTensorVersioned>>,
    imported: DlpackTensor<u32>,
}

// SAFETY: tensors may be freed on any thread.
unsafe impl Send for Tensors {}

impl Tensors {
    fn end(self) {
        for tensor in self.exported {
            // SAFETY: the tensor exists until its deleter is called.
            let deleter = unsafe { (*tensor.as_ptr()).deleter }.expect("exported tensors have one");
            // SAFETY: it is called once, with its tensor.
            unsafe { deleter(tensor.as_ptr()) };
        }
        drop(self.imported);
    }
}

pub(super) fn fill() -> Result<Held, Failure> {
    let stream = CudaStream::new()?;
    let export = || -> Result<_, Failure> {
        let vector = DeviceUVector::from_slice(&[1u32, 2], &stream)?;
        Ok(vector.into_dlpack(&[2], Ready::On((&stream).into()))?)
    };
    let pinned = PinnedVec::from_slice(&[1u32])?.into_dlpack(&[1], Ready::On((&stream).into()))?;
    // SAFETY: the tensor is valid, passed on once, and ready on the stream.
    let imported = unsafe { from_dlpack(export()?, &stream) }?;
    let tensors = Tensors { exported: vec![export()?, pinned], imported };
    Ok(Held::new(move || {
        tensors.end();
        Ok(())
    }))
}
