//! Reads the rows of a run: prints all figures, or writes a page.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rmm_benches::report::{self, Figures, Page};
use rmm_benches::setup::status;

/// Read the rows of a run.
#[derive(Debug, Parser)]
#[command(name = "report", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print every figure of every allocator
    Summary {
        /// `rows.csv` of a run
        rows: PathBuf,
    },
    /// Write a page, with the rows beside it
    Page {
        /// The folder of a run: `rows.csv` and `machine.txt`
        results: PathBuf,
        /// The folder to write to: the page, and a folder of its name
        docs: PathBuf,
        /// The page's name without `.md`: date and GPU if left out
        #[arg(long)]
        name: Option<String>,
    },
}

fn main() -> ExitCode {
    let outcome = run(&Args::parse()).map(|text| {
        // A reader that has gone away has read enough.
        io::stdout().write_all(text.as_bytes()).ok();
    });
    status("report", outcome)
}

fn run(args: &Args) -> Result<String, Box<dyn Error>> {
    match &args.command {
        Command::Summary { rows } => Ok(report::all_figures(&read(rows)?)),
        Command::Page { results, docs, name } => {
            let page =
                Page { figures: &read(&results.join("rows.csv"))?, results, name: name.as_deref() };
            Ok(format!("wrote {}\n", report::write_page(&page, docs)?.display()))
        }
    }
}

fn read(rows: &Path) -> Result<Figures, Box<dyn Error>> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", rows.display());
    let file = File::open(rows).map_err(|error| named(&error))?;
    Ok(Figures::read(file).map_err(|error| named(&error))?)
}
