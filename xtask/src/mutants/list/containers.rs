//! Mutants of the containers.

use crate::mutants::mutant::Mutant;

const BLOCK: &str = "crates/rmm-containers/src/block.rs";
const HOST_VEC: &str = "crates/rmm-containers/src/host_vec.rs";
const MEMORY: &str = "crates/rmm-containers/src/memory.rs";
const ORDER: &str = "crates/rmm-containers/src/order.rs";
const USES: &str = "crates/rmm-containers/src/order/uses.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "spare-event-of-another-device",
        file: ORDER,
        original: "if event.context() == context && event.record(stream).is_ok() =>",
        replacement: "if event.record(stream).is_ok() =>",
        breaks: "an event marks a stream of another device than its own",
    },
    Mutant {
        name: "container-home-not-awaited",
        file: ORDER,
        original: "            stream.wait(&home.end()?)?;",
        replacement: "            let _ = home;",
        breaks: "a stream that is given a container does not wait for the container's own",
    },
    Mutant {
        name: "container-use-not-awaited",
        file: ORDER,
        original: "                    stream.wait(event)?;\n",
        replacement: "                    let _ = event;\n",
        breaks: "a stream does not wait for those that used a container before",
    },
    Mutant {
        name: "container-use-not-noted",
        file: ORDER,
        original: "            Ok(uses.note(place, range, access, lasts, Mark::EndOfStream))",
        replacement: "            let _ = (place, lasts);\n            Ok(None)",
        breaks: "a container does not know who uses it",
    },
    Mutant {
        name: "container-frees-in-use",
        file: BLOCK,
        original: "                Some(Ok(_)) => self.home_exists() && self.order.settle_anyhow(),",
        replacement: "                Some(Ok(_)) => true,",
        breaks: "a container is freed while other streams use it",
    },
    Mutant {
        name: "container-readers-overlooked",
        file: USES,
        original: "overlap && (self.access == Access::Write || access == Access::Write)",
        replacement: "overlap && self.access == Access::Write",
        breaks: "a container is written while other streams read it",
    },
    Mutant {
        name: "container-halves-wait",
        file: USES,
        original: "let overlap = self.range.start < range.end && range.start < self.range.end;",
        replacement: "let (overlap, _) = (true, range);",
        breaks: "streams that use different parts of a container wait for each other",
    },
    Mutant {
        name: "container-forgets-pending",
        file: USES,
        original: "(other.is_over || other.lasts == Lasts::On && lasts == Lasts::On)",
        replacement: "(other.lasts == Lasts::Once || lasts == Lasts::On)",
        breaks: "one thread's use makes a container forget what another is about to enqueue",
    },
    Mutant {
        name: "container-reads-pageable-early",
        file: MEMORY,
        original: "            if source.is_pageable() {",
        replacement: "            if false {",
        breaks: "ordinary memory of the host is copied from before the work that writes it",
    },
    Mutant {
        name: "container-works-where-the-thread-is",
        file: MEMORY,
        original: "        let _entered = context.enter()?;\n        let write =",
        replacement: "        let write =",
        breaks: "a container's work goes to the default stream of another device",
    },
    Mutant {
        name: "container-leaves-the-thread-elsewhere",
        file: MEMORY,
        original: "        let _entered = context.enter()?;\n        let write =",
        replacement: "        std::mem::forget(context.enter()?);\n        let write =",
        breaks: "a thread is on another device after a call",
    },
    Mutant {
        name: "container-forgets-in-a-capture",
        file: ORDER,
        original: "                if !is_captured {\n                    uses.settle(&range, access);",
        replacement: "                if !is_captured || is_home {\n                    uses.settle(&range, access);",
        breaks: "work that really runs is forgotten because a graph waits for it",
    },
    Mutant {
        name: "container-s-lasting-use-is-the-graph-s",
        file: ORDER,
        original: "self.lasts == Lasts::On || !self.stream.is_captured()",
        replacement: "!self.stream.is_captured()",
        breaks: "a use that goes on after a capture is nobody's to wait for",
    },
    Mutant {
        name: "container-lost-ends-its-resource",
        file: BLOCK,
        original: "see `resource`.\n                return;",
        replacement: "see `resource`.\n                unsafe { ManuallyDrop::drop(&mut self.resource) };\n                return;",
        breaks: "the resource of a container that is lost ends, and gives the memory back under work",
    },
    Mutant {
        name: "container-copy-done-by-error",
        file: MEMORY,
        original: "                Ok(is_idle) => !is_idle,\n                Err(error) => !is_lost(&error),",
        replacement: "                Ok(is_idle) => !is_idle,\n                Err(_) => false,",
        breaks: "a copy from or to borrowed memory of the host is taken for done because the driver answers with an error",
    },
    Mutant {
        name: "container-device-work-in-borrowed-memory",
        file: HOST_VEC,
        original: "    R: SyncResource + HasProperty<HostAccessible> + HasProperty<DeviceAccessible> + 'static,",
        replacement: "    R: SyncResource + HasProperty<HostAccessible> + HasProperty<DeviceAccessible>,",
        breaks: "a vector of the host that is forgotten lets its borrowed resource end under a device's work",
    },
];
