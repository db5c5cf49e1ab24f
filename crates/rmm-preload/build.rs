//! Makes the driver's library a needed one of this library, without having it.
//!
//! A program that opens this library in the driver's place looks up functions in it that are the
//! driver's: `dlsym` searches the libraries that a library needs. The linker wants to see each of
//! these, so it gets an empty one of the same name.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

const DRIVER: &str = "libcuda.so.1";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it"));
    let source = out.join("empty.rs");
    let code =
        "#![no_std]\n#[panic_handler]\nfn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }\n";
    fs::write(&source, code).expect("the folder is there");
    let built = Command::new(env::var_os("RUSTC").expect("Cargo sets it"))
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=empty", "-Cpanic=abort"])
        .args(["-Clink-arg=-nostdlib".to_owned(), format!("-Clink-arg=-Wl,-soname,{DRIVER}")])
        .arg("--target")
        .arg(env::var_os("TARGET").expect("Cargo sets it"))
        .arg("-o")
        .arg(out.join(DRIVER))
        .arg(&source)
        .status();
    assert!(built.is_ok_and(|status| status.success()), "an empty library can be built");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--no-as-needed");
    println!("cargo::rustc-cdylib-link-arg={}", out.join(DRIVER).display());
    // Thread-locals and exit handlers lead into the library.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
