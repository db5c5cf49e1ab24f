//! The parts of the `rmm` program.
//!
//! | module | what it does |
//! |---|---|
//! | [`args`] | the command line |
//! | [`check_program`] | runs a program on the software device |
//! | [`commands`] | the subcommands |
//! | [`device`] | a GPU or the software device |
//! | [`doctor`] | what there is to work with |
//! | [`trace`] | reads the allocation logs that RMM writes |
//! | [`replay`] | makes a trace's calls against a resource |
//! | [`results`] | the data a replay produces, and its JSON |
//! | [`table`] | the terminal table of a replay |
//! | [`draw`] | the drawing primitives of charts |
//! | [`html`] | the self-contained HTML report of a replay |
//! | [`output`] | writes a file whole or not at all |

pub mod args;
#[cfg(target_os = "linux")]
pub mod check_program;
pub mod commands;
pub mod device;
pub mod doctor;
pub mod draw;
mod exit;
mod findings;
mod format;
pub mod html;
pub mod output;
pub mod replay;
pub mod results;
pub mod table;
pub mod trace;
