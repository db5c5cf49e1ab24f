//! The GPUs of the machine, from `rmm doctor`.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::cargo::{WithCommand as _, describe};
use crate::error::Result;

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Gpu {
    /// Its number with the driver.
    pub(crate) ordinal: u32,
    /// What its maker calls it.
    pub(crate) name: String,
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {} ({})", self.ordinal, self.name)
    }
}

/// The part of the doctor's report that matters here.
#[derive(Deserialize)]
struct Report {
    driver: Option<serde_json::Value>,
    devices: Vec<Gpu>,
}

/// The GPUs that the real driver sees; none if there is no driver.
///
/// # Errors
///
/// If the program cannot be run, or prints no report.
pub(crate) fn gpus(rmm: &Path) -> Result<Vec<Gpu>> {
    let mut command = Command::new(rmm);
    // The real driver and no other: simulated devices are not what is being looked for.
    command.args(["doctor", "--json"]).env("RMM_DRIVER", "cuda");
    println!("$ {}", describe(&command));
    let output = command.stdin(Stdio::null()).output().with_command(&command)?;
    // The doctor may exit with failure because there is no driver, which is an answer and no
    // failure to us.
    read(&String::from_utf8_lossy(&output.stdout)).map_err(|error| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        format!(
            "`{}` ({}) printed no report: {error}\n{}",
            describe(&command),
            output.status,
            stderr.trim()
        )
        .into()
    })
}

fn read(json: &str) -> serde_json::Result<Vec<Gpu>> {
    let report: Report = serde_json::from_str(json)?;
    Ok(if report.driver.is_some() { report.devices } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    //! Reading the doctor's report.

    use super::*;

    #[test]
    fn gpus_are_read_with_their_names() {
        let json = r#"{"driver":{"version":"13.0"},"other":1,"devices":[{"ordinal":0,"name":"A","memory":5},{"ordinal":3,"name":"B"}]}"#;
        let shown: Vec<String> = read(json).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["device 0 (A)", "device 3 (B)"]);
    }

    #[test]
    fn without_a_driver_there_is_no_gpu() {
        assert!(read(r#"{"driver":null,"devices":[]}"#).unwrap().is_empty());
        assert!(
            read(r#"{"driver":null,"devices":[{"ordinal":0,"name":"simulated"}]}"#)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn text_that_is_no_report_is_an_error() {
        assert!(read("").is_err());
        assert!(read(r#"{"driver":null}"#).is_err());
    }
}
