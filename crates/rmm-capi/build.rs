//! Names the shared library and compiles the one function that has to be C++.

fn main() {
    let target = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if target == "linux" {
        // The soname carries the major version of the ABI; cargo also passes it to libraries that
        // depend on this one. The library stays loaded after `dlclose`: thread-local destructors
        // and exit handlers point into it.
        if std::env::var_os("CARGO_FEATURE_SONAME").is_some() {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,librmm_rs.so.1");
        }
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
    println!("cargo::rerun-if-changed=src/frameworks/throw.cpp");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings_into_errors(true)
        .file("src/frameworks/throw.cpp")
        .compile("rmm_rs_throw");
}
