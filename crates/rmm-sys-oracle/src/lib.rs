//! Compares what `rmm-sys` says of CUDA's driver interface with what `cudarc` says of it.
//!
//! `rmm-sys` is written by hand; `cudarc`'s bindings are generated from NVIDIA's headers. If the
//! two disagree on the number, size or alignment of any function's arguments, on the layout of a
//! structure, or on a value, then this crate does not compile. So building it is the check, and it
//! has nothing to call:
//!
//! ```sh
//! cargo check -p rmm-sys-oracle   # signatures, layouts, values
//! cargo test -p rmm-sys-oracle    # also the CUDA version since which each function is there
//! ```
//!
//! The bindings are those of CUDA 13.2 (`cudarc`'s feature `cuda-13020`). They are big, so this
//! crate is no default member of the workspace and is never published. No CUDA is needed, to build
//! it or to run its tests.
//!
//! What it cannot see: what a pointer points to, and whether an integer is signed. Structures
//! behind pointers are compared field by field in `layouts`.
//!
//! ```text
//! above   nothing
//! here    rmm-sys-oracle: a comparison by the compiler
//! below   rmm-sys; cudarc
//! ```

mod codes;
mod functions;
mod layouts;
mod signature;
mod values;
