use rmm_core::HostResourceRef;
use rmm_resources::CudaMemoryResource;

fn main() {
    let resource = CudaMemoryResource::new();
    let _host = HostResourceRef::new(&resource);
}
