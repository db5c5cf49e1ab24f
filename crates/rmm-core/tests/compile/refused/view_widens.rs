use rmm_core::{MemoryCaps, ResourceView};
use rmm_resources::CudaMemoryResource;

fn main() {
    const DEVICE: u32 = MemoryCaps::DEVICE_ACCESSIBLE.bits();
    const HOST: u32 = MemoryCaps::HOST_ACCESSIBLE.bits();
    let resource = CudaMemoryResource::new();
    let view = ResourceView::<DEVICE>::new(&resource);
    let _more = view.narrow::<{ DEVICE | HOST }>();
}
