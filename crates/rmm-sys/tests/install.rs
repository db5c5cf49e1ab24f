//! The process's one driver. Alone in its file, because what it installs stays for the rest of the
//! process.

#[path = "common/stubs.rs"]
mod stubs;

use rmm_sys::{CuDevicePtr, CuResult, Driver};

/// Another function for one entry of the table, to distinguish two tables.
unsafe extern "C" fn refuse(_: CuDevicePtr) -> CuResult {
    CuResult::NOT_PERMITTED
}

fn free(driver: &Driver) -> CuResult {
    // SAFETY: the function is a stub or `refuse`; both ignore their argument.
    unsafe { driver.cuMemFree_v2(CuDevicePtr::NULL) }
}

#[test]
fn the_first_driver_stays() {
    // SAFETY: each address is that of a function with the signature which belongs to the name.
    let first = unsafe { Driver::from_symbols(stubs::address_of) }.unwrap();
    let second = Driver { cuMemFree_v2: refuse, ..first };

    // SAFETY: nothing in this process calls the driver but this test, which expects the stubs'
    // code.
    let installed = unsafe { Driver::install(first) }.unwrap();
    assert!(std::ptr::eq(Driver::get().unwrap(), installed));
    assert_eq!(free(installed), stubs::STUB_CODE);

    // SAFETY: as above.
    let given_back = unsafe { Driver::install(second) }.unwrap_err();
    assert_eq!(free(&given_back), CuResult::NOT_PERMITTED);
    assert_eq!(free(Driver::get().unwrap()), stubs::STUB_CODE);
}
