//! Every resource and adaptor that ships, as a name and a specification.
//!
//! This is the only such list. The conformance suite checks each entry on every device and kind of
//! stream, `cargo xtask test-gpu` makes a cell of its matrix for it, and the benchmarks and
//! `rmm replay` take the stacks that they name from here.
//!
//! Plain data and `std` only: `xtask` compiles this file by its path, without the crate around it.

/// What a stack is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackKind {
    /// A resource, or a suballocator over one.
    Resource,
    /// A resource, or a suballocator over one, that the conformance suite leaves out: it has
    /// another one of this type.
    Variant,
    /// An adaptor over a pool.
    Adaptor,
}

/// The resource at the bottom of a stack, which decides what the device must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackBase {
    /// `cudaMalloc`, or what every device has.
    Cuda,
    /// The driver's pools.
    CudaAsync,
    /// Those of managed memory.
    CudaAsyncManaged,
    /// Those of pinned memory.
    CudaAsyncPinned,
    /// Virtual memory.
    Virtual,
    /// Virtual memory of the host.
    HostVirtual,
    /// Managed memory.
    Managed,
    /// Pinned memory.
    Pinned,
    /// Host memory that is registered.
    Registered,
    /// The host's memory, which the device can access.
    System,
    /// The same, of which some stays free.
    SamHeadroom,
}

/// A stack of resources with a name.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedStack {
    /// The name in `RMM_TEST_RESOURCE`, on command lines and in results.
    pub name: &'static str,
    /// What it is.
    pub kind: StackKind,
    /// The resource at its bottom.
    pub base: StackBase,
    /// The text of a `ResourceSpec`, in which `{max}` stands for a value that the user of the list
    /// provides.
    pub spec: &'static str,
}

impl NamedStack {
    /// The resource or adaptor at the top of the stack, by its name in specifications.
    pub fn top(&self) -> &'static str {
        match self.name {
            // No text describes functions: the specification is that of its upstream.
            "callback" => self.name,
            _ => self.spec.split('(').next().unwrap_or(self.spec),
        }
    }

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

/// The entry with this name.
pub fn named(name: &str) -> Option<&'static NamedStack> {
    STACKS.iter().find(|stack| stack.name == name)
}

const fn resource(name: &'static str, base: StackBase, spec: &'static str) -> NamedStack {
    NamedStack { name, kind: StackKind::Resource, base, spec }
}

const fn variant(name: &'static str, base: StackBase, spec: &'static str) -> NamedStack {
    NamedStack { name, kind: StackKind::Variant, base, spec }
}

const fn adaptor(name: &'static str, spec: &'static str) -> NamedStack {
    NamedStack { name, kind: StackKind::Adaptor, base: StackBase::Cuda, spec }
}

/// All of them: resources, suballocators, variants of these, and adaptors.
pub const STACKS: &[NamedStack] = &[
    // Over virtual memory where the device has it, over `cudaMalloc` elsewhere.
    resource("pool", StackBase::Cuda, "pool(initial={initial})"),
    resource("pool-cuda", StackBase::Cuda, "pool(cuda, initial={initial}, max={max})"),
    resource("binning", StackBase::Cuda, "binning(pool(cuda, initial={initial}), bins={bins})"),
    resource("arena", StackBase::Cuda, "arena(cuda, size={size})"),
    resource("cuda-async", StackBase::CudaAsync, "cuda-async(initial={initial})"),
    resource("cuda", StackBase::Cuda, "cuda"),
    resource("virtual", StackBase::Virtual, "virtual"),
    resource("host-virtual", StackBase::HostVirtual, "host-virtual"),
    resource("backing", StackBase::Cuda, "backing"),
    resource("pool-virtual", StackBase::Virtual, "pool(virtual, initial={initial})"),
    resource("cuda-async-view", StackBase::CudaAsync, "cuda-async-view"),
    resource("cuda-async-managed", StackBase::CudaAsyncManaged, "cuda-async-managed"),
    resource("cuda-async-pinned", StackBase::CudaAsyncPinned, "cuda-async-pinned"),
    resource("managed", StackBase::Managed, "managed"),
    resource("pinned", StackBase::Pinned, "pinned"),
    resource("registered", StackBase::Registered, "registered"),
    resource("system", StackBase::System, "system"),
    resource("sam-headroom", StackBase::SamHeadroom, "sam-headroom(headroom=1GiB)"),
    variant("pool-compact", StackBase::Virtual, "pool(virtual, initial={initial}, preset=compact)"),
    variant("fixed-size", StackBase::Cuda, "fixed-size(cuda, block=1MiB, blocks=4096)"),
    adaptor("aligned", "aligned(pool(cuda), alignment=4KiB)"),
    // The adaptor takes functions, which no text describes: the conformance suite adds it.
    adaptor("callback", "pool(cuda, max={max})"),
    adaptor("failure-callback", "failure-callback(pool(cuda, max={max}), retries=1)"),
    adaptor("fallback", "fallback(pool(cuda, max=64KiB), pool(cuda))"),
    adaptor("limiting", "limiting(pool(cuda, max={max}), limit={max})"),
    adaptor("logging", "logging(pool(cuda, max={max}), file=/dev/null)"),
    adaptor("prefetch", "prefetch(pool(cuda, max={max}))"),
    adaptor("recorder", "recorder(pool(cuda, max={max}))"),
    adaptor("statistics", "statistics(pool(cuda, max={max}))"),
    adaptor("tagged", "tagged(pool(cuda, max={max}))"),
    adaptor("thread-safe", "thread-safe(pool(cuda, max={max}))"),
    adaptor("tracking", "tracking(pool(cuda, max={max}))"),
];
