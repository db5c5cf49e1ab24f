//! Stacks from text: what is made, and the errors of texts that describe none.

use proptest::prelude::*;
use rmm_adaptors::{
    ArenaMemoryResource, BinningMemoryResource, LimitingResourceAdaptor, PoolMemoryResource,
};
use rmm_core::sys::CuDeviceAttribute;
use rmm_core::{AnyResource, DeviceResource, ErrorKind, Introspect, SynchronousResource};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource, CudaMemoryResource, Export, ExportHandleTypes,
    ManagedMemoryResource, PinnedHostMemoryResource, SamHeadroomMemoryResource,
    SystemMemoryResource, VirtualMemoryResource,
};
use rmm_sim::Machine;
use rmm_spec::{RESOURCE_VARIABLE, ResourceSpec, stacks};

fn names(resource: &AnyResource) -> Vec<&'static str> {
    resource.stack().map(SynchronousResource::name).collect()
}

#[test]
fn every_name_makes_its_resource() {
    let machine =
        Machine::builder().attribute(CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS, 1).build();
    let _entered = machine.enter();
    let bases = [
        "backing",
        "cuda",
        "cuda-async",
        "cuda-async-managed",
        "cuda-async-pinned",
        "managed",
        "pinned",
        "system",
        "virtual",
        "host-virtual",
    ];
    for base in bases {
        let spec: ResourceSpec = base.parse().unwrap();
        let name = if base == "backing" { "virtual" } else { base };
        assert_eq!(names(&spec.build().unwrap()), [name]);
    }
    let log = std::env::temp_dir().join(format!("rmm-spec-{}.csv", std::process::id()));
    let logging = format!("logging(cuda, file=\"{}\", auto-flush=yes)", log.display());
    for (text, name) in [
        ("sam_headroom(headroom=1MiB)", "sam-headroom"),
        ("pool(virtual, initial=1MiB, max=2MiB, soft_max=1MiB, preset=compact)", "pool"),
        ("pool", "pool"),
        ("pool(initial=1MiB, max=50%, soft-max=1MiB, preset=low-latency)", "pool"),
        ("arena(cuda, size=4MiB)", "arena"),
        ("fixed-size(cuda, block=1KiB, blocks=4, max=1MiB)", "fixed-size"),
        ("binning(pool(cuda), bins=12..14)", "binning"),
        ("limiting(cuda, limit=1MiB)", "limiting"),
        ("aligned(cuda, alignment=4KiB, threshold=1MiB)", "aligned"),
        ("tracking(cuda, stacks=no)", "tracking"),
        ("statistics(cuda)", "statistics"),
        ("tagged(cuda)", "tagged"),
        ("prefetch(managed)", "prefetch"),
        ("thread_safe(cuda)", "thread-safe"),
        ("fallback(limiting(cuda, limit=0), managed)", "fallback"),
        (&logging, "logging"),
    ] {
        let spec: ResourceSpec = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(names(&spec.build().unwrap())[0], name);
        assert_eq!(spec.to_string(), text);
        assert_eq!(spec.to_string().parse::<ResourceSpec>().unwrap(), spec);
    }
    assert!(std::fs::read_to_string(&log).unwrap().starts_with("Thread,"));
    std::fs::remove_file(&log).unwrap();
}

