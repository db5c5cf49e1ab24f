use rmm_core::{AnyResource, HasProperty, HostAccessible};
use rmm_resources::CudaMemoryResource;

fn read(_resource: &impl HasProperty<HostAccessible>) {}

fn main() {
    read(&CudaMemoryResource::new());
    let erased: AnyResource = AnyResource::new(CudaMemoryResource::new());
    read(&erased);
}
