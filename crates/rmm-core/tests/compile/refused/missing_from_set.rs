use rmm_core::{AnyResource, HostDeviceAccessible};
use rmm_resources::CudaMemoryResource;

fn main() {
    let _both = AnyResource::<HostDeviceAccessible>::new(CudaMemoryResource::new());
}
