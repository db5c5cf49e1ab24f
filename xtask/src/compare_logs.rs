//! `cargo xtask compare-logs`: the log of a program as RMM's logging adaptor writes it on a GPU, and as ours does.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::archive::Archive;
use crate::cargo::{WithCommand as _, describe};
use crate::error::{Context as _, Result};
use crate::test_gpu::gpus;

/// Options of `cargo xtask compare-logs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder that `bench-gpu --save` made, with the allocators of others
    #[arg(long, value_name = "DIR")]
    archive: PathBuf,
    /// Where both logs go: `compare-logs` in the archive if left out
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Writes `rmm.csv`, `ours.csv` and `written-by.txt`, compares the logs, and replays RMM's.
///
/// # Errors
///
/// If there is no GPU, a log is not written, they differ, or RMM's does not replay.
pub(crate) fn run(args: &Args) -> Result<()> {
    let archive = Archive::open(&args.archive)?;
    let [rmm, ours, peer] = ["rmm", "call-log", "peer-call-log"].map(|name| archive.program(name));
    let (rmm, ours, peer) = (rmm?, ours?, peer?);
    let gpus = gpus(&rmm)?;
    let gpu = gpus.first().ok_or("no GPU here (`rmm doctor` tells why): nothing was written")?;
    let output = args.output.clone().unwrap_or_else(|| archive.folder().join("compare-logs"));
    fs::create_dir_all(&output).context(output.display())?;
    let [rmm_log, our_log] = ["rmm.csv", "ours.csv"].map(|name| output.join(name));

    succeed(Command::new(peer).arg(&rmm_log))?;
    let peers = archive.folder().join("lib/peers.txt");
    let versions = fs::read_to_string(&peers).context(peers.display())?;
    fs::write(output.join("written-by.txt"), format!("{}\n{gpu}\n", versions.trim()))?;
    succeed(Command::new(&ours).arg("write").arg(&our_log).args(["--device", "0"]))?;
    succeed(Command::new(&ours).arg("compare").arg(&rmm_log).arg(&our_log))?;
    succeed(Command::new(&rmm).arg("replay").arg(&rmm_log).args(["--device", "0"]))
}

fn succeed(command: &mut Command) -> Result<()> {
    println!("$ {}", describe(command));
    let status = command.stdin(Stdio::null()).status().with_command(command)?;
    if status.success() { Ok(()) } else { Err(format!("it failed: {status}").into()) }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    //! The whole command, with shell scripts in place of the real programs.

    use super::*;
    use crate::archive::{self, Contents};
    use crate::scripts::{ONE_GPU, Scripts};

    /// Answers as the doctor where it is asked; else writes down that it was called.
    fn rmm(doctor: &str) -> String {
        format!("[ \"$1\" = replay ] && {{ cp \"$2\" \"$2.replayed\"; exit; }}; {doctor}")
    }

    const PEER: &str = "echo log > \"$1\"";
    const OURS: &str = r#"case $1 in write) echo log > "$2";; compare) cmp "$2" "$3";; esac"#;

    fn run_with(doctor: &str, ours: &str, expected: &[&str]) -> Result<()> {
        let scripts = Scripts::new();
        let programs = [("rmm", rmm(doctor).as_str()), ("peer-call-log", PEER), ("call-log", ours)]
            .map(|(name, body)| scripts.write(name, body));
        let peers = scripts.folder().join("peers.txt");
        fs::write(&peers, "librmm 1.2.3\n").unwrap();
        let contents =
            Contents { programs: programs.into(), libraries: vec![peers], ..Contents::default() };
        let archive = scripts.folder().join("archive");
        archive::write(&archive, &contents).unwrap();
        let output = scripts.folder().join("logs");
        let result = run(&Args { archive, output: Some(output.clone()) });
        let mut written: Vec<_> = fs::read_dir(&output).map_or_else(
            |_| Vec::new(),
            |entries| {
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
            },
        );
        written.sort();
        assert_eq!(written, expected);
        if !expected.is_empty() {
            let text = fs::read_to_string(output.join("written-by.txt")).unwrap();
            assert!(text.starts_with("librmm 1.2.3\n"), "{text}");
            assert!(text.contains("Test GPU"), "{text}");
        }
        result
    }

    #[test]
    fn both_logs_are_written_compared_and_rmm_s_is_replayed() {
        let all = ["ours.csv", "rmm.csv", "rmm.csv.replayed", "written-by.txt"];
        run_with(ONE_GPU, OURS, &all).unwrap();
    }

    #[test]
    fn logs_that_differ_are_kept() {
        let other = OURS.replace("echo log", "echo other");
        let kept = ["ours.csv", "rmm.csv", "written-by.txt"];
        assert!(run_with(ONE_GPU, &other, &kept).is_err());
    }

    #[test]
    fn without_a_gpu_nothing_is_written() {
        let error = run_with(r#"echo '{"driver":null,"devices":[]}'"#, OURS, &[]).unwrap_err();
        assert!(error.to_string().starts_with("no GPU here"), "{error}");
    }
}
