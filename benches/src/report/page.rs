//! A page of the documentation from a run's results.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::figures::Figures;
use super::{round_trips, table};

/// Marks a generated page.
const MARK: &str = "<!-- made by the program `report` of rmm-benches -->";

/// What a page is made from.
#[derive(Debug)]
pub struct Page<'a> {
    /// The figures.
    pub figures: &'a Figures,
    /// The folder of the results: `rows.csv` and `machine.txt`, and `round-trip.csv` if trips were
    /// timed.
    pub results: &'a Path,
    /// The page's name without `.md`; date and GPU if there is none.
    pub name: Option<&'a str>,
}

/// Writes the page and, in a folder of its name, the results themselves. Returns where the page is.
///
/// # Errors
/// If the results cannot be read, the page is there already and was written by hand, or a file
/// cannot be written.
pub fn write(page: &Page<'_>, docs: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let machine_file = page.results.join("machine.txt");
    let machine = fs::read_to_string(&machine_file)
        .map_err(|error| format!("{}: {error}", machine_file.display()))?;
    let machine = Machine { text: &machine };
    let name = page.name.map_or_else(|| machine.name(), str::to_owned);
    let (path, folder) = (docs.join(format!("{name}.md")), docs.join(&name));
    if fs::read_to_string(&path).is_ok_and(|text| !text.starts_with(MARK)) {
        return Err(format!("{} was written by hand: choose another name", path.display()).into());
    }
    fs::create_dir_all(&folder)?;
    for file in ["rows.csv", "machine.txt"] {
        fs::copy(page.results.join(file), folder.join(file))?;
    }
    if page.results.join(round_trips::FILE).exists() {
        fs::copy(page.results.join(round_trips::FILE), folder.join(round_trips::FILE))?;
    }
    let mut text = head(&machine);
    text += &round_trips::markdown(page.results)?;
    write!(text, "\n## All figures\n\n{}\n", table::markdown(page.figures))?;
    write!(text, "\nRaw rows: [{name}/rows.csv]({name}/rows.csv).\n")?;
    fs::write(&path, text)?;
    Ok(path)
}

fn head(machine: &Machine<'_>) -> String {
    let line = |name: &str| machine.line(name).unwrap_or("unknown");
    format!(
        "{MARK}\n# Allocators on one {}, {}\n\n\
         - GPU: {} (name, driver, memory, clocks, power limit)\n\
         - processor: {}\n\
         - commit: `{}`, `--release`\n\
         - peers: {}\n{}\n\
         All were timed on the same work, each allocator in a process of its own, ours and those of others in turn. A figure is \
         the median of five repetitions after one that is not counted, and of these the median over the passes. Times are host times of the \
         calling thread; the device works in round trips and in `busy` alone. [What each workload does](../../benches/README.md); [how the peers are \
         built](../../benches/peers/README.md).\n",
        machine.gpu(),
        line("date"),
        line("gpu"),
        line("processor"),
        line("commit"),
        line("peers"),
        machine.line("passes").map(|passes| format!("- passes: {passes}\n")).unwrap_or_default(),
    )
}

/// The lines `name: value` of `machine.txt`.
struct Machine<'a> {
    text: &'a str,
}

impl Machine<'_> {
    fn line(&self, name: &str) -> Option<&str> {
        let mut lines = self.text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn gpu(&self) -> &str {
        self.line("gpu").and_then(|gpu| gpu.split(',').next()).unwrap_or("unknown GPU")
    }

    /// `2026-11-21-h200`
    fn name(&self) -> String {
        let gpu = self.gpu().trim_start_matches("NVIDIA ").to_lowercase();
        let words: Vec<&str> = gpu
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        format!("{}-{}", self.line("date").unwrap_or("undated"), words.join("-"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    const MACHINE: &str = "commit: 1234abc\ndate: 2026-11-21\ngpu: NVIDIA H100 80GB HBM3, 580.1\npasses: two a day\n\nrmm doctor:\n";

    #[test]
    fn a_page_has_all_figures_and_the_rows_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let (results, docs) = (dir.path().join("results"), dir.path().join("docs"));
        fs::create_dir_all(&results).unwrap();
        fs::write(results.join("machine.txt"), MACHINE).unwrap();
        fs::write(results.join("rows.csv"), "rows").unwrap();
        let figures = fixture::figures();
        let page = Page { figures: &figures, results: &results, name: None };

        let path = write(&page, &docs).unwrap();
        assert_eq!(path, docs.join("2026-11-21-h100-80gb-hbm3.md"));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("# Allocators on one NVIDIA H100 80GB HBM3, 2026-11-21"), "{text}");
        assert!(text.contains("commit: `1234abc`"), "{text}");
        assert!(text.contains("\n- passes: two a day\n\nAll were timed"), "{text}");
        assert!(text.contains("| adaptor limiting "), "{text}");
        let threads = text.lines().find(|line| line.starts_with("| threads T=16 ")).unwrap();
        assert!(threads.contains("| Mops/s ") && threads.contains("| more "), "{threads}");
        let folder = docs.join("2026-11-21-h100-80gb-hbm3");
        assert_eq!(fs::read_to_string(folder.join("rows.csv")).unwrap(), "rows");
        write(&page, &docs).expect("a page that was made can be made again");
    }

    #[test]
    fn a_page_that_was_written_by_hand_stays() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("machine.txt"), MACHINE).unwrap();
        fs::write(dir.path().join("rows.csv"), "").unwrap();
        let old = dir.path().join("old.md");
        fs::write(&old, "# By hand\n").unwrap();
        let figures = fixture::figures();
        let page = Page { figures: &figures, results: dir.path(), name: Some("old") };
        assert!(write(&page, dir.path()).unwrap_err().to_string().contains("written by hand"));
        assert_eq!(fs::read_to_string(&old).unwrap(), "# By hand\n");
    }
}
