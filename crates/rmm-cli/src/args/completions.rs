//! `rmm completions`.

use clap::Args;
use clap_complete::Shell;

pub(super) const HELP: &str = "\
Examples:
  rmm completions bash > ~/.local/share/bash-completion/completions/rmm
  rmm completions zsh > ~/.zfunc/_rmm     # a folder in $fpath
  rmm completions fish > ~/.config/fish/completions/rmm.fish

Exit statuses:
  0  they were printed
  2  bad usage";

/// Options of `rmm completions`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}
