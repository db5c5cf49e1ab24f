//! The resources that a trace is replayed against: a name or a specification.

use std::fmt;
use std::str::FromStr;

use rmm_core::{AnyResource, Error};
use rmm_spec::{ResourceSpec, SpecError, stacks};

/// The stacks that have a name here. Their specifications are in `rmm-spec`'s list.
const NAMES: [&str; 6] =
    ["pool", "pool-cuda", "pool-virtual", "pool-compact", "cuda-async", "cuda"];

/// A memory resource to replay against: one of a few names, or a specification.
///
/// ```
/// use rmm_report::resource::ReplayResource;
///
/// let named: ReplayResource = "pool-compact".parse()?;
/// let described: ReplayResource = "statistics(pool(cuda, max=8GiB))".parse()?;
/// assert_eq!(named.to_string(), "pool-compact");
/// assert_eq!(described.to_string(), "statistics(pool(cuda, max=8GiB))");
/// # Ok::<(), rmm_spec::SpecError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayResource {
    name: String,
    spec: ResourceSpec,
}

impl ReplayResource {
    /// The names that stand for a whole stack.
    pub fn names() -> &'static [&'static str] {
        &NAMES
    }

    /// Creates the resource on the current device.
    ///
    /// # Errors
    /// The error of the resource that cannot be created.
    pub fn build(&self) -> Result<AnyResource, Error> {
        self.spec.build()
    }
}

impl FromStr for ReplayResource {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        let stack = NAMES.into_iter().find(|name| *name == text).and_then(stacks::named);
        let spec = match stack {
            Some(stack) => stack.spec_with(&[]).parse()?,
            None => text.parse()?,
        };
        Ok(Self { name: text.to_owned(), spec })
    }
}

impl fmt::Display for ReplayResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