#[test]
fn every_stack_of_the_list_can_be_built() {
    let machine =
        Machine::builder().attribute(CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS, 1).build();
    let _entered = machine.enter();
    let values = [("initial", "1MiB"), ("max", "2MiB"), ("size", "4MiB"), ("bins", "12..14")];
    for stack in stacks::STACKS {
        let text = stack.spec_with(&values);
        assert!(!text.contains(['{', '}']), "{text}");
        text.parse::<ResourceSpec>().unwrap().build().unwrap_or_else(|error| {
            panic!("{text}: {error}");
        });
        assert_eq!(stacks::named(stack.name), Some(stack), "a name stands for one stack");
    }
    let unknown = "nothing".parse::<ResourceSpec>().unwrap_err().to_string();
    let known = unknown.split_once("there are ").and_then(|(_, names)| names.lines().next());
    let table = include_str!("../src/lib.rs");
    for name in known.unwrap().split(", ") {
        let is_in = |stack: &&stacks::NamedStack| {
            stack.spec.split(['(', ',', ')']).any(|word| word == name)
        };
        let mut all = stacks::STACKS.iter();
        assert!(all.any(|stack| is_in(&stack)), "{name} is in no stack");
        assert!(
            table.contains(&format!("`{name}`")),
            "{name} is not in the table of `ResourceSpec`"
        );
    }
    let stack = |name| stacks::named(name).unwrap();
    assert_eq!(stack("pool").spec_with(&[]), "pool()");
    assert_eq!(stack("pool").spec_with(&values), "pool(initial=1MiB)");
    assert_eq!(stack("pool-cuda").spec_with(&[]), "pool(cuda)");
    assert_eq!(stack("pool-cuda").spec_with(&values[1..2]), "pool(cuda, max=2MiB)");
    assert_eq!(stack("cuda-async").spec_with(&[]), "cuda-async()");
}

/// The resource of this text is of type `R`, erased once or twice.
fn keeps<R: DeviceResource + std::fmt::Debug>(text: &str) {
    let any = text.parse::<ResourceSpec>().expect("a stack").build().expect("it is supported");
    let twice: AnyResource = AnyResource::new(any.clone());
    let original = any.downcast_ref::<R>().unwrap_or_else(|| panic!("{text} is another type"));
    assert_eq!(twice.downcast_ref::<R>(), Some(original));
    assert_eq!(AnyResource::new(original.clone()), any);
}

#[test]
fn erasure_keeps_the_type_of_each_resource() {
    let machine =
        Machine::builder().attribute(CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS, 1).build();
    let _entered = machine.enter();
    keeps::<CudaMemoryResource>("cuda");
    keeps::<CudaAsyncMemoryResource>("cuda-async");
    keeps::<CudaAsyncViewMemoryResource>("cuda-async-view");
    keeps::<CudaAsyncManagedMemoryResource>("cuda-async-managed");
    keeps::<CudaAsyncPinnedMemoryResource>("cuda-async-pinned");
    keeps::<ManagedMemoryResource>("managed");
    keeps::<PinnedHostMemoryResource>("pinned");
    keeps::<SystemMemoryResource>("system");
    keeps::<SamHeadroomMemoryResource>("sam-headroom(headroom=1MiB)");
    keeps::<VirtualMemoryResource>("virtual");
    keeps::<VirtualMemoryResource>("backing");
    for pool in ["pool", "pool()", "pool(max=1GiB)", "pool(backing)", "pool(cuda)", "pool(virtual)"]
    {
        keeps::<PoolMemoryResource>(pool);
    }
    keeps::<ArenaMemoryResource>("arena(cuda, size=4MiB)");
    keeps::<BinningMemoryResource>("binning(pool(cuda), bins=12..14)");
}

#[test]
fn a_pool_over_nothing_is_the_default_pool() {
    let attribute = CuDeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    for (has_virtual, below) in [(1, "virtual"), (0, "cuda")] {
        let _machine = Machine::builder().attribute(attribute, has_virtual).enter();
        let build = |text: &str| text.parse::<ResourceSpec>().unwrap().build();
        assert_eq!(names(&build("pool").unwrap()), ["pool", below]);
        let limited = build("statistics(pool(initial=2MiB, max=8MiB))").unwrap();
        assert_eq!(names(&limited), ["statistics", "pool", below]);
        let pool = limited.find::<PoolMemoryResource>().expect("it is below");
        assert_eq!((pool.reserved_bytes(), pool.maximum_size()), (2 << 20, Some(8 << 20)));
        // What is named is had, or refused.
        assert_eq!(names(&build("pool(cuda)").unwrap()), ["pool", "cuda"]);
        assert_eq!(build("pool(virtual)").is_ok(), has_virtual == 1);
    }
}

