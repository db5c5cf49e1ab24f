//! Memory of an owner outside the process.

use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::slice;
use std::time::{Duration, Instant};

use rmm_core::{AnyResource, DevicePtr, Error, Introspect as _};
use rmm_lease::protocol::{Granted, Lock};
use rmm_lease::{Lease, LeaseError, LeasedMemoryResource};

use crate::handle::failure::Failure;
use crate::handle::library::{clear_mut, clear_number};
use crate::handle::resource::{self, ResourceHandle, borrow};
use crate::handle::status::{RMM_RS_NOT_READY, RMM_RS_REFUSED, Status};
use crate::handle::{find, guard, text};

/// No lock: the resource is detached.
pub const RMM_RS_LEASE_NONE: u32 = 0;
/// To write: granted when no process writes or reads. It frees what was committed before.
pub const RMM_RS_LEASE_WRITE: u32 = 1;
/// To read what is committed.
pub const RMM_RS_LEASE_READ: u32 = 2;
/// To read what is committed, or to write if nothing is.
pub const RMM_RS_LEASE_WRITE_OR_READ: u32 = 3;

/// Wait without end.
pub const RMM_RS_LEASE_FOREVER: u64 = u64::MAX;

impl From<LeaseError> for Failure {
    #[cold]
    fn from(error: LeaseError) -> Self {
        let status = match error {
            LeaseError::Memory(error) => return Self::from(error),
            LeaseError::Refused(ref refusal) if refusal.out_of_memory => {
                return Self::from(Error::from(error));
            }
            LeaseError::Deadline(_)
            | LeaseError::NoOwner(..)
            | LeaseError::State(_)
            | LeaseError::NoDescriptor => RMM_RS_NOT_READY,
            _ => RMM_RS_REFUSED,
        };
        let text = match &error {
            LeaseError::NoOwner(_, cause) | LeaseError::Io(cause) => format!("{error}: {cause}"),
            _ => error.to_string(),
        };
        Self::plain(status, text)
    }
}

/// The end of a wait of these milliseconds.
fn deadline_of(timeout: u64) -> Option<Instant> {
    let time = (timeout != RMM_RS_LEASE_FOREVER).then(|| Duration::from_millis(timeout))?;
    Instant::now().checked_add(time)
}

/// The leased memory in a stack.
fn leased(resource: &ResourceHandle) -> Result<&LeasedMemoryResource, Failure> {
    resource.any.find().ok_or_else(|| find::none(resource, "has memory of an owner"))
}

/// Begins a session with the owner at a socket (`rmm serve`), and makes a resource of its memory,
/// also as the upstream of a pool. `lock` is one of `RMM_RS_LEASE_*`. It waits `timeout`
/// milliseconds for the owner and for others to let go; with `RMM_RS_LEASE_FOREVER` without end,
/// but the owner has to be there. Later requests, such as allocations, wait at most
/// `answer_timeout` milliseconds for the owner's answer, or ten seconds if it is 0; then the
/// session is over. The lock is held until the resource and all that uses it are released.
///
/// `RMM_RS_NOT_READY` if there is no owner, or the lock was not granted in time: the message names
/// the processes that hold it; `RMM_RS_REFUSED` if the owner's device is none of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_lease_connect(
    path: *const c_char,
    lock: u32,
    timeout: u64,
    answer_timeout: u64,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        // SAFETY: by the clause on texts, `path` is null or ends with a zero byte.
        let path = unsafe { text::read("the path", path) }?;
        let lock = match lock {
            RMM_RS_LEASE_WRITE => Lock::Write,
            RMM_RS_LEASE_READ => Lock::Read,
            RMM_RS_LEASE_WRITE_OR_READ => Lock::WriteOrRead,
            other => return Err(Failure::invalid(format!("{other} is no lock to ask for"))),
        };
        let mut lease = Lease::connect(path, lock, deadline_of(timeout))?;
        if answer_timeout > 0 {
            lease.set_answer_time(Duration::from_millis(answer_timeout));
        }
        let leased = LeasedMemoryResource::new(lease)?;
        Ok(ResourceHandle::base(AnyResource::new(leased)))
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make(out, build) }
}

/// Stores what the session of a resource, or of the first one below it, may do:
/// `RMM_RS_LEASE_WRITE`, `RMM_RS_LEASE_READ`, or `RMM_RS_LEASE_NONE` while it is detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_lease_lock(
    resource: *const ResourceHandle,
    lock: *mut u32,
) -> Status {
    let store = |value: u32| {
        if !lock.is_null() {
            // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
            unsafe { lock.write(value) };
        }
    };
    store(RMM_RS_LEASE_NONE);
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let leased = leased(unsafe { borrow(resource) }?)?;
        store(match leased.lock() {
            None => RMM_RS_LEASE_NONE,
            Some(Granted::Write) => RMM_RS_LEASE_WRITE,
            Some(Granted::Read) => RMM_RS_LEASE_READ,
        });
        Ok(())
    })
}

/// Publishes all that was allocated, once the work of this process is done: others can map it, also
/// when this process has ended. The session then reads, and the memory is read-only here, too, at
/// the same addresses: a kernel that writes to it faults. Nothing can be allocated any more.
///
/// `RMM_RS_REFUSED` if the session only reads, or work may be under capture. If the owner does not
/// answer, it is not known whether it has published the memory, which stays read-only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_lease_commit(resource: *const ResourceHandle) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        Ok(leased(unsafe { borrow(resource) }?)?.commit()?)
    })
}

