//! Recorded programs, from a pool that starts empty and grows.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use rmm_cli::trace;

use super::{Bench, Extent, Outcome, Waits, nanos_per, ratio};
use crate::allocators::Start;
use crate::player::Player;
use crate::program::Program;

/// A recorded program.
#[derive(Debug)]
pub struct Recorded {
    /// The trace's name.
    pub name: String,
    /// Its calls.
    pub program: Program,
}

impl Recorded {
    /// Reads every `*.csv.gz` of a folder, in the order of their names.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file is no trace.
    pub fn read_all(folder: &Path, extent: Extent) -> Outcome<Vec<Self>> {
        let in_folder = |error: io::Error| format!("{}: {error}", folder.display());
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(in_folder)? {
            let name = entry.map_err(in_folder)?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(".csv.gz").map(str::to_owned));
        }
        names.sort();
        names.into_iter().map(|name| Self::read(folder, name, extent)).collect()
    }

    fn read(folder: &Path, name: String, extent: Extent) -> Outcome<Self> {
        let mut trace = trace::read(&folder.join(format!("{name}.csv.gz")))?;
        trace.events.truncate(extent.scaled(trace.events.len()));
        Ok(Self { program: Program::recorded(&trace)?, name })
    }

    /// Writes the calls as `NAME.csv` into a folder, for programs that read no compressed logs:
    /// `action,slot,size,stream`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_ops(&self, folder: &Path) -> Outcome {
        fs::create_dir_all(folder)?;
        let mut file =
            io::BufWriter::new(fs::File::create(folder.join(format!("{}.csv", self.name)))?);
        writeln!(file, "action,slot,size,stream")?;
        for call in self.program.list() {
            writeln!(file, "{call}")?;
        }
        Ok(file.flush()?)
    }
}

/// The first run, which grows the pool, and those after it.
pub(super) fn replay(bench: &mut Bench<'_>) -> Outcome {
    for Recorded { name, program } in bench.recorded {
        let (allocator, mut player) = (bench.make(Start::Empty)?, Player::new(program)?);
        let mut cold = None;
        let warm = bench.median_of(|| {
            let clock = Instant::now();
            player.run(&allocator.resource)?;
            let value = nanos_per(clock.elapsed(), program.calls());
            if cold.is_none() {
                cold = Some((value, allocator.peak_reserved()?));
            }
            Ok(value)
        })?;
        if let Some((cold, reserved)) = cold {
            bench.row("replay_cold", name, cold, "ns/op")?;
            if let Some(bytes) = reserved {
                let over_peak = ratio(bytes, program.peak_live());
                bench.row("replay_reserved_over_peak", name, over_peak, "x")?;
            }
        }
        bench.row("replay", name, warm, "ns/op")?;
        bench.waits_row(name, &allocator, Waits::default())?;
    }
    Ok(())
}
