//! Link options: the name under which programs ask for the driver; no unloading, since threads and
//! exit handlers point into the library; and its own functions for its own use, as NVIDIA's driver
//! has them: `cuGetProcAddress` hands out those, whatever library was loaded before.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        for option in ["-Wl,-soname,libcuda.so.1", "-Wl,-z,nodelete", "-Wl,-Bsymbolic-functions"] {
            println!("cargo::rustc-cdylib-link-arg={option}");
        }
    }
}
