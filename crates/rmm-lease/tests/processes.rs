//! An owner, writers and readers, each a process that is killed, on one software device.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead as _, BufReader, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::DeviceBuffer;
use rmm_core::{
    CudaStream, Device, DevicePtr, ErrorKind, SynchronousResource as _, current_driver,
};
use rmm_lease::protocol::{Granted, Lock, LockHolder, MAX_FRAME, Message, encode};
use rmm_lease::{Lease, LeaseError, LeasedMemoryResource, Server, ServerOptions};
use rmm_resources::{ImportAccess, ImportedMemory, Piece, PieceRange, ShareableHandle};
use rmm_sim::{Machine, MachineGuard, Schedule};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, sendmsg,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tempfile::TempDir;

#[path = "processes/killed.rs"]
mod killed;
#[path = "processes/owners.rs"]
mod owners;

const BYTES: u64 = 4 << 20;
const TOTAL: usize = 64 << 20;
const ROLE: &str = "RMM_LEASE_ROLE";
const FOLDER: &str = "RMM_LEASE_FOLDER";

static GLOBAL: OnceLock<(DeviceBuffer, LeasedMemoryResource)> = OnceLock::new();

fn device() -> Device {
    Device::new(0).expect("the software device has one")
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// The software device that all processes share.
fn enter(folder: &str) -> MachineGuard {
    let builder = Machine::builder().memory(TOTAL).schedule(Schedule::Eager);
    builder.shared(format!("{folder}/device")).build().enter()
}

fn map(lease: &mut Lease, access: ImportAccess) -> ImportedMemory {
    let handle = ShareableHandle::from(lease.export("weights").expect("it is allocated"));
    let range =
        PieceRange { export: 0, index: 0, count: 1, handle_bytes: BYTES, offset: 0, bytes: BYTES };
    ImportedMemory::map(vec![Piece { handle, range }], device(), access).expect("it is memory")
}

fn fill(memory: &ImportedMemory, value: u8) {
    let driver = current_driver().expect("there is a driver");
    let bytes = usize::try_from(memory.bytes()).expect("it is small");
    // SAFETY: it is mapped for writing, and nothing else uses it.
    let code = unsafe { driver.cuMemsetD8_v2(memory.as_ptr(), value, bytes) };
    code.result().expect("it is mapped");
    // SAFETY: takes no pointer.
    unsafe { driver.cuCtxSynchronize() }.result().expect("nothing has failed");
}

fn last_byte(memory: &ImportedMemory) -> u8 {
    byte_at(DevicePtr(memory.as_ptr().0 + memory.bytes() - 1))
}

fn byte_at(pointer: DevicePtr) -> u8 {
    let (mut byte, driver) = ([0_u8; 1], current_driver().expect("there is a driver"));
    // SAFETY: the place has one byte, and the memory is mapped.
    let code = unsafe { driver.cuMemcpyDtoH_v2(byte.as_mut_ptr().cast(), pointer, 1) };
    code.result().expect("it is mapped");
    byte[0]
}

fn free() -> usize {
    let (mut free, mut total) = (0, 0);
    let driver = current_driver().expect("there is a driver");
    // SAFETY: both may be written to.
    unsafe { driver.cuMemGetInfo_v2(&raw mut free, &raw mut total) }.result().expect("a context");
    free
}

/// What another process does; it is told to end by the end of its standard input.
#[test]
fn role() {
    let (Ok(role), Ok(folder)) = (std::env::var(ROLE), std::env::var(FOLDER)) else { return };
    let socket = format!("{folder}/owner.sock");
    let _machine = enter(&folder);
    let say = |what: &str| {
        let mut out = std::io::stdout();
        writeln!(out, "\nrole: {what}").and_then(|()| out.flush()).expect("the test reads it");
    };
    let wait = || {
        let _ended = std::io::stdin().read(&mut [0]);
    };
    match role.as_str() {
        "owner" | "impatient owner" => {
            let mut options = ServerOptions::default();
            options.limit = 48 << 20;
            options.wait = (role != "owner").then_some(Duration::from_millis(50));
            let mut server = Server::bind(socket, device(), options).expect("a new socket");
            say("serves");
            server.run(std::io::stdin()).expect("the system can wait");
            let driver = rmm_sys::Driver::get().expect("there is a driver");
            let mut context = rmm_sys::CuContext::NULL;
            // SAFETY: `context` may be written to.
            unsafe { driver.cuCtxGetCurrent(&raw mut context) }.result().expect("it has started");
            assert_eq!(context, rmm_sys::CuContext::NULL, "an owner has no context");
        }
        "writer" | "committed writer" => {
            let mut lease = Lease::connect(socket, Lock::Write, Some(soon())).expect("it is free");
            lease.allocate("weights", BYTES).expect("there is memory");
            let memory = map(&mut lease, ImportAccess::ReadWrite);
            fill(&memory, 7);
            if role == "committed writer" {
                lease.commit().expect("it writes");
            }
            say("has written");
            wait();
        }
        "reader" => {
            let mut lease =
                Lease::connect(socket, Lock::Read, Some(soon())).expect("it is committed");
            let memory = map(&mut lease, ImportAccess::ReadOnly);
            say(&format!("reads {}", last_byte(&memory)));
            wait();
        }
        "waiting writer" => {
            let mut stream = UnixStream::connect(socket).expect("an owner");
            let request =
                Message::HandshakeRequest { lock_type: Lock::Write, expected_identity: None };
            stream.write_all(&encode(&request).expect("it is small")).expect("an owner");
            say("waits");
            wait();
        }
        "writer with blocks" => {
            let mut lease = Lease::connect(socket, Lock::Write, Some(soon())).expect("it is free");
            lease.set_answer_time(Duration::from_millis(50));
            let pages = LeasedMemoryResource::new(lease).expect("the device is here");
            wait_for_a_stopped_owner(&pages, || {
                say("has a block");
                wait();
            });
            say("has waited");
            wait();
        }
        "reader of blocks" => {
            let lease = Lease::connect(socket, Lock::Read, Some(soon())).expect("it is committed");
            let pages = LeasedMemoryResource::new(lease).expect("the device is here");
            let record = pages.list().expect("it reads").remove(0);
            let range = pages.map(&record.allocation_id).expect("it is committed");
            assert_eq!(range.bytes, record.aligned_size);
            say(&format!("reads {}", byte_at(range.pointer)));
            wait();
        }
        "pool" => {
            let lease = Lease::connect(socket, Lock::Write, Some(soon())).expect("it is free");
            let pages = LeasedMemoryResource::new(lease).expect("the device is here");
            let pool = PoolMemoryResource::builder(pages.clone()).build().expect("a pool");
            let stream = CudaStream::new().expect("a device");
            let weights = DeviceBuffer::from_slice_in(&[7; 1 << 10], &stream, &pool);
            pages.commit().expect("it writes");
            // They are there when the process ends.
            GLOBAL.get_or_init(|| (weights.expect("there is memory"), pages));
            say("has committed");
            wait();
        }
        other => killed::play(other, Path::new(&socket), say, wait),
    }
}

struct Peer {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    input: Option<ChildStdin>,
}

impl Peer {
    fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let count = self.output.read_line(&mut line).expect("the process has an output");
            assert!(count > 0, "the process has ended");
            if let Some(text) = line.trim().strip_prefix("role: ") {
                return text.to_owned();
            }
        }
    }

    /// Ends its wait.
    fn go_on(&mut self) {
        let input = self.input.as_mut().expect("it has not ended");
        input.write_all(b"\n").expect("it reads");
    }

    fn process(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Ends the process by signal 9.
    fn kill(self) {
        drop(self);
    }

    /// Ends the input of the process, which ends well.
    fn end(mut self) {
        self.input = None;
        std::io::copy(&mut self.output, &mut std::io::sink()).expect("the process has an output");
        assert!(self.child.wait().expect("it was started here").success());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.child.kill().expect("it was started here");
        self.child.wait().expect("it was started here");
    }
}

