//! Names the extension module. The library for C is linked into it, and if it had that one's name,
//! programs that need the library for C would be bound to Python's copy.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|target| target == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,_rmm.abi3.so");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
