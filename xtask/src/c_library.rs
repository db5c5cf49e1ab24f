//! `cargo xtask c-library`: the library for C and C++, installed as packagers expect it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{self, cargo, workspace_root};
use crate::error::{Context as _, Result};
use crate::licences;
use crate::metadata::{self, Workspace as _};

const PACKAGE: &str = "rmm-capi";

/// Options of `cargo xtask c-library`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to install: `DIR/lib` and `DIR/include`
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// Install the library of a debug build, which checks more
    #[arg(long)]
    debug: bool,
}

/// Builds and installs.
///
/// # Errors
///
/// If the library does not build, or a file cannot be written.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace_root()?;
    let metadata = metadata::read()?;
    let package = metadata.member(PACKAGE).ok_or("there is no package `rmm-capi`")?;
    let version = package.version.to_string();

    let mut build = cargo();
    build.args(["build", "-p", PACKAGE]);
    if !args.debug {
        build.args(["--profile", "dist"]);
    }
    command::run(&mut build)?;
    let profile = if args.debug { "debug" } else { "dist" };
    let folder = metadata.target_directory.as_std_path().join(profile);
    install(&root.join("crates").join(PACKAGE), &folder, &args.prefix, &version)?;
    install_licences(&root, &args.prefix)?;
    println!("installed version {version} in {}", args.prefix.display());
    Ok(())
}

/// Copies the files. The shared library has the name of the interface's version; the soname and the
/// name for the linker are links to it.
fn install(package: &Path, built: &Path, prefix: &Path, version: &str) -> Result<()> {
    let libraries = prefix.join("lib");
    let (headers, pkg_config) = (prefix.join("include"), libraries.join("pkgconfig"));
    let cmake = libraries.join("cmake/rmm_rs");
    for folder in [&headers, &pkg_config, &cmake] {
        fs::create_dir_all(folder).context(folder.display())?;
    }
    let copy = |from: &Path, to: &Path| fs::copy(from, to).context(from.display()).map(drop);
    copy(&built.join("librmm_rs.a"), &libraries.join("librmm_rs.a"))?;
    let header = package.join("include/rmm_rs.h");
    let header = fs::read_to_string(&header).context(header.display())?;
    let shared = format!("librmm_rs.so.{}", abi_of(&header).context("RMM_RS_ABI_VERSION")?);
    copy(&built.join("librmm_rs.so"), &libraries.join(&shared))?;
    for name in ["librmm_rs.so.1", "librmm_rs.so"] {
        link(&shared, &libraries.join(name))?;
    }
    for folder in ["", "rmm_rs"] {
        let (from, to) = (package.join("include").join(folder), headers.join(folder));
        fs::create_dir_all(&to).context(to.display())?;
        for entry in fs::read_dir(&from).context(from.display())? {
            let header = entry.context(from.display())?.path();
            if header.is_file() {
                copy(&header, &to.join(header.file_name().context("a header's name")?))?;
            }
        }
    }
    let templates = [
        ("rmm_rs.pc.in", &pkg_config),
        ("rmm_rs-config.cmake.in", &cmake),
        ("rmm_rs-config-version.cmake.in", &cmake),
    ];
    for (template, folder) in templates {
        let text =
            fs::read_to_string(package.join("packaging").join(template)).context(template)?;
        let text = text.replace("@VERSION@", version);
        let target = folder.join(template.trim_end_matches(".in"));
        fs::write(&target, text).context(target.display())?;
    }
    Ok(())
}

/// Copies the licences of the library and of what is linked into it.
fn install_licences(root: &Path, prefix: &Path) -> Result<()> {
    let folder = prefix.join("share/licenses/rmm_rs");
    fs::create_dir_all(&folder).context(folder.display())?;
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root.join(name), folder.join(name)).context(name)?;
    }
    let text = licences::text_of(PACKAGE)?;
    fs::write(folder.join(licences::FILE), text).context(folder.display())
}

/// The version of the interface that a header has, as text.
fn abi_of(header: &str) -> Option<String> {
    let (_, rest) = header.split_once("#define RMM_RS_ABI_VERSION ")?;
    let number: u32 = rest.lines().next()?.trim().parse().ok()?;
    Some(format!("{}.{}", number >> 16, number & 0xffff))
}

#[cfg(unix)]
fn link(target: &str, name: &Path) -> Result<()> {
    if name.symlink_metadata().is_ok() {
        fs::remove_file(name).context(name.display())?;
    }
    std::os::unix::fs::symlink(target, name).context(name.display())
}

#[cfg(not(unix))]
fn link(_: &str, name: &Path) -> Result<()> {
    Err(format!("{} cannot be a link: install on Linux", name.display()).into())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn an_installation_has_what_a_linker_and_a_loader_look_for() {
        let root = workspace_root().expect("the test runs in the workspace");
        let (built, prefix) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["librmm_rs.a", "librmm_rs.so"] {
            fs::write(built.path().join(name), name).expect("the folder is writable");
        }
        let package = root.join("crates").join(PACKAGE);
        for _again in 0..2 {
            install(&package, built.path(), prefix.path(), "9.8.7").expect("it can be installed");
        }
        let read = |path: &str| fs::read_to_string(prefix.path().join(path)).expect(path);
        for library in ["librmm_rs.so", "librmm_rs.so.1", "librmm_rs.so.1.0"] {
            assert_eq!(read(&format!("lib/{library}")), "librmm_rs.so");
        }
        assert!(read("include/rmm_rs.h").contains("rmm_rs_resource_allocate"));
        assert!(read("include/rmm_rs.hpp").contains("rmm_rs/resource.hpp"));
        assert!(read("include/rmm_rs/resource.hpp").contains("class basic_resource"));
        let pkg_config = read("lib/pkgconfig/rmm_rs.pc");
        assert!(pkg_config.contains("Version: 9.8.7") && !pkg_config.contains('@'), "{pkg_config}");
        let cmake = read("lib/cmake/rmm_rs/rmm_rs-config.cmake");
        assert!(cmake.contains("librmm_rs.so.1") && !cmake.contains('@'), "{cmake}");
    }
}
