//! Resources from a line of text.

use std::ffi::c_char;

use rmm_spec::ResourceSpec;

use crate::handle::failure::Failure;
use crate::handle::resource::{self, ResourceHandle};
use crate::handle::status::Status;
use crate::handle::text;

/// Makes a stack of resources from a specification, such as `statistics(pool(cuda, max=8GiB))`. If
/// `spec` is null, the environment variable `RMM_RESOURCE` has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_from_spec(
    spec: *const c_char,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        let refused = |error: rmm_spec::SpecError| Failure::invalid(error.to_string());
        let spec = if spec.is_null() {
            let from_environment = ResourceSpec::from_environment().map_err(refused)?;
            from_environment.ok_or_else(|| {
                let variable = rmm_spec::RESOURCE_VARIABLE;
                Failure::invalid(format!("the specification is null, and {variable} is not set"))
            })?
        } else {
            // SAFETY: by the clause on texts, `spec` ends with a zero byte and stays unchanged.
            unsafe { text::read("the specification", spec) }?.parse().map_err(refused)?
        };
        Ok(ResourceHandle::base(spec.build()?.narrow()))
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make(out, build) }
}
