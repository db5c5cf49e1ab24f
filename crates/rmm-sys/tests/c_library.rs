//! Calls of driver functions in a shared library written in C.
#![cfg(unix)]

#[path = "common/c_library.rs"]
mod c_library;

use std::ptr;

use rmm_sys::{
    CuDevicePtr, CuFunction, CuIpcMemHandle, CuMemAdvise, CuMemLocation, CuMemLocationType,
    CuResult, CuStream, Driver, SYMBOLS,
};

/// Loads a library with the functions that `keep` selects.
fn driver_with(keep: impl Fn(&str) -> bool) -> Option<Driver> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let library = c_library::build(folder.path(), keep)?;
    // SAFETY: the library was built just now, of functions with the driver's signatures and no
    // initialisers.
    let driver = unsafe { Driver::load_from(&library) };
    Some(driver.expect("the library has every required function"))
}

fn is_required(name: &str) -> bool {
    SYMBOLS.iter().any(|&(symbol, required, _)| required && symbol == name)
}

#[test]
fn calls_reach_the_library() {
    let Some(driver) = driver_with(|_| true) else { return };
    assert_eq!(driver.missing(), []);

    // SAFETY: the library's function has no arguments and no effect.
    let synchronized = unsafe { driver.cuCtxSynchronize() };
    assert_eq!(synchronized, CuResult::CALL_REQUIRES_NEWER_DRIVER);

    let (mut free, mut total) = (0, 0);
    // SAFETY: both pointers are to live integers.
    let informed = unsafe { driver.cuMemGetInfo_v2(&raw mut free, &raw mut total) };
    assert_eq!((informed, free, total), (CuResult::SUCCESS, 11, 22));
}

#[test]
fn an_unknown_code_is_a_valid_value() {
    let Some(driver) = driver_with(is_required) else { return };
    // SAFETY: the library's function returns its argument.
    let code = unsafe { driver.cuInit(99_999) };
    assert_eq!((code.0, code.name()), (99_999, None));
    assert_eq!(code.result(), Err(CuResult(99_999)));
    assert_eq!(code.to_string(), "CUDA error 99999: a code that this build does not know");
}

#[test]
fn structures_pass_by_value() {
    let Some(driver) = driver_with(|_| true) else { return };
    let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id: 777 };
    // SAFETY: the library's function only looks at its arguments.
    let advised = unsafe {
        driver.cuMemAdvise_v2(
            CuDevicePtr(0x12_3456_7890),
            4096,
            CuMemAdvise::SET_PREFERRED_LOCATION,
            location,
        )
    };
    assert_eq!(advised, CuResult(777));

    let mut handle = CuIpcMemHandle { reserved: [0; 64] };
    handle.reserved[0] = 5;
    handle.reserved[63] = 40;
    let mut pointer = CuDevicePtr::NULL;
    // SAFETY: the pointer is to a live value.
    let opened = unsafe { driver.cuIpcOpenMemHandle_v2(&raw mut pointer, handle, 2) };
    assert_eq!((opened, pointer), (CuResult(42), CuDevicePtr(5)));
}

#[test]
fn eleven_arguments_arrive_in_order() {
    let Some(driver) = driver_with(|_| true) else { return };
    let function = CuFunction::from_raw(ptr::without_provenance_mut(8));
    let extra = ptr::without_provenance_mut(16);
    // SAFETY: the library's function only looks at its arguments.
    let launched = unsafe {
        driver.cuLaunchKernel(
            function,
            1,
            2,
            3,
            4,
            5,
            6,
            7,
            CuStream::PER_THREAD,
            ptr::null_mut(),
            extra,
        )
    };
    assert_eq!(launched, CuResult(7_654_321));
}

#[test]
fn an_older_driver_lacks_the_optional_functions() {
    let Some(driver) = driver_with(is_required) else { return };
    let missing: Vec<_> = driver.missing().iter().map(|symbol| symbol.name).collect();
    let optional: Vec<_> =
        SYMBOLS.iter().filter(|(_, required, _)| !required).map(|(name, ..)| *name).collect();
    assert_eq!(missing, optional);
}

#[test]
fn a_library_without_a_required_function_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = c_library::build(folder.path(), |name| name != "cuMemFreeAsync") else {
        return;
    };
    // SAFETY: as in `driver_with`.
    let error = unsafe { Driver::load_from(&library) }.unwrap_err();
    assert_eq!((error.symbol(), error.library()), (Some("cuMemFreeAsync"), library.as_path()));
}