/// A folder with the device and the owner's socket.
struct Site {
    folder: TempDir,
    _machine: MachineGuard,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = enter(folder.path().to_str().expect("the folder's name is text"));
        Self { folder, _machine: machine }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("owner.sock")
    }

    fn start(&self, role: &str) -> (Peer, String) {
        self.start_by(&[], role)
    }

    /// Starts a process by another program, whose words come before those of this one.
    fn start_by(&self, starter: &[&str], role: &str) -> (Peer, String) {
        let own = std::env::current_exe().expect("the system provides it");
        let own = own.to_str().expect("the program's name is text");
        let words: Vec<&str> = starter.iter().copied().chain([own]).collect();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .args(["role", "--exact", "--nocapture"])
            .env(ROLE, role)
            .env(FOLDER, self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test's own program starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut peer = Peer { child, output, input };
        let said = peer.hear();
        (peer, said)
    }

    fn connect(&self, lock: Lock) -> Lease {
        Lease::connect(self.socket(), lock, Some(soon())).expect("the lock is free")
    }

    fn within(&self, lock: Lock, time: Duration) -> LeaseError {
        let deadline = Some(Instant::now() + time);
        Lease::connect(self.socket(), lock, deadline).expect_err("the lock is taken")
    }
}

#[test]
fn a_reader_has_what_a_killed_writer_committed() {
    let site = Site::new();
    let (owner, _) = site.start("owner");
    let (writer, _) = site.start("committed writer");
    writer.kill();
    let (reader, said) = site.start("reader");
    assert_eq!(said, "reads 7");
    let mut lease = site.connect(Lock::WriteOrRead);
    assert_eq!(lease.lock(), Granted::Read);
    assert_eq!(lease.list().expect("it reads").len(), 1);
    assert_eq!(last_byte(&map(&mut lease, ImportAccess::ReadOnly)), 7);
    assert_eq!(free(), TOTAL - usize::try_from(BYTES).expect("it is small"), "counted once");
    reader.end();
    drop(lease);
    owner.end();
    assert_eq!(free(), TOTAL);
    assert!(!site.socket().exists(), "the owner removes its socket");
}

