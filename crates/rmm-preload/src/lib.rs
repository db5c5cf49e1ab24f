//! A memory pool under unchanged CUDA programs.
//!
//! ```sh
//! LD_PRELOAD=/usr/lib/librmm_preload.so RMM_RESOURCE='pool(cuda)' ./program
//! ```
//!
//! The library exports functions of the driver under their own names, so that the program finds
//! them before the driver's:
//!
//! | function | what it does |
//! |---|---|
//! | `cuMemAllocAsync`, `cuMemAlloc_v2` | allocates from the resource of the current device |
//! | `cuMemFreeAsync` | frees in the order of the stream |
//! | `cuMemFree_v2` | waits for the context, as the driver's does, and frees |
//! | `cuStreamCreate`, `cuStreamCreateWithPriority` | passed on, and the stream is known from here on |
//! | `cuStreamDestroy_v2` | passed on, and the stream's identity ends |
//! | `cuStreamBeginCapture_v2`, `cuStreamBeginCaptureToGraph` | passed on; then the driver allocates |
//! | `cuStreamEndCapture` | passed on; then the resource allocates again |
//! | `cuDevicePrimaryCtxReset_v2` | passed on; the device gets a new resource |
//!
//! Those that end in `_ptsz` (per-thread default stream) are there too. The resource is what the
//! environment variable `RMM_RESOURCE` says, in the language of
//! [`rmm-spec`](https://docs.rs/rmm-spec), or `pool(cuda)`. An address that another function
//! allocated is passed on, and so is everything that the resource cannot serve: requests in a
//! context that is not the primary one of its device, and any error but out-of-memory. With
//! `RMM_PRELOAD_REPORT=1` the library prints at exit what it served and what it passed on.
//!
//! # How a program gets it
//!
//! - A program that is **linked** to `libcuda.so.1` (candle and mistral.rs are): by `LD_PRELOAD`.
//! - A program that **opens** `libcuda.so` (cudarc with `dynamic-loading`): a folder in
//!   `LD_LIBRARY_PATH` in which `libcuda.so` is this library. What it does not have, `dlsym` finds
//!   in the driver's library, which it needs.
//!
//! # What it is not
//!
//! - For programs of the **CUDA runtime** (PyTorch, `CuPy`, everything linked to `libcudart`): they
//!   ask the driver for its functions by `cuGetProcAddress`, and never see the ones here.
//! - For programs that open `libcuda.so.1` by that name, as NVIDIA's `cuda-core` does.
//! - For memory that crosses between the two: a library that has the driver's own functions cannot
//!   free what the program allocated here. The driver refuses the address, and nothing else is
//!   lost: no block begins where a chunk of the pool does, unless there is room for that alone.
//! - `cuMemGetInfo_v2` counts all that the pool holds as used, and `cuMemGetAddressRange_v2`
//!   returns the pool's own block.
//! - **A program with an order bug**, which uses memory after it has freed it, shows that sooner on
//!   a pool, since a pool reuses a block at once.

mod allocations;
mod devices;
mod exports;
mod next;
mod report;
mod streams;
