//! Mutants of the containers.

use crate::mutants::mutant::Mutant;

const BLOCK: &str = "crates/rmm-containers/src/block.rs";
const FOREIGN: &str = "crates/rmm-containers/src/foreign.rs";
const FOREIGN_BUFFER: &str = "crates/rmm-containers/src/buffer/foreign.rs";
const FOREIGN_SLICE: &str = "crates/rmm-containers/src/slice/foreign.rs";
const HOST_VEC: &str = "crates/rmm-containers/src/host_vec.rs";
const RANGE_VIEW: &str = "crates/rmm-containers/src/range_view.rs";
const USES: &str = "crates/rmm-containers/src/use_tracker/pending.rs";
const USE_TRACKER: &str = "crates/rmm-containers/src/use_tracker.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "foreign-parts-do-not-wait",
        file: FOREIGN_BUFFER,
        original: "self.wait_for_other_streams()?;\n        let (pointer, layout)",
        replacement: "let (pointer, layout)",
        breaks: "the parts of a buffer are freed while another stream uses the memory",
    },
    Mutant {
        name: "foreign-memory-freed-after-a-reset",
        file: FOREIGN,
        original: "if !is_freed {",
        replacement: "let _ = is_freed;\n        {",
        breaks: "the other library frees memory that a reset has freed",
    },
    Mutant {
        name: "foreign-owner-dropped-at-exit",
        file: FOREIGN,
        original: "if process_is_exiting() {",
        replacement: "if false {",
        breaks: "the destructor of the owner calls a driver that is gone",
    },
    Mutant {
        name: "foreign-borrow-not-joined",
        file: FOREIGN_SLICE,
        original: "borrowed.join()?;",
        replacement: "borrowed.is_joined = true;",
        breaks: "the owner of a borrowed slice frees it while another stream uses it",
    },
    Mutant {
        name: "foreign-borrow-not-joined-after-a-panic",
        file: FOREIGN_SLICE,
        original: "if !self.is_joined {",
        replacement: "if false {",
        breaks: "a panic ends the borrow while another stream uses the memory",
    },
    Mutant {
        name: "spare-event-of-another-device",
        file: USE_TRACKER,
        original: "if event.context() == context && event.record(stream).is_ok() =>",
        replacement: "if event.record(stream).is_ok() =>",
        breaks: "an event marks a stream of another device than its own",
    },
    Mutant {
        name: "container-home-not-awaited",
        file: USE_TRACKER,
        original: "            stream.wait(&owner.record_end()?)?;",
        replacement: "            let _ = owner;",
        breaks: "a stream that is given a container does not wait for the container's own",
    },
    Mutant {
        name: "container-use-not-awaited",
        file: USE_TRACKER,
        original: "                    stream.wait(event)?;\n",
        replacement: "                    let _ = event;\n",
        breaks: "a stream does not wait for those that used a container before",
    },
    Mutant {
        name: "container-use-not-noted",
        file: USE_TRACKER,
        original: "            Ok(uses.record(stream, range, access, kind, end))",
        replacement: "            let _ = (stream, kind, end);\n            Ok(None)",
        breaks: "a container does not know which streams use it",
    },
    Mutant {
        name: "container-frees-in-use",
        file: BLOCK,
        original: "                Some(Ok(_)) => self.owner_exists() && self.tracker.join_or_block(),",
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
        original: "(other.has_ended || other.kind == UseKind::Open && kind == UseKind::Open)",
        replacement: "(other.kind == UseKind::OneShot || kind == UseKind::Open)",
        breaks: "one thread's use makes a container forget what another is about to enqueue",
    },
    Mutant {
        name: "container-reads-pageable-early",
        file: RANGE_VIEW,
        original: "            if source.is_pageable() {",
        replacement: "            if false {",
        breaks: "ordinary memory of the host is copied from before the work that writes it",
    },
    Mutant {
        name: "container-works-where-the-thread-is",
        file: RANGE_VIEW,
        original: "        let _entered = context.enter()?;\n        let write =",
        replacement: "        let write =",
        breaks: "a container's work goes to the default stream of another device",
    },
    Mutant {
        name: "container-leaves-the-thread-elsewhere",
        file: RANGE_VIEW,
        original: "        let _entered = context.enter()?;\n        let write =",
        replacement: "        std::mem::forget(context.enter()?);\n        let write =",
        breaks: "a thread is on another device after a call",
    },
    Mutant {
        name: "container-forgets-in-a-capture",
        file: USE_TRACKER,
        original: "                if !is_captured {\n                    uses.forget_conflicting(&range, access);",
        replacement: "                if !is_captured || is_owner {\n                    uses.forget_conflicting(&range, access);",
        breaks: "work that really runs is forgotten because a graph waits for it",
    },
    Mutant {
        name: "container-s-lasting-use-is-the-graph-s",
        file: USE_TRACKER,
        original: "self.kind == UseKind::Open || !self.stream.is_captured()",
        replacement: "!self.stream.is_captured()",
        breaks: "no stream waits for a use that goes on after a capture",
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
        file: RANGE_VIEW,
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