#[test]
fn a_killed_writer_loses_what_it_did_not_commit() {
    let site = Site::new();
    let (owner, _) = site.start("owner");
    let (writer, _) = site.start("writer");
    assert!(free() < TOTAL);
    writer.kill();
    let mut lease = site.connect(Lock::WriteOrRead);
    assert_eq!(lease.lock(), Granted::Write);
    assert_eq!(lease.list().expect("it writes"), []);
    assert_eq!(free(), TOTAL);
    owner.end();
}

#[test]
fn a_killed_reader_lets_a_writer_in() {
    let site = Site::new();
    let (_owner, _) = site.start("owner");
    site.start("committed writer").0.kill();
    let (reader, _) = site.start("reader");
    let late = site.within(Lock::Write, Duration::from_millis(50));
    let holder = LockHolder { process: reader.process(), lock: Granted::Read };
    assert!(matches!(&late, LeaseError::Deadline(holders) if *holders == [holder]), "{late}");
    reader.kill();
    assert_eq!(site.connect(Lock::Write).lock(), Granted::Write);
}

#[test]
fn a_killed_process_that_waits_holds_no_one_up() {
    let site = Site::new();
    let (_owner, _) = site.start("owner");
    site.start("committed writer").0.kill();
    let (_reader, _) = site.start("reader");
    let (waiting, _) = site.start("waiting writer");
    let late = site.within(Lock::Read, Duration::from_millis(50));
    assert!(matches!(late, LeaseError::Deadline(_)), "a writer waits: {late}");
    waiting.kill();
    assert_eq!(site.connect(Lock::Read).lock(), Granted::Read);
}

