//! The libraries, as a program that opens them by name sees them.
#![cfg(target_os = "linux")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

use rmm_sys::{CuContext, CuDevice, CuDevicePtr, CuResult};

/// Opens a library by name, as cudarc and others do.
fn open(name: &CStr) -> *mut c_void {
    rmm_sim_cuda::load().expect("there is no other driver");
    // SAFETY: the name is null-terminated, and the library has no constructors.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null(), "{name:?} is found");
    library
}

fn symbol(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the library is open for the rest of the process.
    unsafe { libc::dlsym(library, name.as_ptr()) }
}

type Plain = unsafe extern "C" fn() -> CuResult;
type Text = unsafe extern "C" fn(CuResult, *mut *const c_char) -> CuResult;
type Launch = unsafe extern "C" fn(
    usize,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    usize,
    *mut c_void,
    *mut c_void,
) -> CuResult;
type Init = unsafe extern "C" fn(u32) -> CuResult;

fn init_of(library: *mut c_void) -> Init {
    let found = symbol(library, c"cuInit");
    assert!(!found.is_null());
    // SAFETY: the symbol is a function of this type.
    unsafe { std::mem::transmute::<*mut c_void, Init>(found) }
}

#[test]
fn both_names_lead_to_the_entered_machine() {
    for name in [c"libcuda.so", c"libcuda.so.1"] {
        let init = init_of(open(name));
        let machine = rmm_sim::enter();
        // SAFETY: it takes no pointer.
        assert_eq!(unsafe { init(0) }, CuResult::SUCCESS);
        assert_eq!(machine.call_counts(), [("cuInit", 1)]);
    }
}

#[test]
fn arguments_pass_through_untouched() {
    let library = open(c"libcuda.so.1");
    let _machine = rmm_sim::enter();
    // SAFETY: it takes no pointer.
    assert_eq!(unsafe { init_of(library)(0) }, CuResult::SUCCESS);
    // More arguments than registers hold, and one of them a handle that is wrong.
    // SAFETY: the symbol is a function with arguments of these sizes.
    let launch: Launch = unsafe { std::mem::transmute(symbol(library, c"cuLaunchKernel")) };
    let none = std::ptr::null_mut();
    // SAFETY: it is refused before any pointer is read.
    let code = unsafe { launch(1, 1, 1, 1, 1, 1, 1, 0, 0, none, none) };
    assert_eq!(code, CuResult::INVALID_HANDLE);
}

#[test]
fn every_function_is_there_and_those_not_served_say_so() {
    let library = open(c"libcuda.so");
    for name in [c"cuStreamCreate", c"cuMemAlloc_v2", c"cuGetErrorString", c"cuLaunchKernelEx"] {
        assert!(!symbol(library, name).is_null(), "{name:?}");
    }
    for name in [c"cuProfilerStart", c"cuArrayCreate_v2", c"cuImportExternalMemory"] {
        // SAFETY: the symbol is a function, which reads no argument.
        let function: Plain = unsafe { std::mem::transmute(symbol(library, name)) };
        // SAFETY: as above.
        assert_eq!(unsafe { function() }, CuResult::NOT_SUPPORTED, "{name:?}");
    }
}

type GetProcAddress = unsafe extern "C" fn(
    *const c_char,
    *mut *mut c_void,
    c_int,
    c_ulonglong,
    *mut c_int,
) -> CuResult;

