//! Every resource and adaptor that ships, as a name and a specification.
//!
//! This is the only such list. The conformance suite checks each entry on every device and kind of
//! stream, `cargo xtask test-gpu` makes a cell of its matrix for it, and the benchmarks and
//! `rmm replay` take the stacks that they name from here.
//!
//! Plain data and `std` only: `xtask` compiles this file by its path, without the crate around it.

/// A stack of resources with a name.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedStack {
    /// The name in `RMM_TEST_RESOURCE`, on command lines and in results.
    pub name: &'static str,
    /// The text of a `ResourceSpec`, in which `{max}` stands for a value that the user of the list
    /// provides.
    pub spec: &'static str,
}

impl NamedStack {
    /// The specification with the placeholders replaced. An option without a value is left out.
    pub fn spec_with(&self, values: &[(&str, &str)]) -> String {
        let mut text = self.spec.to_owned();
        for (name, value) in values {
            text = text.replace(&format!("{{{name}}}"), value);
        }
        while let Some(open) = text.find('{') {
            let before = &text[..open];
            let start = before.rfind(", ").max(before.rfind('(').map(|paren| paren + 1));
            let end = text[open..].find('}').map_or(text.len(), |length| open + length + 1);
            text.replace_range(start.unwrap_or(open)..end, "");
        }
        text
    }
}

/// The entry with this name, in any of the lists.
pub fn named(name: &str) -> Option<&'static NamedStack> {
    [RESOURCES, VARIANTS, ADAPTORS].into_iter().flatten().find(|stack| stack.name == name)
}

const fn stack(name: &'static str, spec: &'static str) -> NamedStack {
    NamedStack { name, spec }
}

/// The resources and suballocators.
pub const RESOURCES: &[NamedStack] = &[
    stack("pool", "pool(initial={initial})"),
    stack("pool-cuda", "pool(cuda, initial={initial}, max={max})"),
    stack("binning", "binning(pool(cuda, initial={initial}), bins={bins})"),
    stack("arena", "arena(cuda, size={size})"),
    stack("cuda-async", "cuda-async(initial={initial})"),
    stack("cuda", "cuda"),
    stack("virtual", "virtual"),
    stack("backing", "backing"),
    stack("pool-virtual", "pool(virtual, initial={initial})"),
    stack("cuda-async-view", "cuda-async-view"),
    stack("cuda-async-managed", "cuda-async-managed"),
    stack("cuda-async-pinned", "cuda-async-pinned"),
    stack("managed", "managed"),
    stack("pinned", "pinned"),
    stack("registered", "registered"),
    stack("system", "system"),
    stack("sam-headroom", "sam-headroom(headroom=1GiB)"),
];

/// Stacks that are timed or replayed, and checked elsewhere under another name or test.
pub const VARIANTS: &[NamedStack] = &[
    stack("pool-compact", "pool(virtual, initial={initial}, preset=compact)"),
    stack("fixed-size", "fixed-size(cuda, block=1MiB, blocks=4096)"),
];

/// The adaptors, each over a pool.
pub const ADAPTORS: &[NamedStack] = &[
    stack("aligned", "aligned(pool(cuda), alignment=4KiB)"),
    // The adaptor takes functions, which no text describes: the conformance suite adds it.
    stack("callback", "pool(cuda, max={max})"),
    stack("failure-callback", "failure-callback(pool(cuda, max={max}), retries=1)"),
    stack("fallback", "fallback(pool(cuda, max=64KiB), pool(cuda))"),
    stack("limiting", "limiting(pool(cuda, max={max}), limit={max})"),
    stack("logging", "logging(pool(cuda, max={max}), file=/dev/null)"),
    stack("prefetch", "prefetch(pool(cuda, max={max}))"),
    stack("statistics", "statistics(pool(cuda, max={max}))"),
    stack("tagged", "tagged(pool(cuda, max={max}))"),
    stack("thread-safe", "thread-safe(pool(cuda, max={max}))"),
    stack("tracking", "tracking(pool(cuda, max={max}))"),
];
