//! A shared library that exports the driver's functions, made by the C compiler while the test
//! runs.
//!
//! Its functions have C's idea of their signatures, so a call tests the calling convention too: how
//! structures are passed by value, where the eleventh argument goes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// C for the structures that are passed by value.
const PREAMBLE: &str = "\
#include <stddef.h>
#include <stdint.h>
typedef void *pointer;
typedef struct { unsigned type; int id; } location;
typedef struct { unsigned char reserved[64]; } name64;
";

/// Functions that do something other than return 36.
const BODIES: &[(&str, &str)] = &[
    ("cuInit", "return a0;"),
    ("cuMemGetInfo_v2", "*(size_t *)a0 = 11; *(size_t *)a1 = 22; return 0;"),
    (
        "cuMemAdvise_v2",
        "return a0 == 0x1234567890 && a1 == 4096 && a2 == 3 && a3.type == 1 ? a3.id : 1;",
    ),
    (
        "cuIpcOpenMemHandle_v2",
        "*(unsigned long long *)a0 = a1.reserved[0]; return a1.reserved[63] + a2;",
    ),
    (
        "cuLaunchKernel",
        "return a0 == (pointer)8 && a8 == (pointer)2 && a9 == 0 && a10 == (pointer)16
             ? a1 + 10 * a2 + 100 * a3 + 1000 * a4 + 10000 * a5 + 100000 * a6 + 1000000 * a7 : 1;",
    ),
];

macro_rules! signatures {
    ($($kind:ident $since:literal $name:ident($($argument:ident: $type:ty),*);)*) => {
        const SIGNATURES: &[(&str, &[&str])] = &[$((stringify!($name), &[$(stringify!($type)),*])),*];
    };
}

rmm_sys::driver_symbols!(signatures);

/// C's type for a Rust type of the driver's interface.
fn c_type(rust: &str) -> &'static str {
    match rust {
        _ if rust.starts_with('*') => "pointer",
        "CuContext" | "CuStream" | "CuEvent" | "CuMemPool" | "CuModule" | "CuFunction"
        | "CuGraph" | "CuGraphExec" | "CuHostFn" => "pointer",
        "c_int" | "CuDevice" | "CuDeviceAttribute" => "int",
        "c_uchar" => "unsigned char",
        "u32" => "uint32_t",
        "usize" => "size_t",
        "c_ulonglong" | "CuDevicePtr" | "CuMemHandle" => "unsigned long long",
        "CuMemLocation" => "location",
        "CuIpcMemHandle" | "CuIpcEventHandle" => "name64",
        "c_uint"
        | "CuCaptureMode"
        | "CuGraphMemAttribute"
        | "CuMemAdvise"
        | "CuMemRangeAttribute"
        | "CuMemAllocationType"
        | "CuMemGranularity"
        | "CuMemHandleType"
        | "CuMemPoolAttribute"
        | "CuPointerAttribute" => "unsigned",
        other => panic!("no C type is known for {other}"),
    }
}

fn source(keep: impl Fn(&str) -> bool) -> String {
    let mut source = PREAMBLE.to_owned();
    for (name, types) in SIGNATURES.iter().filter(|(name, _)| keep(name)) {
        let parameters: Vec<String> = types
            .iter()
            .enumerate()
            .map(|(index, rust)| format!("{} a{index}", c_type(rust)))
            .collect();
        let parameters =
            if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
        let body = BODIES
            .iter()
            .find(|(with_body, _)| with_body == name)
            .map_or("return 36;", |(_, body)| body);
        writeln!(source, "unsigned {name}({parameters}) {{ {body} }}")
            .expect("a string can be written to");
    }
    source
}

/// Builds the library in `folder` with the functions that `keep` selects. Without a C compiler,
/// says so on standard output and returns `None`.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
pub(crate) fn build(folder: &Path, keep: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let (source_path, library) = (folder.join("driver.c"), folder.join("driver.so"));
    std::fs::write(&source_path, source(keep)).expect("the folder can be written to");
    let compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .arg(&library)
        .arg(&source_path)
        .output();
    match compiler {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(library)
        }
        Err(error) => {
            println!("skipped: there is no C compiler `cc` ({error})");
            None
        }
    }
}