/// What starts a program in another namespace of processes, as that of a container is. None where
/// the system does not let this user make one.
fn apart() -> Option<&'static [&'static str]> {
    const AS_ROOT: &[&str] = &["unshare", "--pid", "--fork", "--kill-child"];
    const AS_USER: &[&str] =
        &["unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child"];
    let can = |starter: &[&str]| {
        let mut command = Command::new(starter[0]);
        let command = command.args(&starter[1..]).arg("true").stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    [AS_ROOT, AS_USER].into_iter().find(|starter| can(starter))
}

#[test]
fn processes_of_other_namespaces_are_served_and_serve() {
    let Some(apart) = apart() else { return };
    let site = Site::new();
    // The owner does not see this process.
    let (owner, _) = site.start_by(apart, "owner");
    let mut lease = site.connect(Lock::Write);
    let late = site.within(Lock::Read, Duration::from_millis(50));
    let holder = LockHolder { process: 0, lock: Granted::Write };
    assert!(matches!(&late, LeaseError::Deadline(holders) if *holders == [holder]), "{late}");
    let text = late.to_string();
    assert!(text.ends_with("a process of another namespace writes"), "{text}");
    lease.allocate("weights", BYTES).expect("there is memory");
    lease.commit().expect("it writes");
    assert_eq!(site.connect(Lock::Read).list().expect("it reads").len(), 1);
    drop(lease);
    owner.end();
    // The reader does not see the owner.
    let (owner, _) = site.start("owner");
    site.start("committed writer").0.kill();
    let (reader, said) = site.start_by(apart, "reader");
    assert_eq!(said, "reads 7");
    reader.end();
    owner.end();
}

#[test]
fn an_impatient_owner_says_which_stopped_reader_holds_it() {
    let site = Site::new();
    let (_owner, _) = site.start("impatient owner");
    site.start("committed writer").0.kill();
    let (reader, _) = site.start("reader");
    reader.signal(Signal::STOP);
    let refused = Lease::connect(site.socket(), Lock::Write, None).expect_err("it reads");
    let text = format!("the owner refuses: process {} reads", reader.process());
    assert_eq!(refused.to_string(), text);
    reader.kill();
    assert_eq!(site.connect(Lock::Write).lock(), Granted::Write);
}

#[test]
fn a_killed_owner_leaves_mappings_and_no_lease() {
    let site = Site::new();
    let (owner, _) = site.start("owner");
    site.start("committed writer").0.kill();
    let mut lease = site.connect(Lock::Read);
    let memory = map(&mut lease, ImportAccess::ReadOnly);
    owner.kill();
    assert!(matches!(lease.list(), Err(LeaseError::Ended)));
    assert_eq!(last_byte(&memory), 7);
    // Its socket is still there, and is replaced.
    assert!(site.socket().exists());
    let (_owner, _) = site.start("owner");
    let before = lease.identity();
    let refused = Lease::reconnect(site.socket(), Lock::WriteOrRead, before, Some(soon()));
    assert!(matches!(&refused, Err(LeaseError::Refused(_))), "{refused:?}");
    let other = site.connect(Lock::WriteOrRead);
    assert_eq!(other.identity().gpu_uuid, before.gpu_uuid);
    assert_eq!(other.lock(), Granted::Write, "a new owner has nothing");
    drop(memory);
    assert_eq!(free(), TOTAL);
}

/// Stops a process, as a debugger does.
fn stop(peer: &Peer) {
    peer.signal(Signal::STOP);
    let stopped = waitpid(Some(Pid::from_child(&peer.child)), WaitOptions::UNTRACED);
    assert!(stopped.is_ok_and(|status| status.is_some_and(|(_, status)| status.stopped())));
}

#[test]
fn a_stopped_owner_holds_no_allocation_up() {
    let site = Site::new();
    let (owner, _) = site.start("owner");
    let (mut writer, _) = site.start("writer with blocks");
    stop(&owner);
    writer.go_on();
    assert_eq!(writer.hear(), "has waited");
    // Nor those who connect, also when its queue is full.
    let waiting: Vec<_> = (0..200).map(|_| connect_without_waiting(&site.socket())).collect();
    assert!(waiting.iter().any(Option::is_none), "as many as may wait");
    let late = site.within(Lock::Read, Duration::from_millis(50));
    assert!(matches!(late, LeaseError::NoOwner(..)), "{late}");
    drop(waiting);
    owner.signal(Signal::CONT);
    assert_eq!(site.connect(Lock::Write).list().expect("it writes"), [], "it was freed");
    writer.end();
    owner.end();
    assert_eq!(free(), TOTAL);
}

/// A block of a resource, and a request for another one that the owner does not answer.
fn wait_for_a_stopped_owner(pages: &LeasedMemoryResource, stopped: impl FnOnce()) {
    let layout = std::alloc::Layout::from_size_align(1, 256).expect("it is small");
    let block = pages.allocate_sync(layout).expect("there is memory");
    stopped();
    let error = pages.allocate_sync(layout).expect_err("it does not answer");
    assert!(error.to_string().contains("not answered within 50ms"), "{error}");
    assert_eq!(error.kind(), ErrorKind::NotReady);
    assert!(matches!(pages.list(), Err(LeaseError::Ended)), "at once, from then on");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pages.deallocate_sync(block, layout) };
}

fn connect_without_waiting(socket: &Path) -> Option<OwnedFd> {
    let (kind, flags) = (SocketType::STREAM, SocketFlags::NONBLOCK);
    let file = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).expect("a socket");
    let address = SocketAddrUnix::new(socket).expect("it is short");
    rustix::net::connect(&file, &address).is_ok().then_some(file)
}