#[test]
fn virtual_memory_is_made_for_export_as_it_says() {
    let fabric = CuDeviceAttribute::HANDLE_TYPE_FABRIC_SUPPORTED;
    let _machine = Machine::builder().attribute(fabric, 0).enter();
    let build = |text: &str| text.parse::<ResourceSpec>().unwrap().build();
    let file = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
    for (text, handles) in [
        ("pool(virtual)", ExportHandleTypes::empty()),
        ("pool(virtual(export=posix_fd))", file),
        ("pool(virtual(export=fabric-or-posix-fd), max=8MiB)", file),
        ("host-virtual", ExportHandleTypes::empty()),
        ("pool(host_virtual(numa_node=0, export=POSIX-FD))", file),
        ("host-virtual(numa-node=device, export=fabric_or_posix_fd)", file),
    ] {
        let export = build(text).unwrap().try_property::<Export>();
        assert_eq!(export.expect("it is virtual memory").handles, handles, "{text}");
    }
    for refused in ["virtual(export=fabric)", "host-virtual(export=fabric)"] {
        let error = build(refused).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("as fabric handles"), "{error}");
    }
    let elsewhere = build("host-virtual(numa-node=7)").unwrap_err();
    assert_eq!(elsewhere.kind(), ErrorKind::InvalidArgument);
    assert!(elsewhere.to_string().contains("NUMA node 7"), "{elsewhere}");
}

#[test]
fn sizes_reach_the_resources() {
    let _machine = rmm_sim::enter();
    let text = " limiting ( pool(cuda,initial=1MiB ,\n max=8MiB), limit=4096 ) ";
    let resource = text.parse::<ResourceSpec>().unwrap().build().unwrap();
    let limit = resource.find::<LimitingResourceAdaptor<AnyResource>>().expect("it is on top");
    assert_eq!(limit.allocation_limit(), 4096);
    let pool = resource.find::<PoolMemoryResource>().expect("it is below");
    assert_eq!((pool.reserved_bytes(), pool.maximum_size()), (1 << 20, Some(8 << 20)));
}

#[test]
fn a_resource_that_cannot_be_made_returns_its_error() {
    let _machine = Machine::builder().memory(16 << 20).enter();
    let spec: ResourceSpec = "pool(cuda, initial=1GiB)".parse().unwrap();
    assert!(spec.build().unwrap_err().is_out_of_memory());
    let spec: ResourceSpec = "aligned(cuda, alignment=3)".parse().unwrap();
    assert!(spec.build().unwrap_err().is_invalid_argument());
    let spec: ResourceSpec = "logging(cuda, file=/nowhere/at/all.csv)".parse().unwrap();
    let error = spec.build().unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all.csv"), "{error}");
}

