//! A run: every allocator in its own process, ours and the peers alternating.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::machine;
use super::run_args::RunArgs;
use crate::archive::Archive;
use crate::cargo::{WithCommand as _, describe, stdout_of};
use crate::doctor::gpus;
use crate::error::{Context as _, Result};
use crate::execute;
use crate::steps::seconds;

/// What each runner prints first.
const HEADER: &str = "workload,allocator,params,value,unit";

/// Runs everything, writes `rows.csv` and `machine.txt`, and prints the summary.
///
/// On the software device, which the peers cannot use, ours are measured alone: that shows that
/// the archive is whole, and nothing more.
///
/// # Errors
///
/// If there is no GPU, or an allocator failed; the rows of the others are written.
pub(super) fn run(archive: &Path, args: &RunArgs, on_software: bool) -> Result<()> {
    let archive = Archive::open(archive)?;
    if !on_software && gpus(&archive.program("rmm")?)?.is_empty() {
        return Err("no GPU here (`rmm doctor` says why): nothing was run".into());
    }
    let output = args.output.clone().unwrap_or_else(|| archive.folder().join("bench-gpu"));
    fs::create_dir_all(&output).context(output.display())?;
    let text = machine::describe(&archive)?;
    print!("{text}");
    fs::write(output.join("machine.txt"), text)?;

    let ours = Runner::ours(&archive)?;
    let peers = if on_software { None } else { Runner::peers(&archive, &output, args)? };
    let ops = peers.as_ref().and_then(|peers| peers.ops.clone());
    let mut failed = Vec::new();
    let theirs = peers.as_ref().map(|peers| peers.allocators(args)).transpose();
    let theirs = theirs.unwrap_or_else(|error| {
        // Ours are still worth measuring.
        eprintln!("FAILED peers: {error}");
        failed.push("peers".to_owned());
        None
    });
    let theirs = peers.as_ref().zip(theirs);
    let runs = runs((&ours, ours.allocators(args)?), theirs, args.passes);
    if runs.is_empty() {
        return Err(format!("there is no allocator called {}", args.allocator.join(" or ")).into());
    }
    let measured = run_all(&runs, &output, args);
    if let Some(ops) = ops {
        fs::remove_dir_all(&ops).context(ops.display())?;
    }
    failed.extend(measured?);
    if args.allocator.is_empty() && args.workload.is_empty() {
        failed.extend(round_trips(&archive, &output, args)?);
    }
    summarize(&archive, &output)?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("not all was measured: {} failed", failed.join(", ")).into())
    }
}

/// A program that times allocators.
struct Runner {
    /// What its rows are marked with.
    name: &'static str,
    program: PathBuf,
    /// The folder of the lists of calls, for its command line.
    ops: Option<PathBuf>,
}

impl Runner {
    fn ours(archive: &Archive) -> Result<Self> {
        Ok(Self { name: "ours", program: archive.program("protocol")?, ops: None })
    }

    /// The runner of the peers, if the archive has it; the lists that it replays are written first.
    fn peers(archive: &Archive, output: &Path, args: &RunArgs) -> Result<Option<Self>> {
        let Ok(program) = archive.program("peers") else {
            println!("the archive has no peers: there is nothing to compare with");
            return Ok(None);
        };
        let ops = output.join("ops");
        let mut command = Command::new(archive.program("protocol")?);
        command.arg("--write-ops").arg(&ops).arg("--traces").arg(archive.traces());
        command.args(args.quick.then_some("--quick"));
        stdout_of(&mut command)?;
        Ok(Some(Self { name: "peer", program, ops: Some(ops) }))
    }

    /// The names of its allocators that were asked for.
    fn allocators(&self, args: &RunArgs) -> Result<Vec<String>> {
        let names = stdout_of(Command::new(&self.program).arg("--list"))?;
        let wanted =
            |name: &&str| args.allocator.is_empty() || args.allocator.iter().any(|one| one == name);
        Ok(names.lines().filter(wanted).map(str::to_owned).collect())
    }

    fn command(&self, allocator: &str, args: &RunArgs) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--allocator", allocator]);
        if !args.workload.is_empty() {
            command.args(["--workload", &args.workload.join(",")]);
        }
        if let Some(ops) = &self.ops {
            command.arg("--ops").arg(ops);
        }
        command.args(args.quick.then_some("--quick"));
        command
    }
}

