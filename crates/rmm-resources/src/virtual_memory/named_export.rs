//! The names of handle types in text, such as that of a specification.

use std::str::FromStr;

use super::builder::{Handles, VirtualMemoryResourceBuilder};
use crate::ExportHandleTypes;

/// The types of handles that a name stands for: `posix_fd`, `fabric`, or `fabric_or_posix_fd` for
/// the first of both that the device can make. In names `-` is `_`.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamedExport(Handles);

impl FromStr for NamedExport {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let (file, fabric) = (ExportHandleTypes::POSIX_FILE_DESCRIPTOR, ExportHandleTypes::FABRIC);
        match &*name.to_ascii_lowercase().replace('-', "_") {
            "posix_fd" => Ok(Self(Handles::All(file))),
            "fabric" => Ok(Self(Handles::All(fabric))),
            "fabric_or_posix_fd" => Ok(Self(Handles::Any(fabric | file))),
            _ => Err("expected posix_fd, fabric or fabric_or_posix_fd"),
        }
    }
}

impl VirtualMemoryResourceBuilder {
    /// [`export`](Self::export) or [`export_any_of`](Self::export_any_of), as the name says.
    #[doc(hidden)]
    pub fn export_named(self, NamedExport(handles): NamedExport) -> Self {
        self.with_handles(handles)
    }
}
