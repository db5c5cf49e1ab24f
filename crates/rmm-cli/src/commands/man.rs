//! `rmm man`.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use super::{BAD_INPUT, Ended};
use crate::args::{Cli, ManArgs};
use crate::output;

/// `rmm man`.
pub fn man(args: &ManArgs) -> Ended {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    match write_pages(&args.folder, &root) {
        Ok(()) => Ended::succeeded(String::new()),
        Err(error) => Ended::failed(BAD_INPUT, error),
    }
}

fn write_pages(folder: &Path, root: &Command) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write {}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    for command in std::iter::once(root).chain(root.get_subcommands()) {
        // Of `rmm replay`: rmm-replay.1.
        let page = Man::new(command.clone());
        let mut text = Vec::new();
        page.render(&mut text).map_err(failed)?;
        let path = folder.join(page.get_filename());
        output::write_atomically(&path, &text).map_err(|error| error.to_string())?;
    }
    Ok(())
}
