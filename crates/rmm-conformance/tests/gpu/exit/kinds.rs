//! Every suballocator by its name.

use rmm_conformance::Failure;
use rmm_core::AnyResource;
use rmm_spec::ResourceSpec;

/// A suballocator: its name, the resource that has to be selected for it, and its specification.
pub(super) type Kind = (&'static str, &'static str, &'static str);

pub(super) const KINDS: [Kind; 7] = [
    ("pool", "pool", "pool(cuda, initial=1MiB)"),
    ("pool-compact", "pool", "pool(cuda, preset=compact)"),
    ("pool-virtual", "pool-virtual", "pool(virtual)"),
    ("pool-async", "cuda-async", "pool(cuda-async)"),
    ("arena", "arena", "arena(cuda, size=128MiB)"),
    ("binning", "binning", "binning(pool(cuda), bins=10..12)"),
    ("fixed-size", "binning", "fixed-size(cuda, block=4MiB, blocks=4)"),
];

fn find(name: &str) -> Kind {
    let found = KINDS.into_iter().find(|&(known, ..)| known == name);
    found.unwrap_or_else(|| panic!("{name} is no suballocator"))
}

/// The resource that has to be selected for the suballocator of this name.
pub(super) fn selected_by(name: &str) -> &'static str {
    find(name).1
}

/// A new suballocator of this name.
pub(super) fn make(name: &str) -> Result<AnyResource, Failure> {
    let spec: ResourceSpec = find(name).2.parse().map_err(Failure::new)?;
    Ok(spec.build()?)
}
