use rmm_core::{AnyResource, HostDeviceAccessible};
use rmm_resources::CudaMemoryResource;

fn main() {
    let device: AnyResource = AnyResource::new(CudaMemoryResource::new());
    let _both = device.narrow::<HostDeviceAccessible>();
}
