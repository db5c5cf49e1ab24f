//! The parts of the `rmm` program.
//!
//! | module | what it does |
//! |---|---|
//! | [`args`] | the command line |
//! | [`check_program`] | runs a program on the software device |
//! | [`commands`] | the subcommands |
//! | [`device`] | a GPU or the software device |
//! | [`doctor`] | what there is to work with |
//! | [`replay`] | makes a trace's calls against a resource, on these devices |
//! | [`laboratory`] | devices with as much memory as is asked about |
//! | [`table`] | the terminal table of a replay |
//! | [`output`] | writes a file whole or not at all |
//!
//! Reading logs, replaying them and drawing the page are in [`rmm_report`].

mod advice;
pub mod args;
#[cfg(target_os = "linux")]
pub mod check_program;
pub mod commands;
mod deliver;
pub mod device;
pub mod doctor;
mod exit;
mod findings;
mod input;
pub mod laboratory;
pub mod output;
mod progress;
pub mod replay;
mod style;
pub mod table;
mod text;
