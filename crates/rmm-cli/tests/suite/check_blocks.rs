//! `rmm check` of a program that loads the software driver as a library: suballocators report
//! their blocks to it. The program is this one, which runs the same test with a variable set.
#![cfg(target_os = "linux")]

use std::alloc::Layout;

use rmm_core::{CudaStream, Resource as _, copy};
use rmm_spec::ResourceSpec;

use super::common::{program, text};

/// What the program does: a specification and a misuse, with a line feed between them.
const VARIABLE: &str = "RMM_TEST_BLOCKS";
const SUBALLOCATORS: [&str; 9] = [
    "pool",
    "pool(cuda)",
    "pool(virtual)",
    "pool(managed)",
    "arena(cuda, size=64MiB)",
    "fixed-size(cuda, block=128KiB, blocks=16)",
    "binning(pool(cuda), bins=16..17)",
    "statistics(pool(cuda))",
    "aligned(pool(cuda), alignment=4KiB)",
];
/// A misuse, and what is reported.
const MISUSES: [(&str, Option<&str>); 4] = [
    ("none", None),
    ("use after free", Some("use after free: ")),
    ("double free", Some("double free: ")),
    ("race", Some("race: ")),
];

#[test]
fn misuse_of_blocks_of_each_suballocator_is_found() {
    if let Ok(case) = std::env::var(VARIABLE) {
        let (spec, misuse) = case.split_once('\n').expect("two lines");
        return misuse_a_block(spec, misuse);
    }
    let this = std::env::current_exe().expect("a program");
    let this = this.to_str().expect("UTF-8");
    let name = "check_blocks::misuse_of_blocks_of_each_suballocator_is_found";
    for spec in SUBALLOCATORS {
        for (misuse, expected) in MISUSES {
            let args = ["check", "--no-leaks", "--no-call-sites", "--", this, "--exact", name];
            let mut command = program(&args);
            let output = command.env(VARIABLE, format!("{spec}\n{misuse}")).output();
            let output = output.expect("the program runs");
            let found = text(&output.stdout);
            let status = if expected.is_some() { 3 } else { 0 };
            assert_eq!(output.status.code(), Some(status), "{spec}, {misuse}: {found}");
            let is_told = expected.is_none_or(|kind| found.contains(kind));
            assert!(is_told, "{spec}, {misuse}: {found}");
        }
    }
}

fn misuse_a_block(spec: &str, misuse: &str) {
    let resource: ResourceSpec = spec.parse().expect("a specification");
    let resource = resource.build().expect("it can be made");
    let (first, second) =
        (CudaStream::new().expect("a stream"), CudaStream::new().expect("a stream"));
    let layout = Layout::from_size_align(65_536, 256).expect("a power of two");
    let allocate = || resource.allocate(&first, layout).expect("there is memory");
    let (block, other) = (allocate(), allocate());
    let fill = |stream: &CudaStream| {
        // SAFETY: memory of the software device, which reports what is wrong and changes nothing.
        unsafe { copy::fill(block, 1, layout.size(), stream) }
    };
    fill(&first).expect("it is allocated");
    if misuse == "race" {
        fill(&second).expect("it is allocated");
    }
    // SAFETY: allocated above.
    unsafe { resource.deallocate(&first, block, layout) };
    if misuse == "use after free" {
        // Refused, where the address is not the allocator's own.
        let _ignored = fill(&first);
    }
    if misuse == "double free" {
        // SAFETY: it breaks the contract on purpose. What the resource does with it is not looked
        // at: the process ends.
        unsafe { resource.deallocate(&first, block, layout) };
        std::process::exit(0);
    }
    // SAFETY: allocated above.
    unsafe { resource.deallocate(&first, other, layout) };
    for stream in [&first, &second] {
        stream.synchronize().expect("its work is done");
    }
}
