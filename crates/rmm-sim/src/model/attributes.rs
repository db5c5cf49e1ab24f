//! Attributes of devices as text, for programs that set them by an environment variable.
#![forbid(unsafe_code)]

use std::fmt;

use rmm_sys::CuDeviceAttribute;

/// A pair of text that names no attribute of a device, or no value. See
/// [`MachineBuilder::attributes_from`](crate::MachineBuilder::attributes_from).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttributeError {
    pair: String,
}

impl fmt::Display for AttributeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no attribute of a device: write pairs such as PAGEABLE_MEMORY_ACCESS=1",
            self.pair
        )
    }
}

impl std::error::Error for AttributeError {}

/// The attributes that a text sets: pairs, separated by blanks or commas.
pub(crate) fn parse(text: &str) -> Result<Vec<(CuDeviceAttribute, i32)>, AttributeError> {
    let pairs = text.split([' ', ',', '\t', '\n']).filter(|pair| !pair.is_empty());
    let parse =
        |pair: &str| parse_pair(pair).ok_or_else(|| AttributeError { pair: pair.to_owned() });
    pairs.map(parse).collect()
}

/// What CUDA's names of attributes begin with.
const PREFIX: &str = "CU_DEVICE_ATTRIBUTE_";

fn parse_pair(pair: &str) -> Option<(CuDeviceAttribute, i32)> {
    let (name, value) = pair.split_once('=')?;
    let short = name.strip_prefix(PREFIX).unwrap_or(name);
    let known = CuDeviceAttribute::KNOWN.iter();
    let found = known.filter(|(_, cuda)| cuda.strip_prefix(PREFIX) == Some(short));
    let by_name = found.map(|(attribute, _)| *attribute).next();
    let attribute = by_name.or_else(|| name.parse().ok().map(CuDeviceAttribute))?;
    Some((attribute, value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_attributes() {
        let pageable = CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
        let text = " PAGEABLE_MEMORY_ACCESS=1,CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID=-1\n999=7";
        let expected =
            [(pageable, 1), (CuDeviceAttribute::HOST_NUMA_ID, -1), (CuDeviceAttribute(999), 7)];
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn what_is_no_attribute_is_named() {
        for wrong in ["PAGEABLE=1", "PAGEABLE_MEMORY_ACCESS", "88=yes", "=1", "88="] {
            let error = parse(&format!("88=1 {wrong}")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{wrong}` is no attribute")), "{error}");
        }
    }
}
