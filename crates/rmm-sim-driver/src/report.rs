//! What a process found, as a file of one line for each finding. `rmm check` reads it.
//!
//! ```text
//! calls 12            driver calls
//! violation TEXT      line breaks are written as \n, backslashes as \\
//! missing NAME        a kernel that was not found
//! leak TEXT
//! end
//! ```

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use rmm_sim::{Leak, Machine};

/// Writes the report of this process into a folder. A failure cannot be returned to anyone: a
/// report that is missing or has no end says it.
pub(crate) fn write(machine: &Machine, lost: Vec<Leak>, folder: &Path) {
    let path = folder.join(format!("{}.txt", std::process::id()));
    let _unreported = File::create(path).and_then(|mut file| write_to(machine, lost, &mut file));
}

fn write_to(machine: &Machine, lost: Vec<Leak>, file: &mut File) -> io::Result<()> {
    writeln!(file, "calls {}", machine.calls())?;
    for violation in machine.violations() {
        writeln!(file, "violation {}", escape(&violation.to_string()))?;
    }
    for name in machine.missing_kernels() {
        writeln!(file, "missing {}", escape(&name))?;
    }
    // Frees that are queued. This may run host functions of the program, which may be gone: what
    // was found so far is written.
    machine.run_all();
    for leak in lost.into_iter().chain(machine.leaks()) {
        writeln!(file, "leak {}", escape(&leak.what))?;
    }
    writeln!(file, "end")
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}
