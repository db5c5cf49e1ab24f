//! Memory of an owner in a process of its own: written by a process that is then killed, and read
//! by another one. Prints what each step took.

use std::alloc::Layout;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rmm_conformance::{CheckResult, Environment, Place, ensure};
use rmm_core::sys::CuContext;
use rmm_core::{CudaStream, Device, DevicePtr, Error, StreamFlags, SynchronousResource as _, copy};
use rmm_lease::protocol::{Granted, Lock};
use rmm_lease::{Lease, LeasedMemoryResource, Server, ServerOptions};
use rmm_sim::Machine;
use rmm_sys::Driver;

use super::{COMPARED, PLACES, invalid, sizes};

/// Set for the other processes: `owner`, `writer` or `reader`.
const ROLE: &str = "RMM_TEST_LEASE_ROLE";
/// Set beside it: the place, which sizes, and the socket.
const PLACE: &str = "RMM_TEST_LEASE_PLACE";
const TEST: &str = "memory_export::lease::a_reader_finds_what_a_killed_writer_committed";
/// How long a reader may take, beyond its context, for memory of one handle on a GPU.
const LONGEST: Duration = Duration::from_millis(10);

#[test]
fn a_reader_finds_what_a_killed_writer_committed() {
    let result = match std::env::var(ROLE).as_deref() {
        Ok("owner") => own(),
        Ok("writer") => write(),
        Ok(_) => read(),
        Err(_) => Place::selected().and_then(|places| places.into_iter().try_for_each(direct)),
    };
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(role: &str, given: &str) -> Result<Self, Error> {
        let mut child = Command::new(std::env::current_exe().map_err(invalid)?)
            .args(["--exact", TEST, "--nocapture"])
            .env(ROLE, role)
            .env(PLACE, given)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(invalid)?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| invalid("no pipe"))?;
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    /// Passes its lines on, up to this one.
    fn hear(&mut self, wanted: &str) -> Result<(), Error> {
        let mut line = String::new();
        while self.output.read_line(&mut line).map_err(invalid)? > 0 {
            if line.trim() == wanted {
                return Ok(());
            }
            print!("{line}");
            line.clear();
        }
        Err(invalid(format!("it has ended before it said {wanted:?}")))
    }

    /// By signal 9.
    fn kill(mut self) -> Result<(), Error> {
        self.child.kill().map_err(invalid)?;
        self.child.wait().map(drop).map_err(invalid)
    }

    /// Ends its input; it has to end well.
    fn end(mut self) -> CheckResult {
        self.input = None;
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).map_err(invalid)?;
        let status = self.child.wait().map_err(invalid)?;
        ensure(status.success(), || format!("it fails: {rest}"))
    }
}

fn direct(place: Place) -> CheckResult {
    let number = PLACES.iter().position(|one| match (one, place) {
        (Place::Gpu(_), Place::Gpu(_)) => true,
        (one, place) => *one == place,
    });
    let number = number.ok_or_else(|| invalid("another place"))?;
    for index in 0..2 {
        let folder = tempfile::tempdir().map_err(invalid)?;
        let given = format!("{number} {index} {}", folder.path().join("owner.sock").display());
        let mut owner = Peer::start("owner", &given)?;
        owner.hear("serves")?;
        let mut writer = Peer::start("writer", &given)?;
        writer.hear("ready")?;
        writer.kill()?;
        // An engine, which crashes, and the next one.
        for _ in 0..2 {
            let begun = Instant::now();
            let mut reader = Peer::start("reader", &given)?;
            reader.hear("ready")?;
            println!(
                "a process was started, with a context and the memory, in {:?}",
                begun.elapsed()
            );
            reader.hear("done")?;
            reader.kill()?;
        }
        owner.end()?;
    }
    Ok(())
}

/// The place, the sizes of all memory and of a handle, and the socket.
fn given() -> Result<(Place, (usize, usize), String), Error> {
    let given = std::env::var(PLACE).map_err(invalid)?;
    let mut words = given.splitn(3, ' ');
    let mut word = || words.next().ok_or_else(|| invalid("a word is missing"));
    let place = PLACES[word()?.parse::<usize>().map_err(invalid)?];
    let index: usize = word()?.parse().map_err(invalid)?;
    let gpu = std::env::var("RMM_TEST_DEVICE").ok().and_then(|device| device.parse().ok());
    let place = if let Place::Gpu(_) = place { Place::Gpu(gpu.unwrap_or(0)) } else { place };
    Ok((place, sizes(place)[index], word()?.to_owned()))
}

