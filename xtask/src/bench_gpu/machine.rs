//! The description of the machine that was measured.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::archive::Archive;
use crate::error::Result;

const NVIDIA_SMI: &str =
    "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit";

/// A text for `machine.txt`: the commit, the GPU, the processor, the peers, what the doctor says.
/// What cannot be found out is left out.
///
/// # Errors
///
/// If the doctor is not in the archive.
pub(super) fn describe(archive: &Archive) -> Result<String> {
    let rmm = archive.program("rmm")?;
    let mut text = vec![format!("commit: {}", archive.commit())];
    let now = output_of(Command::new("date").args(["-u", "+%Y-%m-%d"]));
    let kernel = output_of(Command::new("uname").arg("-rm"));
    let gpu = output_of(
        Command::new("nvidia-smi")
            .arg(format!("--query-gpu={NVIDIA_SMI}"))
            .arg("--format=csv,noheader"),
    );
    let mut line = |name: &str, value: Option<String>| {
        text.extend(value.map(|value| format!("{name}: {}", value.trim())));
    };
    line("date", now);
    line("gpu", gpu.and_then(|gpus| gpus.lines().next().map(str::to_owned)));
    line("processor", processor());
    line("kernel", kernel);
    line("peers", fs::read_to_string(archive.folder().join("lib/peers.txt")).ok());
    let doctor = output_of(Command::new(rmm).arg("doctor")).unwrap_or_default();
    Ok(text.join("\n") + "\n\nrmm doctor:\n" + &doctor)
}

/// What a program printed, if it could be run and succeeded.
fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn processor() -> Option<String> {
    let text = fs::read_to_string(Path::new("/proc/cpuinfo")).ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "))?.1;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Some(format!("{name}, {cores} cores"))
}
