//! Every call in the child of a `fork`, while threads of the parent are inside the library and hold
//! its locks: it fails with the reason, does nothing, or panics with the reason. None waits.

#![cfg(target_os = "linux")]

#[path = "fork/child.rs"]
mod child;
#[path = "fork/objects.rs"]
mod objects;
#[path = "fork/resources.rs"]
mod resources;
#[path = "fork/shared.rs"]
mod shared;

#[test]
fn no_call_waits_in_the_child_of_a_fork() {
    let machine = rmm_sim::enter();
    child::silence_refusals();
    let mut wrong = Vec::new();
    resources::call_all(&machine, &mut wrong);
    objects::call_all(&machine, &mut wrong);
    shared::call_all(&machine, &mut wrong);
    assert!(wrong.is_empty(), "{} calls:\n{}", wrong.len(), wrong.join("\n"));
}
