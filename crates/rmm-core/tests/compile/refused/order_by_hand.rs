//! What is erased is the resource itself: no program says how.

use std::alloc::Layout;

use rmm_core::{DevicePtr, Error, ErasableAs, StreamOrdered, SynchronousResource};

#[derive(PartialEq, Debug)]
struct Unordered;

// SAFETY: it hands nothing out.
unsafe impl SynchronousResource for Unordered {
    fn do_allocate_sync(&self, _: Layout) -> Result<DevicePtr, Error> {
        Err(Error::out_of_memory("unordered"))
    }

    unsafe fn do_deallocate_sync(&self, _: DevicePtr, _: Layout) {}

    fn name(&self) -> &'static str {
        "unordered"
    }
}

impl ErasableAs<StreamOrdered> for Unordered {}

fn main() {}
