//! Fixtures that the tests share.

use std::ffi::{CString, c_void};
use std::ptr;

use rmm_rs::ResourceHandle;
use rmm_rs::calls::spec::rmm_rs_resource_from_spec;
use rmm_rs::handle::library::rmm_rs_last_error_message;
use rmm_rs::handle::resource::rmm_rs_resource_release;

/// A counted reference, as a C++ program would keep it.
pub(crate) struct Owned(pub(crate) *const ResourceHandle);

impl Drop for Owned {
    fn drop(&mut self) {
        c!(rmm_rs_resource_release(self.0));
    }
}

/// The result of a function that makes a resource.
pub(crate) fn made(make: impl FnOnce(*mut *const ResourceHandle) -> i32) -> Result<Owned, i32> {
    let mut resource = ptr::dangling();
    match make(&raw mut resource) {
        0 => Ok(Owned(resource)),
        status => {
            assert!(resource.is_null(), "a failed function stores null");
            Err(status)
        }
    }
}

pub(crate) fn of_spec(spec: &str) -> Owned {
    let spec = CString::new(spec).expect("no zero byte");
    let made = made(|out| c!(rmm_rs_resource_from_spec(spec.as_ptr(), out)));
    made.unwrap_or_else(|status| panic!("status {status}: {}", last_error()))
}

pub(crate) fn last_error() -> String {
    let mut buffer = [0_u8; 1024];
    let length = c!(rmm_rs_last_error_message(buffer.as_mut_ptr().cast(), buffer.len()));
    String::from_utf8_lossy(&buffer[..length.min(buffer.len() - 1)]).into_owned()
}

pub(crate) fn allocate(
    resource: &Owned,
    stream: *mut c_void,
    bytes: usize,
) -> Result<*mut c_void, i32> {
    let mut pointer = ptr::dangling_mut();
    let status = c!(rmm_rs::calls::allocate::rmm_rs_resource_allocate(
        resource.0,
        stream,
        bytes,
        256,
        &raw mut pointer
    ));
    if status == 0 {
        Ok(pointer)
    } else {
        assert!(pointer.is_null(), "a failed function stores null");
        Err(status)
    }
}

pub(crate) fn free(
    resource: &Owned,
    stream: *mut c_void,
    pointer: *mut c_void,
    bytes: usize,
) -> i32 {
    c!(rmm_rs::calls::allocate::rmm_rs_resource_deallocate(resource.0, stream, pointer, bytes, 256))
}
