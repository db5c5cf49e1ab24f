//! Resources on the command line: a name or a specification.

use std::fmt;
use std::str::FromStr;

use rmm_core::{AnyResource, Error};
use rmm_spec::{ResourceSpec, SpecError, stacks};

/// The stacks that have a name here. Their specifications are in `rmm-spec`'s list.
const NAMES: [&str; 5] = ["pool", "pool-virtual", "pool-compact", "cuda-async", "cuda"];

/// A memory resource to replay against: one of a few names, or a specification.
///
/// ```
/// use rmm_cli::args::ReplayResource;
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