/// One allocator, once.
struct Run<'a> {
    runner: &'a Runner,
    allocator: String,
    pass: u32,
}

/// Every allocator in every pass, ours and the peers alternating.
fn runs<'a>(
    ours: (&'a Runner, Vec<String>),
    theirs: Option<(&'a Runner, Vec<String>)>,
    passes: u32,
) -> Vec<Run<'a>> {
    let both: Vec<_> = [Some(ours), theirs].into_iter().flatten().collect();
    let longest = both.iter().map(|(_, names)| names.len()).max().unwrap_or_default();
    let mut runs = Vec::new();
    for pass in 1..=passes {
        for place in 0..longest {
            for (runner, names) in &both {
                let allocator = names.get(place).cloned();
                runs.extend(allocator.map(|allocator| Run { runner, allocator, pass }));
            }
        }
    }
    runs
}

/// Runs them, and adds their rows to `rows.csv` as they come. Returns those that failed.
fn run_all(runs: &[Run<'_>], output: &Path, args: &RunArgs) -> Result<Vec<String>> {
    let path = output.join("rows.csv");
    let mut rows = File::create(&path).context(path.display())?;
    writeln!(rows, "runner,pass,{HEADER}")?;
    let mut failed = Vec::new();
    for (done, Run { runner, allocator, pass }) in runs.iter().enumerate() {
        let mut command = runner.command(allocator, args);
        println!("[{}/{}] pass {pass}: $ {}", done + 1, runs.len(), describe(&command));
        let finished =
            execute::run(&mut command, Duration::from_secs(args.limit)).with_command(&command)?;
        let mut count = 0;
        for line in measured(&finished.stdout) {
            writeln!(rows, "{},{pass},{line}", runner.name)?;
            count += 1;
        }
        println!("      {count} rows in {}", seconds(finished.took));
        let problem = match finished.status {
            Some(status) if status.success() => continue,
            Some(status) => status.to_string(),
            None => format!("killed after {} s", args.limit),
        };
        eprintln!("FAILED {} {allocator}: {problem}\n{}", runner.name, finished.stderr.trim());
        failed.push(format!("{} {allocator} in pass {pass}", runner.name));
    }
    println!("wrote {}", path.display());
    Ok(failed)
}

/// Times the containers beside raw calls, if the archive has the program for that, and writes
/// `round-trip.csv`. Returns its name if it failed.
fn round_trips(archive: &Archive, output: &Path, args: &RunArgs) -> Result<Option<String>> {
    const NAME: &str = "round-trip";
    let Ok(program) = archive.program(NAME) else { return Ok(None) };
    let mut command = Command::new(program);
    command.arg("--output").arg(output.join(NAME).with_extension("csv"));
    command.args(args.quick.then_some("--quick"));
    println!("$ {}", describe(&command));
    let finished =
        execute::run(&mut command, Duration::from_secs(args.limit)).with_command(&command)?;
    print!("{}", finished.stderr);
    let succeeded = finished.status.is_some_and(|status| status.success());
    Ok((!succeeded).then(|| NAME.to_owned()))
}

/// The rows among what a runner printed; a last one that is cut off is none.
fn measured(stdout: &str) -> impl Iterator<Item = &str> {
    let whole = stdout.rfind('\n').map_or("", |end| &stdout[..end]);
    whole
        .lines()
        .filter(|line| *line != HEADER && line.split(',').count() == HEADER.split(',').count())
}

fn summarize(archive: &Archive, output: &Path) -> Result<()> {
    let mut command = Command::new(archive.program("report")?);
    command.arg("summary").arg(output.join("rows.csv"));
    let status = command.stdin(Stdio::null()).status().with_command(&command)?;
    if status.success() { Ok(()) } else { Err(format!("no summary was made: {status}").into()) }
}

#[cfg(test)]
mod tests {
    //! What is taken from a runner's output. The whole run is tested with the command.

    use super::*;

    #[test]
    fn rows_are_taken_and_nothing_else() {
        let printed =
            format!("{HEADER}\npair,pool,size=256,29.1,ns/pair\nsome text\nholes,pool,H=0,3");
        assert_eq!(measured(&printed).collect::<Vec<_>>(), ["pair,pool,size=256,29.1,ns/pair"]);
        assert_eq!(measured("").count(), 0);
    }
}
