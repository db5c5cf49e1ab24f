//! Stacks of memory resources from a line of text, for a command line or an environment variable:
//! [`ResourceSpec`].
//!
//! It stands above the resources and adaptors that it makes, so that neither has to know the other.

#![forbid(unsafe_code)]

mod arguments;
mod build;
mod error;
mod first;
mod lexer;
mod plain;
mod plan;
#[doc(hidden)]
pub mod stacks;
mod syntax;
mod value;

use std::fmt;
use std::str::FromStr;

use rmm_core::{AnyResource, Error};

use plan::Plan;

pub use error::SpecError;
pub use first::first_resource_from_environment;
#[doc(hidden)]
pub use value::bytes_of_unit;

/// The environment variable that [`ResourceSpec::from_environment`] reads.
pub const RESOURCE_VARIABLE: &str = "RMM_RESOURCE";

/// A specification of a stack of resources, as a line of text.
///
/// A resource is a name, followed in parentheses by its upstream and its options:
/// `statistics(pool(cuda, initial=1GiB, max=8GiB))`. Sizes are whole numbers of bytes, or of `KiB`,
/// `MiB`, `GiB` or `TiB` (powers of 1,024), or of `kB`, `MB`, `GB` or `TB` (powers of 1,000); `yes`
/// and `no` turn options on and off; text with other characters than letters, digits and `_-./%` is
/// put in double quotes. In names `_` is `-`.
///
/// | without upstream | options |
/// |---|---|
/// | `backing`, `cuda`, `managed`, `pinned`, `registered`, `system` | |
/// | `cuda-async-managed`, `cuda-async-pinned`, `cuda-async-view` | |
/// | `cuda-async` | `initial` |
/// | `sam-headroom` | `headroom` |
/// | `virtual` | `export`: `posix_fd`, `fabric`, or `fabric_or_posix_fd` for the first that the device can |
/// | `host-virtual` | `numa-node`: a number, or `device` for the node of the device (the default); `export` as above |
///
/// `pool` alone, or with options only, is the [default pool](rmm_adaptors::default_pool): over
/// `backing`, which is `virtual` where the device has virtual memory, and `cuda` elsewhere.
///
/// | with an upstream | options |
/// |---|---|
/// | `pool` | `initial`; `max`, also `90%` or `50%host`; `soft-max`; `preset` |
/// | `arena` | `size`, reserved on creation (default: half of the device's free memory) |
/// | `fixed-size` | `block`, `blocks`, `max` |
/// | `binning` | `bins`: powers of two, `18..22` |
/// | `limiting` | `limit`, required |
/// | `aligned` | `alignment`, required; `threshold` |
/// | `logging` | `file` (default: the variable `RMM_LOG_FILE`); `per-device`, `auto-flush`; `columns`: `all`, or of `"tag,site,device"` |
/// | `recorder` | `events`: how many are kept; `sites`; `oom-report`: a directory |
/// | `tracking` | `stacks` |
/// | `failure-callback` | `retries`, required: how often a failed request is repeated |
/// | `statistics`, `tagged`, `prefetch`, `thread-safe` | |
/// | `fallback` | none; over two resources, the second for requests that the first cannot serve |
///
/// The `max` of a pool may be a share too: `90%` of the device's free memory, or `50%host` of the
/// host's. Its `preset` is `throughput`, `low-latency`, `compact` or `deterministic`.
///
/// An error shows the position of what is wrong:
///
/// ```
/// use rmm_core::{Introspect, SynchronousResource};
/// use rmm_spec::ResourceSpec;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let spec: ResourceSpec = "statistics(pool(cuda, initial=1GiB, max=8GiB))".parse()?;
/// let resource = spec.build()?;
/// assert!(resource.stack().map(SynchronousResource::name).eq(["statistics", "pool", "cuda"]));
///
/// let spec: ResourceSpec = "pool(max=8GiB)".parse()?;
/// let resource = spec.build()?;
/// assert!(resource.stack().map(SynchronousResource::name).eq(["pool", "virtual"]));
///
/// let error = "statistics(pool(cuda, initial=1G))".parse::<ResourceSpec>().unwrap_err();
/// assert_eq!(error.to_string(), "\
/// expected a size such as 24GiB, 512MB or a number of bytes
///   statistics(pool(cuda, initial=1G))
///                                 ^");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ResourceSpec {
    text: String,
    plan: Plan,
}

impl ResourceSpec {
    /// Reads the environment variable [`RMM_RESOURCE`](RESOURCE_VARIABLE); `None` if it is not set
    /// or empty.
    ///
    /// # Errors
    /// If its text is not a valid specification.
    pub fn from_environment() -> Result<Option<Self>, SpecError> {
        let text = std::env::var_os(RESOURCE_VARIABLE).unwrap_or_default();
        if text.is_empty() { Ok(None) } else { text.to_string_lossy().parse().map(Some) }
    }

    /// Creates the resources on the current device, from the bottom up. Each call creates new ones.
    ///
    /// If the environment variable `RMM_OOM_REPORT` names a directory, a
    /// [recorder](rmm_adaptors::RecorderResourceAdaptor) is put over them, which writes a report
    /// there when a request fails for lack of memory.
    ///
    /// # Errors
    /// The error of the resource that cannot be created.
    pub fn build(&self) -> Result<AnyResource, Error> {
        self.plan.build().map(rmm_adaptors::with_oom_report)
    }
}

impl FromStr for ResourceSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let plan = syntax::parse(text).and_then(Plan::new);
        let plan = plan.map_err(|fault| fault.in_text(text))?;
        Ok(Self { text: text.trim().to_owned(), plan })
    }
}

impl fmt::Display for ResourceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ResourceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceSpec({})", self.text)
    }
}
