//! The conformance suite, one test for each check, over the cells that the environment chooses: by default every stream and
//! resource on the software device, with `RMM_DRIVER=cuda` on a GPU.

#[path = "gpu/exit.rs"]
mod exit;
#[cfg(unix)]
#[path = "gpu/export.rs"]
mod export;
#[path = "gpu/run.rs"]
mod run;
#[path = "gpu/small.rs"]
mod small;
#[path = "gpu/spacious.rs"]
mod spacious;
#[path = "gpu/timing.rs"]
mod timing;