#[test]
fn functions_are_found_by_name_and_version() {
    let library = open(c"libcuda.so.1");
    // SAFETY: the symbol is a function of this type.
    let find: GetProcAddress =
        unsafe { std::mem::transmute(symbol(library, c"cuGetProcAddress_v2")) };
    let (mut function, mut status) = (std::ptr::null_mut(), -1);
    let machine = rmm_sim::enter();
    // SAFETY: the pointers are valid for reads and writes.
    let code = unsafe { find(c"cuInit".as_ptr(), &raw mut function, 12000, 0, &raw mut status) };
    assert_eq!((code, status), (CuResult::SUCCESS, 0));
    // SAFETY: it was found under the name of a function of this type.
    let init = unsafe { std::mem::transmute::<*mut c_void, Init>(function) };
    // SAFETY: it takes no pointer.
    assert_eq!(unsafe { init(0) }, CuResult::SUCCESS);
    assert_eq!(machine.calls(), 1);
    // SAFETY: as above.
    let code = unsafe { find(c"cuNone".as_ptr(), &raw mut function, 12000, 0, &raw mut status) };
    assert_eq!((code, status), (CuResult::SUCCESS, 1));
    assert!(function.is_null());
    let none = std::ptr::null_mut();
    // SAFETY: as above.
    let code = unsafe { find(c"cuNone".as_ptr(), &raw mut function, 12000, 0, none) };
    assert_eq!(code, CuResult::NOT_FOUND);
}

/// The function that a program built for `version` gets under this name.
fn found<F: Copy>(library: *mut c_void, name: &CStr, version: c_int) -> F {
    // SAFETY: the symbol is a function of this type.
    let find: GetProcAddress =
        unsafe { std::mem::transmute(symbol(library, c"cuGetProcAddress_v2")) };
    let (mut function, none) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the pointers are null or valid for reads and writes.
    let code = unsafe { find(name.as_ptr(), &raw mut function, version, 0, none) };
    assert_eq!(code, CuResult::SUCCESS, "{name:?}");
    // SAFETY: the caller names a function of this type, which has the size of a pointer.
    unsafe { std::mem::transmute_copy::<*mut c_void, F>(&function) }
}

type Create2 = unsafe extern "C" fn(*mut CuContext, c_uint, CuDevice) -> CuResult;
type Create4 = unsafe extern "C" fn(*mut CuContext, *const c_void, c_uint, CuDevice) -> CuResult;
type OfContext = unsafe extern "C" fn(CuContext) -> CuResult;
type Flags = unsafe extern "C" fn(*mut c_uint) -> CuResult;

#[test]
fn contexts_beside_the_primary_one_are_created_and_destroyed() {
    let library = open(c"libcuda.so.1");
    let machine = rmm_sim::enter();
    // SAFETY: it takes no pointer.
    assert_eq!(unsafe { init_of(library)(0) }, CuResult::SUCCESS);
    let (mut older, mut newer) = (CuContext::NULL, CuContext::NULL);
    // What `cuCtxCreate` of `cuda.h` is, before CUDA 13 and since.
    let create = found::<Create2>(library, c"cuCtxCreate", 12080);
    // SAFETY: `older` is valid for a write.
    assert_eq!(unsafe { create(&raw mut older, 4, CuDevice(0)) }, CuResult::SUCCESS);
    let create = found::<Create4>(library, c"cuCtxCreate", 13000);
    let parameters: [*const c_void; 3] = [std::ptr::null(); 3];
    let parameters = parameters.as_ptr().cast();
    // SAFETY: `newer` is valid for a write, and the parameters ask for nothing.
    assert_eq!(unsafe { create(&raw mut newer, parameters, 0, CuDevice(0)) }, CuResult::SUCCESS);
    assert_ne!(older, newer);
    let affinity: [*const c_void; 3] = [parameters, std::ptr::null(), std::ptr::null()];
    // SAFETY: as above; the parameters ask for some multiprocessors, and are not read further.
    let code = unsafe { create(&raw mut newer, affinity.as_ptr().cast(), 0, CuDevice(0)) };
    assert_eq!(code, CuResult::NOT_SUPPORTED);
    let destroy = found::<OfContext>(library, c"cuCtxDestroy", 13000);
    // SAFETY: it is a context, which nothing uses.
    assert_eq!(unsafe { destroy(newer) }, CuResult::SUCCESS);
    let mut flags = 0;
    // SAFETY: `flags` is valid for a write.
    let code = unsafe { found::<Flags>(library, c"cuCtxGetFlags", 13000)(&raw mut flags) };
    assert_eq!((code, flags), (CuResult::SUCCESS, 4), "the older one is current again");
    // SAFETY: as above.
    assert_eq!(unsafe { destroy(older) }, CuResult::SUCCESS);
    // SAFETY: the handle is not that of a context any more, which the call finds out.
    assert_eq!(unsafe { destroy(older) }, CuResult::CONTEXT_IS_DESTROYED);
    assert!(machine.leaks().is_empty());
}

