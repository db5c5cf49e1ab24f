//! Runs a program with a time limit and captures its output.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long the pipes of a killed program may take to close; a child of its own may hold them open.
const GRACE: Duration = Duration::from_secs(5);

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// What it printed.
    pub(crate) stdout: String,
    /// What it printed as errors.
    pub(crate) stderr: String,
    /// How it ended; nothing if it was killed at the limit.
    pub(crate) status: Option<ExitStatus>,
    /// How long it took.
    pub(crate) took: Duration,
}

impl Finished {
    /// How it ended, for a report.
    pub(crate) fn end(&self) -> String {
        match self.status {
            None => format!("was killed after {:.0} s", self.took.as_secs_f64()),
            Some(status) => format!("ended with {status}"),
        }
    }
}

/// Runs a program, and kills it if it takes longer than `limit`.
///
/// # Errors
///
/// If it cannot be started or waited for.
pub(crate) fn run(command: &mut Command, limit: Duration) -> io::Result<Finished> {
    let start = Instant::now();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (sender, receiver) = channel();
    read_in_background(child.stdout.take(), Stream::Out, &sender);
    read_in_background(child.stderr.take(), Stream::Err, &sender);
    drop(sender);

    let mut printed = Printed::default();
    // The channel closes when both pipes have, which is when the program and all that it started
    // have ended.
    let status = if printed.collect(&receiver, start + limit) {
        Some(child.wait()?)
    } else {
        kill(&mut child)?;
        printed.collect(&receiver, Instant::now() + GRACE);
        None
    };
    let took = start.elapsed();
    Ok(Finished { stdout: lossy(&printed.stdout), stderr: lossy(&printed.stderr), status, took })
}

fn kill(child: &mut Child) -> io::Result<()> {
    child.kill()?;
    child.wait().map(drop)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[derive(Debug, Clone, Copy)]
enum Stream {
    Out,
    Err,
}

#[derive(Debug, Default)]
struct Printed {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Printed {
    /// Collects until both pipes are closed; false if the deadline comes first.
    fn collect(&mut self, receiver: &Receiver<(Stream, Vec<u8>)>, deadline: Instant) -> bool {
        loop {
            match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((Stream::Out, bytes)) => self.stdout.extend(bytes),
                Ok((Stream::Err, bytes)) => self.stderr.extend(bytes),
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}

fn read_in_background(
    pipe: Option<impl Read + Send + 'static>,
    stream: Stream,
    sender: &Sender<(Stream, Vec<u8>)>,
) {
    let Some(mut pipe) = pipe else { return };
    let sender = sender.clone();
    // The thread ends with the pipe, or when the receiver is gone.
    thread::spawn(move || {
        let mut piece = [0; 8192];
        while let Ok(length @ 1..) = pipe.read(&mut piece) {
            if sender.send((stream, piece[..length].to_vec())).is_err() {
                break;
            }
        }
    });
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    //! Programs that end, crash and hang.

    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn shell(script: &str, limit: Duration) -> Finished {
        run(Command::new("sh").args(["-c", script]), limit).unwrap()
    }

    #[test]
    fn both_outputs_and_the_status_are_kept() {
        let finished = shell("echo out; echo err >&2; exit 3", Duration::from_secs(60));
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(finished.status.and_then(|status| status.code()), Some(3));
    }

    #[test]
    fn a_crash_is_told_from_an_exit() {
        let finished = shell("kill -SEGV $$", Duration::from_secs(60));
        assert_eq!(finished.status.and_then(|status| status.signal()), Some(11));
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_its_output_kept() {
        let finished = shell("echo $$; exec sleep 1000", Duration::from_millis(300));
        let id = finished.stdout.trim();
        assert!(id.parse::<u32>().is_ok(), "what it printed was kept: {id:?}");
        let alive = Command::new("kill").args(["-0", id]).stderr(Stdio::null()).status().unwrap();
        assert!(!alive.success(), "process {id} still runs");
        assert!(finished.status.is_none());
        assert!(finished.took < Duration::from_secs(60));
    }

    #[test]
    fn much_output_does_not_block_the_program() {
        let finished = shell(
            "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2",
            Duration::from_secs(60),
        );
        assert_eq!((finished.stdout.len(), finished.stderr.len()), (1_000_000, 1_000_000));
    }
}
