use rmm_core::HasResource;

fn allocate_like(_of: &impl HasResource) {}

fn main() {
    allocate_like(&"text");
}
