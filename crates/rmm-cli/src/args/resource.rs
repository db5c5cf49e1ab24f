//! What a log is replayed against.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use rmm_spec::{ResourceSpec, SpecError};

/// A memory resource that is made in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResourceKind {
    /// A pool over the driver's plain allocations
    Pool,
    /// A pool over virtual memory, which it extends by what is missing
    PoolVirtual,
    /// The same, made to hold little more than is in use
    PoolCompact,
    /// The driver's own stream-ordered pool, cuMemAllocAsync
    CudaAsync,
    /// The driver's plain allocations, cuMemAlloc, with no pool
    Cuda,
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pool => "pool",
            Self::PoolVirtual => "pool-virtual",
            Self::PoolCompact => "pool-compact",
            Self::CudaAsync => "cuda-async",
            Self::Cuda => "cuda",
        })
    }
}

/// A memory resource that can be replayed against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayResource {
    /// One of a few, by its name.
    Named(ResourceKind),
    /// A stack that a text describes.
    Described(ResourceSpec),
}

impl From<ResourceKind> for ReplayResource {
    fn from(kind: ResourceKind) -> Self {
        Self::Named(kind)
    }
}

impl FromStr for ReplayResource {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match ResourceKind::from_str(text.trim(), false) {
            Ok(kind) => Ok(Self::Named(kind)),
            Err(_) => text.parse().map(Self::Described),
        }
    }
}

impl fmt::Display for ReplayResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(kind) => kind.fmt(f),
            Self::Described(spec) => spec.fmt(f),
        }
    }
}

/// Resources, separated by commas.
///
/// ```
/// use rmm_cli::args::ResourceList;
///
/// let list: ResourceList = "pool,limiting(pool(cuda, initial=1GiB), limit=2GiB)".parse()?;
/// assert_eq!(list.0.len(), 2);
/// # Ok::<(), rmm_spec::SpecError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceList(pub Vec<ReplayResource>);

impl FromStr for ResourceList {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let resources = items(text).into_iter().map(str::parse);
        resources.collect::<Result<_, _>>().map(Self)
    }
}

/// The parts of a text between commas that are in no parentheses and no quotes.
fn items(text: &str) -> Vec<&str> {
    let (mut items, mut start, mut depth, mut is_quoted) = (Vec::new(), 0, 0_usize, false);
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                items.push(&text[start..offset]);
                start = offset + 1;
            }
            _ => {}
        }
    }
    items.push(&text[start..]);
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_parentheses_and_quotes_part_nothing() {
        assert_eq!(items("a,b"), ["a", "b"]);
        assert_eq!(items("a(b,c(d,e)),f"), ["a(b,c(d,e))", "f"]);
        assert_eq!(items("a(f=\"x),\"),b"), ["a(f=\"x),\")", "b"]);
        assert_eq!(items("a),b"), ["a)", "b"]);
        assert_eq!(items(""), [""]);
    }
}