#[test]
fn leases_in_globals_end_with_the_process() {
    let site = Site::new();
    let (owner, _) = site.start("owner");
    let (writer, _) = site.start("pool");
    writer.end();
    let (writer, _) = site.start("pool");
    writer.kill();
    let (reader, said) = site.start("reader of blocks");
    assert_eq!(said, "reads 7");
    reader.kill();
    owner.end();
    assert_eq!(free(), TOTAL);
}

#[test]
fn refusals_end_no_session() {
    let site = Site::new();
    let (_owner, _) = site.start("owner");
    let mut lease = site.connect(Lock::Write);
    for (bytes, out_of_memory) in [(1, false), (0, false), (56 << 20, true), (u64::MAX, true)] {
        let refused = lease.allocate("weights", bytes).expect_err("too odd, or too much");
        let is_right = matches!(&refused, LeaseError::Refused(refusal)
            if refusal.out_of_memory == out_of_memory);
        assert!(is_right, "{bytes}: {refused}");
    }
    assert!(matches!(lease.export("weights"), Err(LeaseError::Refused(_))));
    lease.allocate("weights", BYTES).expect("there is memory");
    lease.free("weights").expect("it is allocated");
    lease.allocate("weights", BYTES).expect("there is memory");
    lease.commit().expect("it writes");
    assert_eq!(lease.lock(), Granted::Read);
    assert!(matches!(lease.free("weights"), Err(LeaseError::Refused(_))));
    assert_eq!(lease.list().expect("it reads").len(), 1);
    // Quoted, it would take more than a frame.
    let long = lease.export(&"\u{1}".repeat(300_000));
    assert!(matches!(long, Err(LeaseError::Refused(_))), "{long:?}");
    assert_eq!(lease.list().expect("the session goes on").len(), 1);
}

/// What the owner sends until it ends the session. It may do so before it has read everything.
fn rest_of(mut stream: &UnixStream) -> Vec<u8> {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("{error}"),
        _ => answer,
    }
}

fn is_error(answer: &[u8]) -> bool {
    answer.windows(14).any(|part| part == b"error_response")
}

#[test]
fn an_owner_survives_bad_frames() {
    let site = Site::new();
    let (_owner, _) = site.start("owner");
    let handshake = Message::HandshakeRequest { lock_type: Lock::Write, expected_identity: None };
    let frame = encode(&handshake).expect("it is small");
    let huge = (2_u32 << 30).to_be_bytes();
    let commit = encode(&Message::CommitRequest {}).expect("it is small");
    for bytes in [&huge[..], b"\0\0\0\0", b"\0\0\0\x01\x80", &commit] {
        let mut stream = UnixStream::connect(site.socket()).expect("an owner");
        stream.write_all(bytes).expect("an owner");
        assert!(is_error(&rest_of(&stream)), "{bytes:?}");
    }
    // Half a frame, and nothing more; with the lock and without.
    for end in [2, frame.len() - 1, frame.len() + 2] {
        let bytes = [&frame[..], &commit].concat();
        let mut stream = UnixStream::connect(site.socket()).expect("an owner");
        stream.write_all(&bytes[..end]).expect("an owner");
    }
    for count in [1, 2, 20] {
        let stream = UnixStream::connect(site.socket()).expect("an owner");
        let file = fs::File::open("/dev/null").map(OwnedFd::from).expect("it exists");
        let files = vec![file.as_fd(); count];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        let parts = [IoSlice::new(&frame)];
        sendmsg(&stream, &parts, &mut control, SendFlags::empty()).expect("an owner");
        assert!(is_error(&rest_of(&stream)), "{count} descriptors");
    }
    // A request while the handshake is not answered.
    let lease = site.connect(Lock::Write);
    let mut stream = UnixStream::connect(site.socket()).expect("an owner");
    stream.write_all(&[&frame[..], &frame].concat()).expect("an owner");
    assert!(is_error(&rest_of(&stream)), "it has to wait");
    drop(lease);
    // One that sends much and reads nothing.
    let stream = UnixStream::connect(site.socket()).expect("an owner");
    stream.set_nonblocking(true).expect("a socket");
    let list = encode(&Message::ListAllocationsRequest {}).expect("it is small").repeat(100);
    let mut bytes = frame;
    while bytes.len() < MAX_FRAME {
        bytes.extend_from_slice(&list);
    }
    let _sent = (&stream).write(&bytes);
    drop(stream);
    assert_eq!(site.connect(Lock::Write).lock(), Granted::Write);
}