/// The owner, without a context.
fn own() -> CheckResult {
    let (place, _, socket) = given()?;
    let (_machine, device) = match place {
        Place::Gpu(number) => (None, Device::new(number)?),
        Place::Seeded | Place::Lazy => (Some(Machine::new().enter()), Device::new(0)?),
    };
    let mut server =
        Server::bind(Path::new(&socket), device, ServerOptions::default()).map_err(invalid)?;
    say("serves")?;
    server.run(std::io::stdin()).map_err(invalid)?;
    let (driver, mut context) = (Driver::get().map_err(Error::from)?, CuContext::NULL);
    // SAFETY: `context` may be written to.
    let code = unsafe { driver.cuCtxGetCurrent(&raw mut context) };
    ensure(code.is_success() && context == CuContext::NULL, || "it has a context".to_owned())
}

fn say(what: &str) -> Result<(), Error> {
    println!("\n{what}");
    std::io::stdout().flush().map_err(invalid)
}

fn connect(socket: &str, lock: Lock) -> Result<LeasedMemoryResource, Error> {
    let deadline = Some(Instant::now() + Duration::from_secs(60));
    Ok(LeasedMemoryResource::new(Lease::connect(socket, lock, deadline)?)?)
}

/// The writer: commits, and waits to be killed.
fn write() -> CheckResult {
    let (place, (bytes, piece), socket) = given()?;
    let _environment = Environment::open(place)?;
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
    let memory = connect(&socket, Lock::WriteOrRead)?;
    ensure(memory.lock() == Some(Granted::Write), || "nothing is committed".to_owned())?;
    let layout = Layout::from_size_align(piece, 256).map_err(invalid)?;
    let begun = Instant::now();
    for number in 0..bytes / piece {
        let block = memory.allocate_sync(layout)?;
        memory
            .put(&format!("layer {number:03}"), block, piece as u64, b"u8")
            .map_err(Error::from)?;
    }
    let made = begun.elapsed();
    for number in 0..bytes / piece {
        let block = memory.get(&format!("layer {number:03}")).map_err(Error::from)?.pointer;
        // SAFETY: a block of this resource, which nothing else uses.
        unsafe { copy::fill(block, 7, piece, &stream) }?;
    }
    let begun = Instant::now();
    memory.commit().map_err(Error::from)?;
    let committed = begun.elapsed();
    println!(
        "{bytes} bytes, {} handles: made in {made:?}, committed in {committed:?}",
        bytes / piece
    );
    say("ready")?;
    // A long time, so that a parent that ends early leaves no process.
    std::thread::park_timeout(Duration::from_secs(120));
    Ok(())
}

/// The reader: maps what the writer committed, compares, sleeps and wakes up.
fn read() -> CheckResult {
    let (place, (bytes, piece), socket) = given()?;
    let environment = Environment::open(place)?;
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
    let begun = Instant::now();
    let memory = connect(&socket, Lock::WriteOrRead)?;
    let mut layers = Vec::new();
    for name in memory.names().map_err(Error::from)? {
        layers.push(memory.get(&name).map_err(Error::from)?);
    }
    let found = begun.elapsed();
    say("ready")?;
    println!("connected, and {} handles found and mapped in {found:?}", layers.len());
    ensure(memory.lock() == Some(Granted::Read), || "it was committed".to_owned())?;
    ensure(layers.len() == bytes / piece, || "a layer is missing".to_owned())?;
    let equal = |layers: &[rmm_lease::NamedRange]| -> CheckResult {
        for layer in layers {
            compare(layer.pointer, piece, &stream)?;
        }
        Ok(())
    };
    equal(&layers)?;
    let begun = Instant::now();
    // SAFETY: the stream has completed its work, and there is no other.
    unsafe { memory.detach() }.map_err(Error::from)?;
    let detached = begun.elapsed();
    let begun = Instant::now();
    memory.attach(Some(begun + Duration::from_secs(60))).map_err(Error::from)?;
    let attached = begun.elapsed();
    println!("detached in {detached:?}, attached in {attached:?}");
    equal(&layers)?;
    let is_one = matches!(place, Place::Gpu(_)) && bytes == piece;
    ensure(!is_one || found < LONGEST, || format!("{found:?}, and {LONGEST:?} are allowed"))?;
    ensure(!is_one || attached < LONGEST, || format!("attached in {attached:?}"))?;
    println!("the bytes are equal");
    drop((memory, stream));
    environment.verify()?;
    say("done")?;
    std::thread::park_timeout(Duration::from_secs(120));
    Ok(())
}

/// Whether both ends have the writer's bytes.
fn compare(start: DevicePtr, bytes: usize, stream: &CudaStream) -> CheckResult {
    let mut found = vec![0_u8; COMPARED];
    for offset in [0, bytes - COMPARED] {
        let at = DevicePtr(start.0 + offset as u64);
        // SAFETY: mapped memory of this process, and the target lives until the stream is
        // synchronized.
        unsafe { copy::device_to_host(found.as_mut_ptr().cast(), at, COMPARED, stream) }?;
        stream.synchronize()?;
        ensure(found.iter().all(|&byte| byte == 7), || "the bytes differ".to_owned())?;
    }
    Ok(())
}