/// Waits for the work of this process, unmaps all memory and ends the session, so that others can
/// write. The addresses stay reserved: `rmm_rs_lease_attach` maps the memory there again. No work
/// may use it before.
///
/// `RMM_RS_NOT_READY` if the session writes, or is detached; `RMM_RS_REFUSED` if work may be under
/// capture.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_lease_detach(resource: *const ResourceHandle) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let leased = leased(unsafe { borrow(resource) }?)?;
        // SAFETY: the clause on leases is the contract of `detach`.
        Ok(unsafe { leased.detach() }?)
    })
}

/// Reads again, and maps all memory at its addresses, without a copy. It waits `timeout`
/// milliseconds for writers, as `rmm_rs_lease_connect` does.
///
/// `RMM_RS_REFUSED` if it is another owner than before, unless `any_owner` is true, or has not all
/// of the memory, with the same sizes; `RMM_RS_NOT_READY` if it is not detached, or one writes.
/// Then it stays detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_lease_attach(
    resource: *const ResourceHandle,
    timeout: u64,
    any_owner: bool,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let leased = leased(unsafe { borrow(resource) }?)?;
        let deadline = deadline_of(timeout);
        if any_owner {
            return Ok(leased.attach_to_any_owner(deadline)?);
        }
        Ok(leased.attach(deadline)?)
    })
}

/// Gives a range of the memory, such as a block of a pool above, a name, or another range to a
/// name. `about` are up to 4096 bytes for the reader; it may be null if there are none.
///
/// `RMM_RS_INVALID_ARGUMENT` if the range is none of this resource's memory; `RMM_RS_REFUSED` if
/// the session only reads, or these are too many names or bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_lease_put(
    resource: *const ResourceHandle,
    name: *const c_char,
    pointer: *const c_void,
    bytes: u64,
    about: *const c_void,
    about_bytes: usize,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let leased = leased(unsafe { borrow(resource) }?)?;
        // SAFETY: by the clause on texts, `name` is null or ends with a zero byte.
        let name = unsafe { text::read("the name", name) }?;
        let about = if about.is_null() {
            if about_bytes > 0 {
                let text = format!("the {about_bytes} bytes about the name are null");
                return Err(Failure::invalid(text));
            }
            &[]
        } else {
            // SAFETY: by the clause on arrays, it has as many bytes, which may be read.
            unsafe { slice::from_raw_parts(about.cast::<u8>(), about_bytes) }
        };
        Ok(leased.put(name, DevicePtr(pointer.addr() as u64), bytes, about)?)
    })
}

/// Maps the range of a name, and stores where it begins, its size, and how many bytes the writer
/// has said of it, of which as many as fit are copied to `about`. Each place may be null.
///
/// `RMM_RS_REFUSED` if there is no such name; `RMM_RS_NOT_READY` while it is detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_lease_get(
    resource: *const ResourceHandle,
    name: *const c_char,
    pointer: *mut *mut c_void,
    bytes: *mut u64,
    about: *mut c_void,
    capacity: usize,
    about_bytes: *mut u64,
) -> Status {
    // SAFETY: by the clause on pointers, `pointer` is null or valid for a write.
    unsafe { clear_mut(pointer) };
    // SAFETY: by the clause on pointers, `bytes` is null or valid for a write.
    unsafe { clear_number(bytes) };
    // SAFETY: by the clause on pointers, `about_bytes` is null or valid for a write.
    unsafe { clear_number(about_bytes) };
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let leased = leased(unsafe { borrow(resource) }?)?;
        // SAFETY: by the clause on texts, `name` is null or ends with a zero byte.
        let found = leased.get(unsafe { text::read("the name", name) }?)?;
        let address = usize::try_from(found.pointer.0)
            .map_err(|_| Failure::invalid("the address is none of this process"))?;
        if !pointer.is_null() {
            // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
            unsafe { pointer.write(ptr::with_exposed_provenance_mut(address)) };
        }
        for (place, number) in [(bytes, found.size), (about_bytes, found.bytes.len() as u64)] {
            if !place.is_null() {
                // SAFETY: by the clause on pointers, it is valid for a write; it is not null.
                unsafe { place.write(number) };
            }
        }
        if !about.is_null() {
            let fits = capacity.min(found.bytes.len());
            // SAFETY: by the clause on texts, the buffer has `capacity` bytes, which may be written
            // to; the bytes are this library's, so the two do not overlap.
            unsafe { ptr::copy_nonoverlapping(found.bytes.as_ptr(), about.cast(), fits) };
        }
        Ok(())
    })
}

/// What a walk of the names calls with each and its context. It may call this library. An exception
/// of C++ that leaves it ends the process.
#[expect(non_camel_case_types, reason = "the name is one of C")]
pub type rmm_rs_lease_visit_function =
    Option<unsafe extern "C-unwind" fn(name: *const c_char, context: *mut c_void)>;

/// Calls `visit` with each name, in their order as text. One with a zero byte is left out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_lease_walk_names(
    resource: *const ResourceHandle,
    visit: rmm_rs_lease_visit_function,
    context: *mut c_void,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let leased = leased(unsafe { borrow(resource) }?)?;
        let visit = visit.ok_or_else(|| Failure::invalid("the function is null"))?;
        for name in leased.names()?.into_iter().filter_map(|name| CString::new(name).ok()) {
            // SAFETY: by the clause on callbacks, it may be called with this context; the name is
            // valid during the call.
            let ((), _) = guard::call_back(|| unsafe { visit(name.as_ptr(), context) });
        }
        Ok(())
    })
}
