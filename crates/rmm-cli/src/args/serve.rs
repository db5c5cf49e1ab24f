//! `rmm serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::MemorySize;

pub(super) const ABOUT: &str = "\
Own memory of a GPU outside the programs that use it, so that what they have
written outlives them

Each tag is a memory of its own, at the socket DIR/TAG.sock: one program writes
and commits it, any number read it, and one that crashes and starts again maps
what is there. Programs use LeasedMemoryResource, in Python rmm_rs.lease, or
the client of NVIDIA's GPU Memory Service (V1). Only programs of this user can
connect. It has no context on the GPU. It runs until SIGTERM or SIGINT.";

pub(super) const HELP: &str = "\
Examples:
  rmm serve --directory /run/user/1000/gpu0 --tag weights
  rmm serve --directory d --device 1 --tag weights --tag kv_cache --limit 60GiB

Exit statuses:
  0  it was told to end, and has removed its sockets
  1  it could not go on
  2  there is no such device, another owner serves the tag, the socket cannot be
     made, or bad usage";

/// Options of `rmm serve`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ServeArgs {
    /// Where to make the sockets; it is made if it does not exist. Take one for each device
    #[arg(long, value_name = "DIR")]
    pub directory: PathBuf,

    /// The number of the GPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub device: u32,

    /// A name for a memory of its own; can be repeated
    #[arg(long = "tag", value_name = "TAG", required = true, value_parser = tag)]
    pub tags: Vec<String>,

    /// The most memory of each tag, such as 60GiB; all of the device by default
    #[arg(long, value_name = "SIZE")]
    pub limit: Option<MemorySize>,

    /// How long a program waits for another to let go, such as 30s; then it is refused, and told
    /// who has it. Without end by default
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub wait: Option<Duration>,

    /// How long an allocation waits for memory that other programs still have, such as 5s; refused
    /// at once by default
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub memory_wait: Option<Duration>,
}

fn tag(text: &str) -> Result<String, &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let is_name = !text.is_empty() && !text.starts_with(['.', '-']) && text.bytes().all(is_plain);
    let name = is_name.then(|| text.to_owned());
    name.ok_or("expected a name of letters, digits, `_`, `-` and `.`, such as weights")
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let number = text.strip_suffix('s').unwrap_or(text).parse().ok();
    let seconds = number.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or("expected seconds, such as 30s or 0.5")
}
