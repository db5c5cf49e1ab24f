//! Valid counterparts of the refused programs.

use rmm_core::{DeviceAsyncResourceRef, MemoryCaps, ResourceView};
use rmm_resources::CudaMemoryResource;

pub(crate) fn program() {
    const DEVICE: u32 = MemoryCaps::DEVICE_ACCESSIBLE.bits();
    let resource = CudaMemoryResource::new();
    let _device = DeviceAsyncResourceRef::new(&resource);
    let _view = ResourceView::<DEVICE>::new(&resource).narrow::<0>();
}
