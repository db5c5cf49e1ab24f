//! The device that an example runs on.

/// The first GPU; without one a software device, which stays this thread's until the guard is
/// dropped.
pub(crate) fn open() -> Option<rmm_sim::MachineGuard> {
    if rmm::Device::count().is_ok_and(|devices| devices > 0) {
        println!("on the GPU");
        return None;
    }
    println!("on the software device: there is no GPU");
    Some(rmm_sim::Machine::new().enter())
}
