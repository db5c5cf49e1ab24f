//! Names and texts of status codes, as null-terminated strings.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use rmm_sys::CuResult;

/// What `NOT_FOUND` says beyond the driver's own text.
const NOT_FOUND: &str = "; the software device finds kernels that are registered with `Machine::kernel`, \
     and `Machine::missing_kernels` lists those that were not";

type Texts = BTreeMap<u32, (CString, CString)>;

/// The name and the text of a code, if this build knows it.
pub(crate) fn texts_of(code: CuResult) -> Option<(&'static CStr, &'static CStr)> {
    static TEXTS: OnceLock<Texts> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| CuResult::known().filter_map(row).collect());
    texts.get(&code.0).map(|(name, text)| (name.as_c_str(), text.as_c_str()))
}

fn row(code: CuResult) -> Option<(u32, (CString, CString))> {
    let more = if code == CuResult::NOT_FOUND { NOT_FOUND } else { "" };
    let text = CString::new(format!("{}{more}", code.text())).ok()?;
    Some((code.0, (CString::new(code.name()?).ok()?, text)))
}