type SetFlags = unsafe extern "C" fn(CuDevice, c_uint) -> CuResult;
type GetState = unsafe extern "C" fn(CuDevice, *mut c_uint, *mut c_int) -> CuResult;

#[test]
fn the_flags_of_a_primary_context_are_remembered() {
    let library = open(c"libcuda.so.1");
    let _machine = rmm_sim::enter();
    let set = found::<SetFlags>(library, c"cuDevicePrimaryCtxSetFlags", 13000);
    let state = found::<GetState>(library, c"cuDevicePrimaryCtxGetState", 13000);
    let (mut flags, mut active) = (9, 9);
    // SAFETY: it takes no pointer.
    assert_eq!(unsafe { init_of(library)(0) }, CuResult::SUCCESS);
    let set = |device, flags| {
        // SAFETY: it takes no pointer.
        unsafe { set(CuDevice(device), flags) }
    };
    assert_eq!(set(0, 4), CuResult::SUCCESS);
    assert_eq!(set(0, 1 << 20), CuResult::INVALID_VALUE);
    assert_eq!(set(1, 4), CuResult::INVALID_DEVICE);
    // SAFETY: the results are valid for writes.
    let code = unsafe { state(CuDevice(0), &raw mut flags, &raw mut active) };
    assert_eq!((code, flags, active), (CuResult::SUCCESS, 4, 0));
}

type AddressRange = unsafe extern "C" fn(*mut CuDevicePtr, *mut usize, CuDevicePtr) -> CuResult;

#[test]
fn an_address_of_no_allocation_has_no_range() {
    let library = open(c"libcuda.so.1");
    let _machine = rmm_sim::enter();
    // SAFETY: it takes no pointer.
    assert_eq!(unsafe { init_of(library)(0) }, CuResult::SUCCESS);
    let range = found::<AddressRange>(library, c"cuMemGetAddressRange", 13000);
    let none = std::ptr::null_mut();
    // SAFETY: the results are optional, and the address is not accessed.
    let code = unsafe { range(none, std::ptr::null_mut(), CuDevicePtr(4096)) };
    assert_eq!(code, CuResult::NOT_FOUND);
}

#[test]
fn codes_have_their_names_and_texts() {
    let library = open(c"libcuda.so");
    let text_of = |function: &CStr, code: CuResult| {
        // SAFETY: the symbol is a function of this type.
        let function: Text = unsafe { std::mem::transmute(symbol(library, function)) };
        let mut text = std::ptr::null();
        // SAFETY: `text` is valid for a write.
        let result = unsafe { function(code, &raw mut text) };
        // SAFETY: a text that is not null is null-terminated and static.
        let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy());
        (result, text)
    };
    let (result, name) = text_of(c"cuGetErrorName", CuResult::OUT_OF_MEMORY);
    assert_eq!((result, name.as_deref()), (CuResult::SUCCESS, Some("CUDA_ERROR_OUT_OF_MEMORY")));
    let (_, text) = text_of(c"cuGetErrorString", CuResult::NOT_FOUND);
    assert!(text.is_some_and(|text| text.contains("Machine::kernel")));
    assert_eq!(text_of(c"cuGetErrorName", CuResult(12345)), (CuResult::INVALID_VALUE, None));
}
