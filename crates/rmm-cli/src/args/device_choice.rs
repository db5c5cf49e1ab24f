//! Devices on the command line.

use std::str::FromStr;

/// Where to replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU if there is one, otherwise the software device.
    Auto,
    /// The software device.
    Software,
    /// The GPU with this number.
    Gpu(u32),
}

impl FromStr for DeviceChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "sim" => Ok(Self::Software),
            _ => {
                text.parse().map(Self::Gpu).map_err(|_| "expected auto, sim or the number of a GPU")
            }
        }
    }
}
