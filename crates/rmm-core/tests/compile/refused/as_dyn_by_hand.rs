use std::any::Any;

use rmm_core::{AsDyn, SynchronousResource};
use rmm_resources::CudaMemoryResource;

/// Without a size, so that `AsDyn` is not implemented for it.
#[derive(Debug)]
struct Unsized {
    other: CudaMemoryResource,
    _rest: [u8],
}

/// Passes off another resource as this one.
impl AsDyn for Unsized {
    fn as_any(&self) -> &(dyn Any + 'static) {
        &self.other
    }

    fn as_dyn<'a>(&self) -> &(dyn SynchronousResource + 'a)
    where
        Self: 'a,
    {
        &self.other
    }
}

fn main() {}
