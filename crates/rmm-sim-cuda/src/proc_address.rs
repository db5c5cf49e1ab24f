//! `cuGetProcAddress`: the function of a name and a CUDA version.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::OnceLock;

use crate::table;

/// Asks for the variants that use the per-thread default stream where a stream is null.
pub(crate) const PER_THREAD_DEFAULT_STREAM: u64 = 1 << 1;

/// Functions whose newer form has another signature, the first version in which their name means
/// the newer form (`#define`s of `cuda.h`), and what it means before.
const CHANGED: [(&str, i32, &str); 4] = [
    ("cuMemAdvise", 13000, "cuMemAdvise"),
    ("cuMemPrefetchAsync", 13000, "cuMemPrefetchAsync"),
    ("cuGetProcAddress", 12000, "cuGetProcAddress"),
    ("cuCtxCreate", 13000, "cuCtxCreate_v2"),
];

/// The functions by name, as exposed addresses.
static ROWS: OnceLock<BTreeMap<&'static str, usize>> = OnceLock::new();

fn by_name(
    rows: impl IntoIterator<Item = (&'static str, *const c_void)>,
) -> BTreeMap<&'static str, usize> {
    rows.into_iter().map(|(name, address)| (name, address.expose_provenance())).collect()
}

/// Replaces functions that `cuGetProcAddress` finds, before its first call: a library that exports
/// functions of its own under these names has one answer for each name.
///
/// # Panics
/// If a function was found already.
pub fn replace(functions: impl IntoIterator<Item = (&'static str, *const c_void)>) {
    let rows = table::rows().into_iter().chain(functions);
    ROWS.set(by_name(rows)).expect("no function was found before");
}

/// The newest form of a function that programs of this version mean by `name`. A name with a
/// suffix (`cuMemAlloc_v2`) means that form.
pub(crate) fn find(name: &str, version: i32) -> Option<*const c_void> {
    let rows = ROWS.get_or_init(|| by_name(table::rows()));
    let older = CHANGED.iter().find(|&&(changed, since, _)| changed == name && version < since);
    let found = if let Some((_, _, form)) = older {
        rows.get(form).copied()
    } else {
        let newer = (2..=4).rev().map(|form| format!("{name}_v{form}"));
        newer.chain([name.to_owned()]).find_map(|form| rows.get(form.as_str()).copied())
    };
    found.map(std::ptr::with_exposed_provenance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_its_newest_form() {
        assert_eq!(find("cuMemAlloc", 12000), find("cuMemAlloc_v2", 0));
        assert_eq!(find("cuInit", 2000), find("cuInit", 13000));
        assert!(find("cuInit", 2000).is_some());
        assert_eq!(find("cuArrayCreate", 12000), None);
    }

    #[test]
    fn a_name_whose_signature_changed_means_what_the_version_means() {
        assert_ne!(find("cuMemPrefetchAsync", 12020), find("cuMemPrefetchAsync", 13000));
        assert_eq!(find("cuCtxCreate", 12080), find("cuCtxCreate_v2", 0));
        assert_eq!(find("cuCtxCreate", 13000), find("cuCtxCreate_v4", 0));
        assert_ne!(find("cuCtxCreate_v2", 0), find("cuCtxCreate_v4", 0));
        assert_eq!(find("cuMemPrefetchAsync", 13000), find("cuMemPrefetchAsync_v2", 12020));
    }
}
