//! `rmm check`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::OutputArgs;

pub(super) const ABOUT: &str = "\
Run a program on the software device, and report uses of memory that are not ordered, leaks and misuse

The program loads the driver (libcuda) by name or is linked with it; it needs no GPU and no change. What \
compute-sanitizer is for the inside of kernels, this is for the order of streams: every copy, fill, launch, allocation \
and free is judged by the order that the program's own calls establish, whatever happened to run first.";

pub(super) const HELP: &str = "\
Examples:
  rmm check -- ./train --steps 2
  rmm check --html order.html -- python3 pipeline.py
  rmm check --kernel 'fill(float y[n], float a, size_t n)' -- ./fill
  rmm check --runtime stand-in/libcudart.so.13 -- ./program-in-cuda-c++

What it is not: the CUDA runtime (programs that use libcudart need private tables of the driver, which --runtime does \
without where they are linked with it dynamically; PyTorch and CuPy need more), and no device code runs: a kernel has \
to be declared by --kernel, is checked for the memory that its arguments name, and writes nothing.

What is not checked is said, and the status is then not 0: kernels that are not declared, functions that the device \
does not serve, and processes that do not end by their exit handlers (_exit, as workers of Python's multiprocessing do \
that it forks, exec, a signal, a crash) or live on when the program has ended.

What the program prints is printed, too: write JSON to a file, --json=FILE.

Exit statuses:
  0  nothing was found, all was checked, and the program's own status is 0
  1  nothing was found, but not all was checked, or the program was killed
  2  bad usage, or the program could not be run
  3  something was found
  4  nothing was found; the program's own status is 1 to 4, and is printed
  5 and more: nothing was found, and it is the program's own";

/// What follows the name of the command: without this, what clap suggests for a mistyped option
/// would be taken for the program.
pub(super) const USAGE: &str = "rmm check [OPTIONS] -- PROGRAM [ARGUMENT]...";

/// Options of `rmm check`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct CheckArgs {
    /// Where the findings go.
    #[command(flatten)]
    pub outputs: OutputArgs,

    /// A kernel that the program launches, as C declares it. `float y[n]` is memory that it writes,
    /// `const float x[n]` memory that it reads, and n another parameter. May be repeated
    #[arg(long = "kernel", value_name = "PROTOTYPE")]
    pub kernels: Vec<String>,

    /// How many devices there are
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub devices: u32,

    /// Report no leaks
    #[arg(long)]
    pub no_leaks: bool,

    /// Report no call stacks, which take some microseconds at each access
    #[arg(long)]
    pub no_call_sites: bool,

    /// The stand-alone library of the software device; without this, `librmm_sim_driver.so` beside
    /// this program, or in `lib` or `lib/rmm` beside the folder of this program
    #[arg(long, value_name = "FILE", env = "RMM_SIM_LIBRARY")]
    pub library: Option<PathBuf>,

    /// A library that takes the place of libcudart, over the driver's functions, for programs that
    /// are linked with it dynamically. `cargo xtask rmm-tests --runtime DIR` in the repository of
    /// rmm builds one for CUDA 13
    #[arg(long, value_name = "FILE")]
    pub runtime: Option<PathBuf>,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}
