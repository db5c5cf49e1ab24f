use rmm_core::{HasAllocationAlignment, HasResource};

fn allocate_like(_of: &(impl HasResource + HasAllocationAlignment)) {}

fn main() {
    allocate_like(&"text");
}
