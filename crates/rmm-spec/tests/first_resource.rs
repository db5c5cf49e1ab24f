//! The first resource by `RMM_RESOURCE`, each time in a process of its own: what a program asks for
//! stays until its end.

use std::env;
use std::process::Command;

use rmm_core::{AnyResource, Device, SynchronousResource as _};
use rmm_resources::{
    CudaMemoryResource, CurrentResourceGuard, current_device_resource, first_resource_by,
    per_device_resource, reset_current_device_resource, set_current_device_resource,
};
use rmm_spec::{RESOURCE_VARIABLE, first_resource_from_environment};

/// Set in the process that a test starts for itself.
const CHILD: &str = "RMM_TEST_FIRST_RESOURCE";

/// Whether this is a process in which the test runs alone; if not, runs it in one, with the
/// variable set.
fn is_alone(test: &str, variable: Option<&str>) -> bool {
    if env::var_os(CHILD).is_some() {
        return true;
    }
    let mut command = Command::new(env::current_exe().expect("it runs"));
    command.args(["--exact", test]).env(CHILD, "").env_remove(RESOURCE_VARIABLE);
    if let Some(text) = variable {
        command.env(RESOURCE_VARIABLE, text);
    }
    let output = command.output().expect("it starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}\n{output:?}");
    false
}

fn name() -> &'static str {
    current_device_resource().expect("a resource").name()
}

#[test]
fn the_variable_describes_the_first_resource_of_each_device() {
    if !is_alone(
        "the_variable_describes_the_first_resource_of_each_device",
        Some("pool(cuda, initial=1MiB, max=1MiB)"),
    ) {
        return;
    }
    let machine = rmm_sim::Machine::builder().devices(2).enter();
    let second = Device::new(1).expect("a device");
    assert_eq!(name(), "cuda");
    assert!(first_resource_from_environment().expect("it is valid"));
    assert!(!first_resource_from_environment().expect("it is valid"), "once");
    assert!(!first_resource_by(|| Ok(AnyResource::new(CudaMemoryResource::new()))), "once");

    assert_eq!(name(), "cuda", "the device has one already");
    let pool = per_device_resource(second).expect("a resource");
    assert_eq!(pool.name(), "pool");
    assert_eq!(machine.memory_in_use(0), 0);
    assert_ne!(machine.memory_in_use(1), 0, "it is the second device's");
    assert_eq!(per_device_resource(second).expect("a resource"), pool);
    {
        let _current = second.make_current().expect("a device");
        let layout = std::alloc::Layout::new::<[u8; 2 << 20]>();
        let full = pool.allocate_sync(layout).expect_err("the maximum counts");
        assert!(full.is_out_of_memory(), "{full}");
        let before = set_current_device_resource(&CudaMemoryResource::new()).expect("it is set");
        assert_eq!(before, pool);
        assert_eq!(reset_current_device_resource().expect("it is reset").name(), "cuda");
        assert_eq!(name(), "pool");
        assert_ne!(current_device_resource().expect("a resource"), pool, "a new one");
    }
}

#[test]
fn a_resource_that_is_set_first_gives_the_first_back() {
    if !is_alone("a_resource_that_is_set_first_gives_the_first_back", Some("pool")) {
        return;
    }
    let _machine = rmm_sim::enter();
    assert!(first_resource_from_environment().expect("it is valid"));
    let guard = CurrentResourceGuard::set(&CudaMemoryResource::new()).expect("it is set");
    assert_eq!((name(), guard.previous().name()), ("cuda", "pool"));
    drop(guard);
    assert_eq!(name(), "pool");
}

#[test]
fn without_the_variable_it_is_cuda_malloc() {
    for variable in [None, Some("")] {
        if is_alone("without_the_variable_it_is_cuda_malloc", variable) {
            let _machine = rmm_sim::enter();
            assert!(!first_resource_from_environment().expect("nothing is wrong"));
            assert_eq!(name(), "cuda");
        }
    }
}

#[test]
fn a_text_with_an_error_names_the_place_and_changes_nothing() {
    if !is_alone("a_text_with_an_error_names_the_place_and_changes_nothing", Some("pool(cudda)")) {
        return;
    }
    let _machine = rmm_sim::enter();
    let error = first_resource_from_environment().expect_err("it is misspelt");
    assert!(error.to_string().contains("cudda"), "{error}");
    assert_eq!(name(), "cuda");
}

#[test]
fn a_resource_that_cannot_be_made_fails_where_it_is_asked_for() {
    if !is_alone(
        "a_resource_that_cannot_be_made_fails_where_it_is_asked_for",
        Some("pool(cuda, initial=512MiB)"),
    ) {
        return;
    }
    let machine = rmm_sim::Machine::builder().memory(1 << 30).enter();
    assert!(first_resource_from_environment().expect("it is valid"));
    machine.fail(rmm_sim::Fault::out_of_memory_above(1 << 20));
    for _ in 0..2 {
        let error = current_device_resource().expect_err("there is too little memory");
        assert!(error.is_out_of_memory(), "{error}");
    }
    let error = set_current_device_resource(&CudaMemoryResource::new()).expect_err("likewise");
    assert!(error.is_out_of_memory(), "{error}");
    machine.clear_faults();
    assert_eq!(name(), "pool");
}
