//! `rmm serve`: an owner in a process of its own, on the software device.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rmm_lease::protocol::{Granted, Lock};
use rmm_lease::{Lease, LeaseError};
use rustix::process::{Pid, Signal, kill_process};

use super::check_program::library;
use super::common::{Folder, program, rmm, text};

struct Owner {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Owner {
    /// Starts it, and returns the lines that it prints, one for each tag.
    fn start(folder: &Folder, tags: &[&str], options: &[&str]) -> (Self, String) {
        let directory = folder.path("sockets");
        let mut args = vec!["serve", "--directory", &directory];
        args.extend(tags.iter().flat_map(|tag| ["--tag", tag]));
        args.extend(options);
        let mut command = program(&args);
        command.env("RMM_CUDA_LIBRARY", library()).env("RMM_SIM_SHARED", folder.path("device"));
        let heed_interrupts = || {
            // A program in the background begins with it ignored, and so do its children.
            // SAFETY: the default action of a signal that the process may handle.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
            Ok(())
        };
        // SAFETY: the function makes one call, which is safe after a fork.
        unsafe { command.pre_exec(heed_interrupts) };
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program runs");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut lines = String::new();
        for _ in tags {
            assert!(output.read_line(&mut lines).expect("text") > 0, "it has ended");
        }
        (Self { child, output }, lines)
    }

    /// Sends a signal, and returns the exit status.
    fn end(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "");
        self.child.wait().expect("it was started here").code()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn connect(folder: &Folder, tag: &str, lock: Lock) -> Result<Lease, LeaseError> {
    let socket = format!("{}/{tag}.sock", folder.path("sockets"));
    Lease::connect(socket, lock, Some(Instant::now() + Duration::from_secs(60)))
}

#[test]
fn each_tag_has_a_memory_of_its_own_until_it_is_told_to_end() {
    let folder = Folder::new();
    let options = ["--limit", "4MiB", "--wait", "0.05s", "--memory-wait", "60s"];
    let (owner, lines) = Owner::start(&folder, &["weights", "kv_cache"], &options);
    let first = lines.lines().next().expect("two lines");
    assert!(first.starts_with(&folder.path("sockets/weights.sock")), "{lines}");
    assert!(first.contains(": at most 4.0 MiB of device 0, "), "{lines}");
    let mut weights = connect(&folder, "weights", Lock::Write).expect("it is free");
    let mut cache = connect(&folder, "kv_cache", Lock::Write).expect("it is free");
    for lease in [&mut weights, &mut cache] {
        lease.allocate("a", 4 << 20).expect("within the limit");
        let more = lease.allocate("b", 2 << 20);
        assert!(matches!(&more, Err(LeaseError::Refused(it)) if it.out_of_memory), "{more:?}");
        lease.export("a").expect("it is allocated");
    }
    let refused = connect(&folder, "weights", Lock::Read).expect_err("one writes");
    let holder = format!("process {} writes", std::process::id());
    assert!(refused.to_string().contains(&holder), "{refused}");
    weights.commit().expect("it writes");
    drop((weights, cache));
    let lease = connect(&folder, "weights", Lock::WriteOrRead).expect("no one writes");
    assert_eq!(lease.lock(), Granted::Read, "it was committed");
    let lease = connect(&folder, "kv_cache", Lock::WriteOrRead).expect("no one writes");
    assert_eq!(lease.lock(), Granted::Write, "it was not");
    assert_eq!(owner.end(Signal::TERM), Some(0), "also with sessions");
    for tag in ["weights", "kv_cache"] {
        assert!(!Path::new(&folder.path(&format!("sockets/{tag}.sock"))).exists(), "{tag}");
    }
}

#[test]
fn an_owner_that_was_killed_is_replaced_and_one_that_lives_is_not() {
    let folder = Folder::new();
    let (owner, _) = Owner::start(&folder, &["weights"], &[]);
    let before = connect(&folder, "weights", Lock::Write).expect("it is free");
    let directory = folder.path("sockets");
    let mut second = program(&["serve", "--directory", &directory, "--tag", "weights"]);
    second.env("RMM_CUDA_LIBRARY", library());
    let output = second.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("weights.sock: another owner serves"));
    drop(owner);
    assert!(Path::new(&folder.path("sockets/weights.sock")).exists());
    let (owner, _) = Owner::start(&folder, &["weights"], &[]);
    let after = connect(&folder, "weights", Lock::Write).expect("it is free");
    assert_ne!(before.identity(), after.identity());
    assert_eq!(owner.end(Signal::INT), Some(0));
}

#[test]
fn what_cannot_be_served_is_bad_input() {
    let folder = Folder::new();
    let (directory, file) = (folder.path("sockets"), folder.path("file"));
    fs::write(&file, "").expect("it is ours");
    let long = "x".repeat(100);
    let cases: [(&[&str], &str); 10] = [
        (&["--directory", &directory], "--tag <TAG>"),
        (&["--tag", "a"], "--directory <DIR>"),
        (&["--directory", &directory, "--tag", "a/b"], "expected a name of letters"),
        (&["--directory", &directory, "--tag", ".."], "expected a name of letters"),
        (&["--directory", &directory, "--tag", "a", "--wait", "soon"], "expected seconds"),
        (&["--directory", &directory, "--tag", "a", "--memory-wait", "soon"], "expected seconds"),
        (&["--directory", &directory, "--tag", "a", "--tag", "a"], "a is named twice"),
        (&["--directory", &directory, "--tag", "a", "--device", "99"], "device"),
        (&["--directory", &file, "--tag", "a"], "cannot make the directory"),
        (&["--directory", &directory, "--tag", &long], "cannot serve"),
    ];
    for (args, why) in cases {
        let mut command = program(&[&["serve"], args].concat());
        let output = command.env("RMM_CUDA_LIBRARY", library()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(why), "{args:?}: {}", text(&output.stderr));
    }
    let output = rmm(&["serve", "--directory", &directory, "--tag", "a"]);
    assert_eq!(output.status.code(), Some(2), "without a driver: {}", text(&output.stderr));
}
