//! The conformance suite, one test for each check, over the cells that the environment chooses: by
//! default every stream and resource on the software device, with `RMM_DRIVER=cuda` on a GPU.

#[path = "gpu/devices.rs"]
mod devices;
#[path = "gpu/driver.rs"]
mod driver;
#[path = "gpu/driver_pools.rs"]
mod driver_pools;
#[path = "gpu/elastic.rs"]
mod elastic;
#[path = "gpu/exit.rs"]
mod exit;
#[cfg(unix)]
#[path = "gpu/export.rs"]
mod export;
#[path = "gpu/graph_pools.rs"]
mod graph_pools;
#[cfg(target_os = "linux")]
#[path = "gpu/memory_export.rs"]
mod memory_export;
#[path = "gpu/merged_lists.rs"]
mod merged_lists;
#[path = "gpu/merging.rs"]
mod merging;
#[path = "../../rmm-adaptors/tests/known_bugs/merging_lists.rs"]
mod merging_lists;
#[path = "gpu/pair.rs"]
mod pair;
#[path = "gpu/peers.rs"]
mod peers;
#[path = "gpu/run.rs"]
mod run;
#[path = "gpu/siblings.rs"]
mod siblings;
#[path = "gpu/small.rs"]
mod small;
#[path = "gpu/spacious.rs"]
mod spacious;
#[path = "gpu/stress.rs"]
mod stress;
#[path = "gpu/timing.rs"]
mod timing;
#[path = "gpu/witness.rs"]
mod witness;
