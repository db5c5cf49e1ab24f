//! Builds the two `libcuda`s: a `no_std` library whose functions jump through an exported table.
//!
//! A function for each name is written, and compiled with the compiler of this build: no C compiler
//! and no toolchain beyond Rust's is needed. The arguments pass through untouched, so no signature
//! is repeated here. There are two libraries of one content because a loader finds a library that
//! is already loaded by its soname, and programs ask for either.

#[path = "src/symbols.rs"]
#[macro_use]
mod symbols;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

macro_rules! names {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        &[$(stringify!($name)),*]
    };
}

macro_rules! absent_names {
    ($($name:ident)*) => {
        &[$(stringify!($name)),*]
    };
}

/// The functions of the library's table after those of [`rmm_sys::SYMBOLS`], in this order.
const SHIMS: &[&str] = shim_symbols!(names);
/// And these.
const OLDER: &[&str] = older_symbols!(names);
const ABSENT: &[&str] = absent_symbols!(absent_names);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/symbols.rs");
    println!("cargo::rustc-check-cfg=cfg(has_libcuda)");
    let target = variable("TARGET");
    if variable("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    let Some(jump) = jump_of(&variable("CARGO_CFG_TARGET_ARCH")) else { return };
    let folder = PathBuf::from(variable("OUT_DIR"));
    let source = folder.join("libcuda.rs");
    fs::write(&source, code(jump)).expect("OUT_DIR is writable");
    for soname in ["libcuda.so", "libcuda.so.1"] {
        compile(&source, &folder.join(soname), soname, &target);
    }
    println!("cargo::rustc-cfg=has_libcuda");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// The instructions that jump through the table's entry at an offset in bytes.
fn jump_of(architecture: &str) -> Option<fn(usize) -> Vec<String>> {
    match architecture {
        "x86_64" => Some(|offset| {
            vec![
                "mov rax, qword ptr [rip + rmm_sim_table@GOTPCREL]".into(),
                format!("jmp qword ptr [rax + {offset}]"),
            ]
        }),
        // Written by the procedure-call standard (x16 is free between a call and its target). Not
        // run so far.
        "aarch64" => Some(|offset| {
            vec![
                "adrp x16, :got:rmm_sim_table".into(),
                "ldr x16, [x16, :got_lo12:rmm_sim_table]".into(),
                format!("ldr x16, [x16, #{offset}]"),
                "br x16".into(),
            ]
        }),
        _ => None,
    }
}

/// The library's source.
fn code(jump: fn(usize) -> Vec<String>) -> String {
    let served: Vec<&str> = rmm_sys::SYMBOLS
        .iter()
        .map(|row| row.0)
        .chain(SHIMS.iter().chain(OLDER).copied())
        .collect();
    let mut code = String::from(
        "#![no_std]\n\
         #[panic_handler]\n\
         fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }\n\
         type Function = unsafe extern \"C\" fn() -> u32;\n\
         unsafe extern \"C\" fn not_supported() -> u32 { 801 }\n",
    );
    let mut line = |text: String| writeln!(code, "{text}").expect("a string takes it");
    let count = served.len();
    line(format!(
        "#[unsafe(no_mangle)]\npub static mut rmm_sim_table: [Function; {count}] = [not_supported; {count}];"
    ));
    for (index, name) in served.iter().enumerate() {
        let steps: Vec<String> =
            jump(index * size_of::<u64>()).iter().map(|step| format!("{step:?}")).collect();
        line(format!(
            "#[unsafe(naked)]\n#[unsafe(no_mangle)]\npub extern \"C\" fn {name}() {{ core::arch::naked_asm!({}) }}",
            steps.join(", ")
        ));
    }
    for name in ABSENT {
        line(format!("#[unsafe(no_mangle)]\npub extern \"C\" fn {name}() -> u32 {{ 801 }}"));
    }
    code
}

fn compile(source: &Path, library: &Path, soname: &str, target: &str) {
    let mut compiler = Command::new(variable("RUSTC"));
    compiler
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=cuda"])
        .args(["-Cpanic=abort", "-Copt-level=1", "-Cstrip=debuginfo", "--target", target])
        .arg(format!("-Clink-arg=-Wl,-soname,{soname}"))
        .arg("-Clink-arg=-nostdlib");
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compiler.arg(format!("-Clinker={linker}"));
    }
    let status = compiler.arg("-o").arg(library).arg(source).status();
    let status = status.expect("the compiler of this build runs");
    assert!(status.success(), "the compiler of this build could not build {soname}");
}
