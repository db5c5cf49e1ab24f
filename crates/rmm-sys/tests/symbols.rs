//! Tables made from addresses.

#[path = "common/stubs.rs"]
mod stubs;

use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr;

use rmm_sys::{
    CuContext, CuDevicePtr, CuEvent, CuResult, Driver, LoadError, MissingSymbol, SYMBOLS,
};

/// A table of stubs, with those that `keep` selects.
fn table(keep: impl Fn(&str) -> bool) -> Result<Driver, LoadError> {
    let find = |name: &'static str| keep(name).then(|| stubs::address_of(name)).flatten();
    // SAFETY: each address is that of a function with the signature which belongs to the name, made
    // by one macro.
    unsafe { Driver::from_symbols(find) }
}

fn optional() -> impl Iterator<Item = (&'static str, &'static str)> {
    SYMBOLS.iter().filter(|(_, required, _)| !required).map(|&(name, _, since)| (name, since))
}

#[test]
fn a_missing_required_symbol_is_named() {
    for &(symbol, required, since) in SYMBOLS {
        match table(|name| name != symbol) {
            Err(error) => {
                assert!(required, "{symbol} is optional");
                assert_eq!(error.symbol(), Some(symbol));
                let text = error.to_string();
                assert!(
                    text.starts_with(&format!("the CUDA driver has no function {symbol},")),
                    "{text}"
                );
                assert!(
                    text.contains(&format!("since CUDA {since}")) && text.contains("update"),
                    "{text}"
                );
            }
            Ok(driver) => assert_eq!(driver.missing(), [MissingSymbol { name: symbol, since }]),
        }
    }
}

#[test]
fn optional_symbols_may_all_be_missing() {
    let driver = table(|name| optional().all(|(symbol, _)| symbol != name)).unwrap();
    let missing: Vec<_> =
        driver.missing().iter().map(|symbol| (symbol.name, symbol.since)).collect();
    assert_eq!(missing, optional().collect::<Vec<_>>());
    assert!(
        missing.contains(&("cuMemPrefetchAsync_v2", "12.2"))
            && missing.contains(&("cuMemGetDefaultMemPool", "13.0"))
    );

    // SAFETY: the driver has no such function, so nothing is called.
    let recorded = unsafe { driver.cuCtxRecordEvent(CuContext::NULL, CuEvent::NULL) };
    assert_eq!(recorded, CuResult::NOT_SUPPORTED);
    // SAFETY: a stub, which ignores its argument.
    let freed = unsafe { driver.cuMemFree_v2(CuDevicePtr::NULL) };
    assert_eq!(freed, stubs::STUB_CODE);
}

#[test]
fn optional_symbols_are_called_when_they_are_there() {
    let driver = table(|_| true).unwrap();
    assert_eq!(driver.missing(), []);
    // SAFETY: a stub, which ignores its arguments.
    let recorded = unsafe { driver.cuCtxRecordEvent(CuContext::NULL, CuEvent::NULL) };
    assert_eq!(recorded, stubs::STUB_CODE);
}

#[test]
fn a_null_address_is_a_missing_symbol() {
    // SAFETY: every address is null.
    let error = unsafe { Driver::from_symbols(|_| Some(ptr::null_mut::<c_void>())) }.unwrap_err();
    assert_eq!(error.symbol(), Some(SYMBOLS[0].0));
}

#[test]
fn symbols_are_unique_and_versions_well_formed() {
    let names: HashSet<_> = SYMBOLS.iter().map(|(name, ..)| name).collect();
    assert_eq!(names.len(), SYMBOLS.len());
    for (name, required, since) in SYMBOLS {
        let (major, minor) = since.split_once('.').unwrap();
        let version: (u32, u32) = (major.parse().unwrap(), minor.parse().unwrap());
        assert!(version >= (12, 0), "{name}: {since}");
        // The newer form of this one is enough.
        let is_replaced = *name == "cuEventElapsedTime";
        assert_eq!(
            *required,
            version == (12, 0) && !is_replaced,
            "{name}: the oldest supported driver has all required ones"
        );
    }
}