#[test]
fn errors_point_at_the_character() {
    // The mark is below the text, and is where the trouble is.
    for (text, mark, message) in [
        ("", "^", "expected the name of a resource"),
        ("(cuda)", "^", "expected the name of a resource"),
        ("pol(cuda)", "^", "no resource is called `pol`; there are aligned, arena,"),
        ("pool(cuba)", "     ^", "no resource is called `cuba`"),
        ("pool(cuda", "         ^", "expected `,` or `)`"),
        ("pool(cuda))", "          ^", "expected the end"),
        ("pool(cuda initial=1)", "          ^", "expected `,` or `)`"),
        ("pool(cuda, initial=)", "                   ^", "expected the value of `initial`"),
        ("pool(cuda, initial=1XB)", "                   ^", "expected a size such as 24GiB"),
        ("pool(cuda, max=99999999TiB)", "               ^", "the size is too large"),
        ("pool(cuda, maximum=1)", "           ^", "`pool` has the options initial, max, soft-max"),
        ("pool(cuda, max=1, max=2)", "                  ^", "`max` is set twice"),
        ("pool(max)", "     ^", "no resource is called `max`"),
        ("arena", "     ^", "`arena` needs a resource to be over"),
        ("arena()", "      ^", "`arena` needs a resource to be over"),
        ("pool(cuda, managed)", "           ^", "`pool` is not over this"),
        ("cuda(size=1)", "     ^", "`cuda` has no options"),
        (
            "virtual(export=tcp)",
            "               ^",
            "expected posix_fd, fabric or fabric_or_posix_fd",
        ),
        (
            "host-virtual(numa-node=near)",
            "                       ^",
            "expected the number of a NUMA",
        ),
        ("host-virtual(export=tcp)", "                    ^", "expected posix_fd, fabric or"),
        ("host-virtual(node=0)", "             ^", "`host-virtual` has the options numa-"),
        ("limiting(cuda)", "             ^", "`limiting` needs `limit=`"),
        ("logging(cuda, file=\"a)", "                   ^", "this quote is never closed"),
        ("pool(cuda; max=1)", "         ^", "a character that means nothing here"),
        ("pool(cuda, preset=fast)", "                  ^", "expected throughput, low-latency"),
        ("tracking(cuda, stacks=perhaps)", "                      ^", "expected yes or no"),
        ("binning(cuda, bins=5)", "                   ^", "expected two powers of two"),
        ("übung(cuda)", "^", "a character that means nothing here"),
        (
            "logging(cuda, file=\"ü\", x=1)",
            "                        ^",
            "`logging` has the options",
        ),
    ] {
        let error = text.parse::<ResourceSpec>().expect_err(text);
        let shown = error.to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert!(error.message().starts_with(message), "{text}: {shown}");
        assert_eq!(lines[1..], [format!("  {text}"), format!("  {mark}")], "{shown}");
    }
}

#[test]
fn a_text_of_any_depth_is_refused_and_not_followed() {
    let deep = "statistics(".repeat(100_000);
    let error = deep.parse::<ResourceSpec>().unwrap_err();
    assert!(error.message().contains("more than 64"), "{}", error.message());
}

/// In a program of its own, whose environment is not that of other tests.
#[test]
fn the_environment_describes_a_stack() {
    const CHILD: &str = "RMM_TEST_SPEC_CHILD";
    if let Ok(expected) = std::env::var(CHILD) {
        let found = match ResourceSpec::from_environment() {
            Ok(spec) => spec.map_or_else(|| "none".to_owned(), |spec| spec.to_string()),
            Err(error) => error.message().to_owned(),
        };
        assert_eq!(found, expected);
        return;
    }
    for (text, expected) in [
        (None, "none"),
        (Some(""), "none"),
        (Some("pool(cuda)"), "pool(cuda)"),
        (Some("pool("), "expected a resource or an option"),
    ] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "the_environment_describes_a_stack"]).env(CHILD, expected);
        child.env_remove(RESOURCE_VARIABLE);
        if let Some(text) = text {
            child.env(RESOURCE_VARIABLE, text);
        }
        assert!(child.output().unwrap().status.success(), "{text:?}");
    }
}

proptest! {
    /// No text makes it panic, and an error is at a character of the text or at its end.
    #[test]
    fn any_text_is_read_or_refused(text in "[a-z(),=\"1GiB_. ü-]{0,60}") {
        if let Err(error) = text.parse::<ResourceSpec>() {
            prop_assert!(text.is_char_boundary(error.offset()), "{error}");
        }
    }
}

#[test]
fn a_fault_far_into_a_long_text_is_shown_with_what_stands_around_it() {
    let text = format!("limiting(cuda, limit=\"{}\" ; {})", "9".repeat(70_000), "x".repeat(1_000));
    let error = text.parse::<ResourceSpec>().unwrap_err();
    let shown = error.to_string();
    let [message, line, mark] = shown.lines().collect::<Vec<_>>()[..] else { panic!("{shown}") };
    assert_eq!(message, "a character that means nothing here");
    assert_eq!(line.find(';'), mark.find('^'), "{shown}");
    assert!(line.starts_with("  ...9") && line.ends_with("x..."), "{shown}");
    assert!(shown.len() < 1_000);
}
