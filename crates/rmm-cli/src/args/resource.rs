//! Lists of resources on the command line.

use std::str::FromStr;

use rmm_report::resource::ReplayResource;
use rmm_spec::SpecError;

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
