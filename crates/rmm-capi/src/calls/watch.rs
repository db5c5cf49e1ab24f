//! Programs that let themselves be watched by `rmm watch`.

use std::ffi::c_char;

use rmm_adaptors::monitor;

use crate::handle::guard;
use crate::handle::resource::{ResourceHandle, borrow};
use crate::handle::status::Status;
use crate::handle::{text, watched};

/// Lets the program `rmm watch PID` show what this process holds, until it ends or
/// `rmm_rs_end_watching` is called. It opens a Unix socket that only this user and root can use,
/// with one thread that answers; allocations never wait for it. It fails with `RMM_RS_REFUSED` if
/// the socket cannot be opened, if its folder is not this user's alone, and elsewhere than on
/// Linux. A child of `fork` is not watched.
///
/// With `RMM_WATCH=1` in the environment it is called when the first resource is made.
#[unsafe(no_mangle)]
pub extern "C" fn rmm_rs_watch() -> Status {
    guard::status(watched::begin)
}

/// Closes the socket, if it is open.
#[unsafe(no_mangle)]
pub extern "C" fn rmm_rs_end_watching() {
    guard::value((), watched::end);
}

/// Has `rmm watch` show the pools and tags of a resource and of those under it by this name, as
/// long as they exist, beside those of the current resource of each device. A name that is taken
/// goes to this resource. It is not kept alive. This opens no socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_watch_resource(
    name: *const c_char,
    resource: *const ResourceHandle,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on texts, `name` is null or ends with a zero byte and stays
        // unchanged.
        let name = unsafe { text::read("the name", name) }?;
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        monitor::register(name, &resource.any);
        Ok(())
    })
}
