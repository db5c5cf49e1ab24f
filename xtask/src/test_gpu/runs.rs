//! The runs on each device: kinds of stream x resources, all tests that choose these themselves,
//! and programs of cudarc's.

use self::stacks::{STACKS, StackKind};

// The suite's own lists: what it can run on, it is run on.
#[macro_use]
#[path = "../../../crates/rmm-conformance/src/list.rs"]
mod list;
#[expect(dead_code, unreachable_pub, reason = "only the names are needed here")]
#[path = "../../../crates/rmm-spec/src/stacks.rs"]
mod stacks;

macro_rules! names {
    ($($name:literal: $variant:ident, $doc:literal,)*) => { &[$($name),*] };
}

/// The kinds of stream, as the test program knows them.
const STREAMS: &[&str] = every_stream!(names);

/// The kind of stream that adaptors run on. They pass on any stream unchanged, so one is enough.
const OF_ADAPTORS: &str = "non-blocking";

/// The modules of the test program whose tests are about one kind of stream and one resource; all
/// others choose these themselves.
const SUITE: [&str; 2] = ["small::", "spacious::"];
const OTHERS: [&str; 13] = [
    "devices::",
    "driver::",
    "driver_pools::",
    "elastic::",
    "exit::",
    "export::",
    "memory_export::",
    "merged_lists::",
    "peers::",
    "siblings::",
    "graph_pools::",
    "stress::",
    "timing::",
];

/// A line for each run: the kind of stream, the resource, and the command with its variables.
pub(super) fn list() -> String {
    let skip = |modules: &[&str]| format!("--skip={}", modules.join(" --skip="));
    let own = skip(&SUITE);
    let mut lines = vec![format!("own own bin/gpu {own}"), "own cudarc bin/cudarc".to_owned()];
    let of_suite = skip(&OTHERS);
    for stream in STREAMS {
        let runs = |kind| match kind {
            StackKind::Resource => true,
            StackKind::Variant => false,
            StackKind::Adaptor => *stream == OF_ADAPTORS,
        };
        lines.extend(STACKS.iter().filter(|stack| runs(stack.kind)).map(|stack| {
            let name = stack.name;
            let variables = format!("RMM_TEST_STREAM={stream} RMM_TEST_RESOURCE={name}");
            format!("{stream} {name} {variables} bin/gpu {of_suite}")
        }));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    //! Which runs there are.

    use std::path::Path;

    use super::*;

    #[test]
    fn each_module_of_the_program_is_in_some_run() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/rmm-conformance/tests");
        let program = std::fs::read_to_string(folder.join("gpu.rs")).unwrap();
        // Those without tests of their own.
        let helpers = ["merging", "merging_lists", "pair", "run", "witness"];
        let modules =
            program.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        for module in modules.filter(|module| !helpers.contains(module)) {
            let name = format!("{module}::");
            let is_there = SUITE.iter().chain(&OTHERS).filter(|&&known| known == name).count();
            assert_eq!(is_there, 1, "{module}");
        }
    }
}
