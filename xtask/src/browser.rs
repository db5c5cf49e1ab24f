//! The pages of `rmm report` and `rmm replay`, tested in a browser without a network.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::{self, cargo};
use crate::error::{Context as _, Result};
use crate::python;

/// What the tests need: the bindings alone, without the browsers that Playwright offers.
const REQUIREMENTS: [&str; 2] = ["playwright>=1.50,<2", "pytest>=8"];

/// The names under which browsers of that family are installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Why the tests cannot run here, if they cannot. Installs Debian's package where that is possible.
pub(crate) fn missing() -> Option<String> {
    if let Some(why) = python::missing() {
        return Some(why);
    }
    if browser().is_none() {
        let mut install = Command::new("apt-get");
        install.args(["install", "--yes", "--no-install-recommends", "chromium"]);
        // Of what it says only the result matters: without the right to install it fails.
        install.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok();
    }
    browser().is_none().then(|| "there is no chromium, and it cannot be installed".to_owned())
}

/// Runs the tests with the program as it is now.
///
/// # Errors
///
/// If one fails, or the program cannot be built.
pub(crate) fn run(root: &Path) -> Result<()> {
    command::run(cargo().args(["build", "-p", "rmm-cli", "--bin", "rmm"]).current_dir(root))?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let environment = root.join("target/python/browser");
    let python = python::environment(Path::new("python3"), &environment)?;
    command::run(python::pip(&python).args(REQUIREMENTS))?;
    let mut test = Command::new(&python);
    test.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    test.arg(root.join("crates/rmm-report/browser"));
    test.env("RMM_PROGRAM", target.join("debug/rmm"));
    test.env("CHROMIUM", browser().context("a browser")?);
    test.env("PYTHONDONTWRITEBYTECODE", "1");
    command::run(test.current_dir(root))
}

/// Where the browser is: `$CHROMIUM`, or the first on the path.
fn browser() -> Option<PathBuf> {
    let named = env::var_os("CHROMIUM").map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let found =
        BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    named.into_iter().chain(found).find(|program| program.is_file())
}
