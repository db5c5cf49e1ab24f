//! Remedies of the thread's last failed request, as data.

use std::ffi::c_char;

use rmm_core::{Introspect, LimitId, Remedy, RemedyAction};

use crate::calls::pool::store_of;
use crate::handle::failure::Failure;
use crate::handle::resource::ResourceHandle;
use crate::handle::sized::{self, Sized};
use crate::handle::status::Status;
use crate::handle::text;
use crate::handle::{find, guard};

/// Synchronize the stream of this name, or the device if the name is empty, and repeat the request.
pub const RMM_RS_REMEDY_WAIT: u32 = 1;
/// Trim the suballocator of this name, with a wait: `rmm_rs_resource_trim_blocking`.
pub const RMM_RS_REMEDY_TRIM: u32 = 2;
/// Raise the limit of the resource of this name, whose identity is `limit_id`:
/// `rmm_rs_pool_set_maximum_size` or `rmm_rs_limiting_set_limit`.
pub const RMM_RS_REMEDY_RAISE_LIMIT: u32 = 3;

/// One thing that would make memory available to a request that failed.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RemedyDetail {
    /// `sizeof(rmm_rs_remedy)`, set by the caller.
    pub size: usize,
    /// What to do: one of `RMM_RS_REMEDY_*`. Later versions may have others.
    pub action: u32,
    /// 1 if that is enough for the request by itself, as far as bytes decide; else 0.
    pub is_enough: u32,
    /// The bytes that it makes available; for a limit, the bytes to raise it by.
    pub bytes: u64,
    /// The name of the stream or resource, cut off where it does not fit. Ends with a zero byte.
    pub name: [c_char; 48],
    /// Whose limit to raise, as `rmm_rs_resource_limit_id` has it; 0 for other actions.
    pub limit_id: u64,
}

// SAFETY: it is `repr(C)`, begins with its size, and has numbers only.
unsafe impl Sized for RemedyDetail {}

fn detail_of(remedy: &Remedy) -> RemedyDetail {
    let (action, named) = match remedy.action {
        RemedyAction::WaitForStream { stream } => {
            (RMM_RS_REMEDY_WAIT, stream.map(|stream| stream.to_string()).unwrap_or_default())
        }
        RemedyAction::TrimSibling { resource } => (RMM_RS_REMEDY_TRIM, resource.to_owned()),
        RemedyAction::RaiseLimit { resource, .. } => {
            (RMM_RS_REMEDY_RAISE_LIMIT, resource.to_owned())
        }
        _ => (0, remedy.to_string()),
    };
    let limit_id = match remedy.action {
        RemedyAction::RaiseLimit { limit, .. } => limit.get(),
        _ => 0,
    };
    let mut name = [0; 48];
    // SAFETY: the buffer has as many bytes.
    let _ignored = unsafe { text::write(&named, name.as_mut_ptr(), name.len()) };
    RemedyDetail {
        size: 0,
        action,
        is_enough: u32::from(remedy.is_enough),
        bytes: remedy.bytes,
        name,
        limit_id,
    }
}

/// Stores the identity of the limit of the resource, or of the first one below that has one: a
/// pool, an arena, blocks of a fixed size, or a limiting adaptor. No other of the process has the
/// same, now or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_limit_id(
    resource: *const ResourceHandle,
    out: *mut u64,
) -> Status {
    let number = |resource: &ResourceHandle| {
        let id = resource.any.stack().find_map(Introspect::try_value::<LimitId>);
        Ok(id.ok_or_else(|| find::none(resource, "has a limit"))?.get())
    };
    // SAFETY: by the clauses on handles and pointers, for `resource` and `out`.
    unsafe { store_of(resource, out, number) }
}

/// How many remedies the calling thread's last failure has: 0 if the library knows of none.
#[unsafe(no_mangle)]
pub extern "C" fn rmm_rs_last_error_remedy_count() -> usize {
    guard::value(0, || {
        guard::with_last(|last| last.map_or(0, |failure| failure.remedies.len())).unwrap_or(0)
    })
}

/// Writes one of them: number 0 is enough by itself, if any is. A number beyond the last one is
/// `RMM_RS_INVALID_ARGUMENT`, which is then the thread's last failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_last_error_remedy(index: usize, out: *mut RemedyDetail) -> Status {
    guard::status(|| {
        let find = |last: Option<&Failure>| last?.remedies.get(index).map(detail_of);
        let remedy = guard::with_last(find).flatten();
        let remedy =
            remedy.ok_or_else(|| Failure::invalid(format!("there is no remedy {index}")))?;
        // SAFETY: by the clause on structures, `out` is null or as large as it says, and writable.
        unsafe { sized::write("rmm_rs_remedy", out, &remedy) }
    })
}
