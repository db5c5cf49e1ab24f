//! Mutants of the core concepts and of stream identity.

use crate::mutants::mutant::Mutant;

const ANY: &str = "crates/rmm-core/src/erased/any.rs";
const BUFFER: &str = "crates/rmm-containers/src/buffer/make.rs";
const CAPABILITY: &str = "crates/rmm-resources/src/capability.rs";
const CAPTURE: &str = "crates/rmm-core/src/capture.rs";
const CONCEPT: &str = "crates/rmm-core/src/resource/concept.rs";
const CUDA: &str = "crates/rmm-resources/src/cuda.rs";
const DRIVER_POOL: &str = "crates/rmm-resources/src/driver_pool.rs";
const ERASED: &str = "crates/rmm-core/src/erased/compare.rs";
const INTROSPECT: &str = "crates/rmm-core/src/resource/introspect.rs";
const PROCESS: &str = "crates/rmm-sys/src/process.rs";
const REQUEST: &str = "crates/rmm-core/src/resource/request.rs";
const VIEW: &str = "crates/rmm-core/src/resource_view.rs";

const DRIVER: &str = "crates/rmm-core/src/driver.rs";
const FORK: &str = "crates/rmm-core/src/fork.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "driver-called-without-the-hook",
        file: DRIVER,
        original: "    wait::about_to_wait();\n",
        replacement: "    let _none = wait::about_to_wait;\n",
        breaks: "a call of the driver waits with the interpreter's lock",
    },
    Mutant {
        name: "lock-waited-for-without-the-hook",
        file: FORK,
        original: "G {\n    wait::about_to_wait();\n",
        replacement: "G {\n",
        breaks: "a thread waits for another one, which needs the interpreter's lock that it has",
    },
    Mutant {
        name: "zero-bytes-asked-for",
        file: CONCEPT,
        original: "            return Ok(DevicePtr::NULL);\n        }\n        self.do_allocate(",
        replacement: "        }\n        self.do_allocate(",
        breaks: "a request of zero bytes reaches a resource",
    },
    Mutant {
        name: "erased-keeps-the-pointer",
        file: ANY,
        original: "        let behind = if pointee(resource.as_dyn()).is_some() { resource.to_any() } else { None };",
        replacement: "        let behind: Option<AnyResource<()>> = None;",
        breaks: "a resource that is erased behind a pointer is another one",
    },
    Mutant {
        name: "erased-compares-one-way",
        file: ERASED,
        original: "        || other.equals(first.as_any())\n",
        replacement: "",
        breaks: "a pointer to a resource does not equal the resource, though the resource equals it",
    },
    Mutant {
        name: "an-upstream-s-value-replaces-the-resource-s-own",
        file: REQUEST,
        original: "            && let Some(Slot(value @ None)) = slot.downcast_mut::<Slot<P>>()",
        replacement: "            && let Some(Slot(value)) = slot.downcast_mut::<Slot<P>>()",
        breaks: "an adaptor over pinned memory that hands out other memory is taken for pinned",
    },
    Mutant {
        name: "find-passes-bins-by",
        file: INTROSPECT,
        original: "    upstream.or_else(|| resource.other_upstreams().into_iter().find_map(find_below))",
        replacement: "    upstream",
        breaks: "a resource in a bin, or behind a full one, is not found",
    },
    Mutant {
        name: "base-memory-of-the-current-device",
        file: CAPABILITY,
        original: "    let context = stream.and_then(StreamRef::own_context);",
        replacement: "    let context = stream.and(None::<Context>);",
        breaks: "a stream of another device gets memory of the current one",
    },
    Mutant {
        name: "driver-pool-serves-every-device",
        file: DRIVER_POOL,
        original: "        if is_refused {",
        replacement: "        if is_refused && false {",
        breaks: "a stream gets memory that its device cannot use",
    },
    Mutant {
        name: "cuda-frees-what-a-graph-uses",
        file: CUDA,
        original: "        if !may_be_captured(stream) && is_over() {",
        replacement: "        let _ = may_be_captured;\n        if is_over() {",
        breaks: "memory that is freed in a capture goes back though the graph uses it",
    },
    Mutant {
        name: "container-on-the-current-device",
        file: BUFFER,
        original: "        let context = stream.context()?;",
        replacement: "        let context = rmm_core::Context::current()?;",
        breaks: "a container's context is not that of its stream",
    },
    Mutant {
        name: "view-of-no-kind-promises-all",
        file: VIEW,
        original: "        let caps = kind.map_or_else(|| resource.accessibility(), MemoryKind::caps);",
        replacement: "        let caps = kind.map_or(MemoryCaps::all(), MemoryKind::caps);",
        breaks: "a view promises properties that the resource does not declare",
    },
    Mutant {
        name: "relaxed-mode-ends-with-the-first-guard",
        file: CAPTURE,
        original: "let is_last = guards == 1;",
        replacement: "let is_last = guards > 0;",
        breaks: "a guard that lives does not keep the thread's mode relaxed",
    },
    Mutant {
        name: "relaxed-mode-stays",
        file: CAPTURE,
        original: "let is_last = guards == 1;",
        replacement: "let is_last = guards == 0;",
        breaks: "the thread's mode stays relaxed after the last guard",
    },
    Mutant {
        name: "fork-not-noticed",
        file: PROCESS,
        original: "STATE.fetch_or(CHILD, Ordering::Relaxed);",
        replacement: "STATE.fetch_or(CHILD & EXITING, Ordering::Relaxed);",
        breaks: "the child of a fork uses its parent's driver",
    },
];
