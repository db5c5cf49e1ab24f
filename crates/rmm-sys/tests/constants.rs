//! Codes, kinds and flags compared with the names and numbers of CUDA's own header.

use std::collections::HashMap;
use std::fmt::Debug;

use rmm_sys::*;

/// One section for each enumeration: `# NAME`, then `enumerator=value` lines.
const HEADER: &str = include_str!("data/cuda-13-constants.txt");

/// The pairs of the section `name`.
fn section(name: &str) -> Vec<(&'static str, i64)> {
    let title = format!("# {name}");
    let lines = HEADER.lines().skip_while(|line| **line != *title).skip(1);
    let pairs: Vec<_> = lines
        .take_while(|line| !line.starts_with('#'))
        .map(|line| line.split_once('=').expect("a line is name=value"))
        .map(|(name, value)| (name, value.parse().expect("values are integers")))
        .collect();
    assert!(!pairs.is_empty(), "the header's list has no section {name}");
    pairs
}

/// Checks the known values of one kind against the section `name`.
fn check<T: Copy + Debug>(name: &str, known: &[(T, &str)], value: impl Fn(T) -> i64) {
    let header: HashMap<_, _> = section(name).into_iter().collect();
    for &(constant, symbol) in known {
        assert_eq!(header.get(symbol), Some(&value(constant)), "{name}: {symbol}");
        assert_eq!(
            format!("{constant:?}"),
            symbol,
            "the first name of a value is the one that is printed"
        );
    }
}

#[test]
fn the_status_codes_are_those_of_the_header() {
    let known: Vec<_> =
        CuResult::known().map(|code| (code.name().unwrap(), i64::from(code.0))).collect();
    assert_eq!(known, section("CUresult"));
}

#[test]
fn enumerations_have_the_values_of_the_header() {
    check("CUdevice_attribute", CuDeviceAttribute::KNOWN, |kind| kind.0.into());
    check("CUmemPool_attribute", CuMemPoolAttribute::KNOWN, |kind| kind.0.into());
    check("CUmemAllocationHandleType", CuMemHandleType::KNOWN, |kind| kind.0.into());
    check("CUmemLocationType", CuMemLocationType::KNOWN, |kind| kind.0.into());
    check("CUmemAllocationType", CuMemAllocationType::KNOWN, |kind| kind.0.into());
    check("CUmemAccess_flags", CuMemAccessFlags::KNOWN, |kind| kind.0.into());
    check("CUmem_advise", CuMemAdvise::KNOWN, |kind| kind.0.into());
    check("CUgraphMem_attribute", CuGraphMemAttribute::KNOWN, |kind| kind.0.into());
    check("CUpointer_attribute", CuPointerAttribute::KNOWN, |kind| kind.0.into());
    check("CUmemorytype", CuMemoryType::KNOWN, |kind| kind.0.into());
    check("CUstreamCaptureStatus", CuCaptureStatus::KNOWN, |kind| kind.0.into());
    check("CUstreamCaptureMode", CuCaptureMode::KNOWN, |kind| kind.0.into());
    check("CUmemAllocationGranularity_flags", CuMemGranularity::KNOWN, |kind| kind.0.into());
}

#[test]
fn flags_have_the_values_of_the_header() {
    let flags = [
        ("CU_STREAM_DEFAULT", STREAM_DEFAULT),
        ("CU_STREAM_NON_BLOCKING", STREAM_NON_BLOCKING),
        ("CU_EVENT_DEFAULT", EVENT_DEFAULT),
        ("CU_EVENT_BLOCKING_SYNC", EVENT_BLOCKING_SYNC),
        ("CU_EVENT_DISABLE_TIMING", EVENT_DISABLE_TIMING),
        ("CU_EVENT_INTERPROCESS", EVENT_INTERPROCESS),
        ("CU_MEM_ATTACH_GLOBAL", MEM_ATTACH_GLOBAL),
        ("CU_MEM_ATTACH_HOST", MEM_ATTACH_HOST),
        ("CU_MEMHOSTALLOC_PORTABLE", MEMHOSTALLOC_PORTABLE),
        ("CU_MEMHOSTALLOC_DEVICEMAP", MEMHOSTALLOC_DEVICEMAP),
        ("CU_MEMHOSTALLOC_WRITECOMBINED", MEMHOSTALLOC_WRITECOMBINED),
        ("CU_MEMHOSTREGISTER_PORTABLE", MEMHOSTREGISTER_PORTABLE),
        ("CU_MEMHOSTREGISTER_DEVICEMAP", MEMHOSTREGISTER_DEVICEMAP),
    ];
    assert_eq!(flags.map(|(name, value)| (name, i64::from(value))).to_vec(), section("flags"));
}

#[test]
fn constant_handles_have_the_values_of_the_header() {
    let address = |stream: CuStream| i64::try_from(stream.addr()).unwrap();
    let handles = [
        ("CU_STREAM_LEGACY", address(CuStream::LEGACY)),
        ("CU_STREAM_PER_THREAD", address(CuStream::PER_THREAD)),
        ("CU_DEVICE_CPU", CuDevice::CPU.0.into()),
    ];
    assert_eq!(handles.to_vec(), section("handles"));
}

#[test]
fn a_code_prints_its_name_number_and_meaning() {
    let text = CuResult::OUT_OF_MEMORY.to_string();
    assert_eq!(
        text,
        "CUDA_ERROR_OUT_OF_MEMORY (2): not enough memory, or not enough of another resource"
    );
    assert_eq!(format!("{:?}", CuResult::OUT_OF_MEMORY), "CUDA_ERROR_OUT_OF_MEMORY");
}

#[test]
fn an_unknown_value_prints_its_number() {
    for code in [9, 1000, u32::MAX] {
        let unknown = CuResult(code);
        assert_eq!(unknown.name(), None);
        assert_eq!(
            unknown.to_string(),
            format!("CUDA error {code}: a code that this build does not know")
        );
        assert_eq!(format!("{unknown:?}"), format!("CuResult({code})"));
        assert_eq!(unknown.result(), Err(unknown));
    }
    assert_eq!(format!("{:?}", CuMemPoolAttribute(4711)), "CuMemPoolAttribute(4711)");
    assert_eq!(format!("{:?}", CuDeviceAttribute(-1)), "CuDeviceAttribute(-1)");
}

#[test]
fn only_success_is_success() {
    assert_eq!(CuResult::SUCCESS.result(), Ok(()));
    assert!(CuResult::known().all(|code| code.is_success() == (code == CuResult::SUCCESS)));
    assert!(!CuResult::NOT_READY.is_success());
}
