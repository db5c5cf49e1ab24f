use rmm_core::{MemoryResource, StreamContext};
use rmm_resources::CudaMemoryResource;

fn on_its_stream(_resource: &impl MemoryResource<StreamContext>) {}

fn main() {
    on_its_stream(&CudaMemoryResource::new());
}
