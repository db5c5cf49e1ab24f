//! Stacks of memory resources from a line of text, for a command line or an environment variable:
//! [`ResourceSpec`].
//!
//! It stands above the resources and adaptors that it makes, so that neither has to know the other.

#![forbid(unsafe_code)]

mod arguments;
mod build;
mod error;
mod lexer;
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
#[doc(hidden)]
pub use value::bytes_of_unit;

/// The environment variable that [`ResourceSpec::from_environment`] reads.
pub const RESOURCE_VARIABLE: &str = "RMM_RESOURCE";

/// A stack of resources, described by a line of text and not made yet.
///
/// A resource is a name, and in parentheses what it is over and its options:
/// `statistics(pool(cuda, initial=1GiB, max=8GiB))`. Sizes are whole numbers of bytes, or of `KiB`,
/// `MiB`, `GiB` or `TiB` (powers of 1,024), or of `kB`, `MB`, `GB` or `TB` (powers of 1,000); `yes`
/// and `no` turn options on and off; text with other characters than letters, digits and `_-./` is
/// put in double quotes. In names `_` is `-`.
///
/// | over nothing | options |
/// |---|---|
/// | `cuda`, `cuda-async-managed`, `cuda-async-pinned`, `cuda-async-view`, `managed`, `pinned`, `system`, `virtual` | |
/// | `cuda-async` | `initial` |
/// | `sam-headroom` | `headroom` |
///
/// | over another | options |
/// |---|---|
/// | `pool` | `initial`, `max`, `soft-max`; `preset`: `throughput`, `compact` or `deterministic` |
/// | `arena` | `size`, all of which it takes when it is made: without it half of the device's free memory |
/// | `fixed-size` | `block`, `blocks`, `max` |
/// | `binning` | `bins`: powers of two, `18..22` |
/// | `limiting` | `limit`, which it needs |
/// | `aligned` | `alignment`, which it needs; `threshold` |
/// | `logging` | `file`, without which `RMM_LOG_FILE` names it; `per-device`, `auto-flush` |
/// | `tracking` | `stacks` |
/// | `failure-callback` | `retries`, which it needs: how often a request that failed is made again |
/// | `statistics`, `tagged`, `prefetch`, `thread-safe` | |
/// | `fallback` | over two, the second where the first has no memory |
///
/// An error shows the position of what is wrong:
///
/// ```
/// use rmm_core::{Introspect, SyncResource};
/// use rmm_spec::ResourceSpec;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let spec: ResourceSpec = "statistics(pool(cuda, initial=1GiB, max=8GiB))".parse()?;
/// let resource = spec.build()?;
/// assert!(resource.stack().map(SyncResource::name).eq(["statistics", "pool", "cuda"]));
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
    /// What the environment variable [`RMM_RESOURCE`](RESOURCE_VARIABLE) describes; `None` if it is
    /// not set, or empty.
    ///
    /// # Errors
    /// If its text describes no stack of resources.
    pub fn from_environment() -> Result<Option<Self>, SpecError> {
        let text = std::env::var_os(RESOURCE_VARIABLE).unwrap_or_default();
        if text.is_empty() { Ok(None) } else { text.to_string_lossy().parse().map(Some) }
    }

    /// Makes the resources, from the bottom up, for the device that is current now. Each call makes
    /// new ones.
    ///
    /// # Errors
    /// The error of the resource that cannot be made.
    pub fn build(&self) -> Result<AnyResource, Error> {
        self.plan.build()
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
