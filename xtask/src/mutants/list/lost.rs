//! Mutants of contexts that are reset or lost.

use crate::mutants::mutant::Mutant;

const FREE: &str = "crates/rmm-adaptors/src/pool/free.rs";
const BLOCK: &str = "crates/rmm-containers/src/block.rs";
const CLOSE: &str = "crates/rmm-adaptors/src/pool/close.rs";
const CONTEXT: &str = "crates/rmm-core/src/context.rs";
const DRIVER: &str = "crates/rmm-core/src/driver.rs";
const DRIVER_POOL: &str = "crates/rmm-resources/src/driver_pool.rs";
const EVENT: &str = "crates/rmm-core/src/event.rs";
const HOST_ALLOCATOR: &str = "crates/rmm-containers/src/host_allocator.rs";
const HOST_COPY: &str = "crates/rmm-adaptors/src/pool/host_copy.rs";
const OWNED: &str = "crates/rmm-core/src/stream/owned.rs";
const CORE: &str = "crates/rmm-adaptors/src/pool/core.rs";
const RESERVATION: &str = "crates/rmm-adaptors/src/pool/reservation.rs";
const VIRTUAL: &str = "crates/rmm-resources/src/virtual_memory.rs";
const TABLE: &str = "crates/rmm-sys/src/watch.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "home-that-is-gone-is-in-order",
        file: BLOCK,
        original: "Some(Ok(_)) => self.owner_exists() && self.tracker.join_or_block(),",
        replacement: "Some(Ok(_)) => self.tracker.join_or_block(),",
        breaks: "memory is freed under work that a stream waited for which has ended with its device",
    },
    Mutant {
        name: "owner-elsewhere-reports-a-dead-context",
        file: BLOCK,
        original: "if self.stream().own_context() == Some(self.tracker.context()) {",
        replacement: "if !self.needs_context() {",
        breaks: "memory of the next context is freed by an old container at home on another device",
    },
    Mutant {
        name: "vector-of-a-dead-context-is-freed",
        file: HOST_ALLOCATOR,
        original: "if !process_is_exiting() && self.context().is_some_and(|its| !its.is_there()) {",
        replacement: "if false {",
        breaks: "the end of an old pinned vector frees one of the next context",
    },
    Mutant {
        name: "free-on-a-stream-of-a-dead-context",
        file: DRIVER_POOL,
        original: "            && ask_again(|| stream.check_context()).is_ok()\n",
        replacement: "            && (ask_again(|| stream.check_context()).is_ok() || true)\n",
        breaks: "memory is freed in the order of a stream that may be another's by now",
    },
    Mutant {
        name: "context-is-its-handle",
        file: CONTEXT,
        original: "Ok(id) if id == self.id => Ok(()),",
        replacement: "Ok(_) => Ok(()),",
        breaks: "a context that was reset is taken for the next one of its handle",
    },
    Mutant {
        name: "lost-context-works",
        file: CONTEXT,
        original: "id_of(loaded_driver()?, CuContext::NULL).map(|_its_own| ())",
        replacement: "Ok(())",
        breaks: "a context in which a kernel has failed is taken for one that works",
    },
    Mutant {
        name: "loss-is-not-noted",
        file: DRIVER,
        original: "if code.is_sticky() {",
        replacement: "if code.is_sticky() && false {",
        breaks: "allocators go on with a context in which a kernel has failed",
    },
    Mutant {
        name: "reset-is-not-noted",
        file: TABLE,
        original: "(cuDevicePrimaryCtxReset_v2) => {\n        true",
        replacement: "(cuDevicePrimaryCtxReset_v2) => {\n        false",
        breaks: "a reset through the table leaves caches as they are",
    },
    Mutant {
        name: "event-of-a-dead-context-is-destroyed",
        file: EVENT,
        original: "            && !self.context.has_ended()\n",
        replacement: "",
        breaks: "the end of an old event destroys one of the next context",
    },
    Mutant {
        name: "stream-of-a-dead-context-is-destroyed",
        file: OWNED,
        original: "            && !self.context.is_some_and(Context::has_ended)\n",
        replacement: "",
        breaks: "the end of an old stream destroys one of the next context",
    },
    Mutant {
        name: "pool-does-not-look-after-its-context",
        file: CORE,
        original: "if ends_of_contexts != self.ends.load(Ordering::Relaxed) {",
        replacement: "if ends_of_contexts != self.ends.load(Ordering::Relaxed) && false {",
        breaks: "a pool hands out memory of a context that was reset",
    },
    Mutant {
        name: "free-of-a-dead-context-is-ordinary",
        file: FREE,
        original: "if let Err(error) = self.check_contexts() {",
        replacement: "if let Err(error) = Ok::<(), Error>(()) {",
        breaks: "what is freed after a reset goes to a stream that is gone",
    },
    Mutant {
        name: "virtual-memory-ends-with-its-context",
        file: CLOSE,
        original: "error.code() == Some(CuResult::CONTEXT_IS_DESTROYED) && self.lock().outlives_context",
        replacement: "error.code() == Some(CuResult::CONTEXT_IS_DESTROYED) && false",
        breaks: "a pool over virtual memory keeps it after a reset, for good",
    },
    Mutant {
        name: "memory-of-a-dead-context-goes-back",
        file: CLOSE,
        original: "error.code() == Some(CuResult::CONTEXT_IS_DESTROYED) && self.lock().outlives_context",
        replacement: "error.code() == Some(CuResult::CONTEXT_IS_DESTROYED)",
        breaks: "addresses of a context that was reset are freed, although they are another's by now",
    },
    Mutant {
        name: "container-overlooks-other-contexts",
        file: BLOCK,
        original: "if wait_for_known_contexts().is_err() {",
        replacement: "if false {",
        breaks: "a container frees memory after a reset under work of another context",
    },
    Mutant {
        name: "pool-overlooks-other-contexts",
        file: CLOSE,
        original: "if wait_for_known_contexts().is_err() {",
        replacement: "if false {",
        breaks: "a pool unmaps memory after a reset under work of another context",
    },
    Mutant {
        name: "contents-of-a-dead-context-are-freed",
        file: HOST_COPY,
        original: "if self.context.is_some_and(|context| !context.is_there()) {",
        replacement: "if false {",
        breaks: "the end of a pool that sleeps frees pinned memory of the next context",
    },
    Mutant {
        name: "reservation-overlooks-its-context",
        file: RESERVATION,
        original: "            core.check_memory()?;\n",
        replacement: "",
        breaks: "a reservation hands out memory of a context that was reset",
    },
    Mutant {
        name: "freed-on-a-dead-stream-under-work",
        file: VIRTUAL,
        original: " && wait_for_known_contexts().is_ok()",
        replacement: "",
        breaks: "virtual memory is unmapped after a reset under work of another context",
    },
    Mutant {
        name: "whatever-is-current-is-the-context",
        file: CONTEXT,
        original: "ask_id(driver, CuContext::NULL) == Ok(self.id)",
        replacement: "ask_id(driver, CuContext::NULL).is_ok()",
        breaks: "another context than the one that is entered stays current",
    },
];
