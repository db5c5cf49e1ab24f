//! The first resource of each device, from the environment.

use rmm_resources::first_resource_by;

use crate::{ResourceSpec, SpecError};

/// Has the environment variable [`RMM_RESOURCE`](crate::RESOURCE_VARIABLE) describe the first
/// resource of each device: the current one until the program sets another, from which containers
/// allocate that are given none. Returns whether it does: `false` if the variable is not set or
/// empty, or if the program has called this, or
/// [`first_resource_by`](rmm_resources::first_resource_by), before.
///
/// A program calls this once, at its start. It has to be asked for: in Rust nothing of a library
/// runs before `main`, and the crate that has the first resource is below this one, which knows
/// the text. So a program that does not ask does not change with its environment. The variable
/// is read and its text checked now, once; the resource is made for each device when it is first
/// asked for, and an error that it cannot be made is that of the call which asks.
///
/// ```standalone_crate
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // RMM_RESOURCE='pool(cuda, max=8GiB)' ./program
/// if !rmm_spec::first_resource_from_environment()? {
///     println!("containers allocate by cudaMalloc, since RMM_RESOURCE is not set");
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the text is not a valid specification: then nothing changes.
pub fn first_resource_from_environment() -> Result<bool, SpecError> {
    let Some(spec) = ResourceSpec::from_environment()? else { return Ok(false) };
    Ok(first_resource_by(move || spec.build()))
}
