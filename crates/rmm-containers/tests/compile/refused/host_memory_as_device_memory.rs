//! A vector for devices, in memory that devices cannot access.

use rmm_containers::HostVec;
use rmm_resources::HostMemoryResource;

fn main() {
    let vector: HostVec<u32, HostMemoryResource> =
        HostVec::new_in(HostMemoryResource::new()).expect("it does not compile");
    drop(vector);
}
