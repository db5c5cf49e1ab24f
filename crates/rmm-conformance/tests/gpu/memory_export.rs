//! Virtual memory that other processes map: exported by a writer that is then killed, and read by
//! a process that it had started. Prints what each step took.
#![expect(clippy::print_stdout, reason = "the times are the result, and the processes talk by it")]

#[path = "memory_export/lease.rs"]
mod lease;

use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rmm_conformance::{CheckResult, Environment, Place, ensure};
use rmm_containers::{DeviceBuffer, export};
use rmm_core::{CudaStream, Device, DevicePtr, Error, Introspect, StreamFlags, copy};
use rmm_resources::{
    Export, ExportHandleTypes, ImportAccess, ImportedMemory, Piece, PieceRange, ShareableHandle,
    VirtualMemoryResource,
};

use crate::export::{inheritable, invalid};

/// Set for the other processes: `writer`, or `reader` with the descriptors and ranges.
const ROLE: &str = "RMM_TEST_EXPORT_ROLE";
/// Set beside it: the place of the test, as a number.
const PLACE: &str = "RMM_TEST_EXPORT_PLACE";
const TEST: &str = "memory_export::a_reader_maps_what_a_killed_writer_committed";
/// Bytes that are compared at both ends.
const COMPARED: usize = 1 << 20;

const PLACES: [Place; 3] = [Place::Gpu(0), Place::Seeded, Place::Lazy];

#[test]
fn a_reader_maps_what_a_killed_writer_committed() {
    let result = match std::env::var(ROLE).as_deref() {
        Ok("writer") => write(),
        Ok(pieces) => read(pieces),
        Err(_) => Place::selected().and_then(|places| places.into_iter().try_for_each(direct)),
    };
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

/// Bytes of a block, and of a piece of it.
fn sizes(place: Place) -> [(usize, usize); 2] {
    match place {
        Place::Gpu(_) => [(8 << 30, 8 << 30), (8 << 30, 64 << 20)],
        Place::Seeded | Place::Lazy => [(64 << 20, 64 << 20), (64 << 20, 2 << 20)],
    }
}

/// The parent: starts a writer, kills it, and waits for what the reader found.
fn direct(place: Place) -> CheckResult {
    let number = match place {
        Place::Gpu(_) => 0,
        Place::Seeded => 1,
        Place::Lazy => 2,
    };
    for index in 0..2 {
        let mut writer = Command::new(std::env::current_exe().map_err(invalid)?)
            .args(["--exact", TEST, "--nocapture"])
            .env(ROLE, "writer")
            .env(PLACE, format!("{number} {index}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(invalid)?;
        let (Some(mut input), Some(mut output)) = (writer.stdin.take(), writer.stdout.take())
        else {
            return Err(invalid("no pipes").into());
        };
        let mut said = String::new();
        let mut byte = [0];
        while !said.ends_with("ready\n") && output.read(&mut byte).map_err(invalid)? > 0 {
            said.push(byte[0].into());
        }
        writer.kill().map_err(invalid)?;
        writer.wait().map_err(invalid)?;
        input.write_all(b"go").map_err(invalid)?;
        output.read_to_string(&mut said).map_err(invalid)?;
        print!("{said}");
        ensure(said.contains("the bytes are equal"), || format!("the others: {said}"))?;
    }
    Ok(())
}

fn place_of_child() -> Result<(Place, usize), Error> {
    let given = std::env::var(PLACE).map_err(invalid)?;
    let (place, index) = given.split_once(' ').ok_or_else(|| invalid("no index"))?;
    let place = PLACES[place.parse::<usize>().map_err(invalid)?];
    let gpu = std::env::var("RMM_TEST_DEVICE").ok().and_then(|device| device.parse().ok());
    let place = if let Place::Gpu(_) = place { Place::Gpu(gpu.unwrap_or(0)) } else { place };
    Ok((place, index.parse().map_err(invalid)?))
}

/// The writer: commits a block, starts a reader, and waits to be killed.
fn write() -> CheckResult {
    let (place, index) = place_of_child()?;
    let environment = Environment::open(place)?;
    let (bytes, piece) = sizes(place)[index];
    let either = ExportHandleTypes::FABRIC | ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
    let pages = VirtualMemoryResource::builder().export_any_of(either).build()?;
    let handles = pages.try_property::<Export>().map(|export| export.handles);
    println!("handles: {handles:?}");
    let pages = VirtualMemoryResource::builder().shareable(true).build()?;
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
    // Adjacent blocks of a resource: the range over all of them is exported as one.
    let begun = Instant::now();
    let mut blocks = Vec::new();
    for _ in 0..bytes / piece {
        blocks.push(DeviceBuffer::uninit_in(piece, &stream, &pages)?);
    }
    let made = begun.elapsed();
    for block in &mut blocks {
        block.fill(7)?;
    }
    stream.synchronize()?;
    let begun = Instant::now();
    let pieces = match blocks.as_slice() {
        [block] => export(block)?,
        _ => rmm_resources::export_range(blocks[0].as_ptr(), bytes as u64)?,
    };
    let exported = begun.elapsed();
    let count = pieces.len();
    println!("{bytes} bytes, {count} handles: made in {made:?}, exported in {exported:?}");
    let mut given = String::new();
    let mut files = Vec::new();
    for Piece { handle, range } in pieces {
        let file = inheritable(&handle.into_descriptor().ok_or_else(|| invalid("no file"))?)?;
        let PieceRange { export, index, count, handle_bytes, offset, bytes } = range;
        let words = [export, index, count, handle_bytes, offset, bytes].map(|it| it.to_string());
        given = format!("{given}{} {};", file.as_raw_fd(), words.join(" "));
        files.push(file);
    }
    let reader = Command::new(std::env::current_exe().map_err(invalid)?)
        .args(["--exact", TEST, "--nocapture"])
        .env(ROLE, given)
        .spawn()
        .map_err(invalid)?;
    println!("reader {}", reader.id());
    println!("ready");
    std::io::stdout().flush().map_err(invalid)?;
    // A long time, so that a parent that ends early leaves no process.
    std::thread::park_timeout(Duration::from_secs(120));
    drop((files, blocks));
    environment.verify()
}

/// The reader: waits until the writer is gone, maps its memory, and compares.
fn read(given: &str) -> CheckResult {
    let (place, index) = place_of_child()?;
    let mut go = [0; 2];
    std::io::stdin().read_exact(&mut go).map_err(invalid)?;
    let environment = Environment::open(place)?;
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
    let mut pieces = Vec::new();
    for piece in given.split_terminator(';') {
        let words: Result<Vec<u64>, _> = piece.split(' ').map(str::parse).collect();
        let words = words.map_err(invalid)?;
        let &[file, export, index, count, handle_bytes, offset, bytes] = words.as_slice() else {
            return Err(invalid("a piece").into());
        };
        let range = PieceRange { export, index, count, handle_bytes, offset, bytes };
        let number = i32::try_from(file).map_err(invalid)?;
        // SAFETY: the writer left this descriptor open for this process, and no other code here
        // uses it.
        let file = unsafe { OwnedFd::from_raw_fd(number) };
        pieces.push(Piece { handle: ShareableHandle::from(file), range });
    }
    let begun = Instant::now();
    let memory = ImportedMemory::map(pieces, Device::current()?, ImportAccess::ReadOnly)?;
    let mapped = begun.elapsed();
    let bytes = sizes(place)[index].0;
    ensure(memory.bytes() == bytes as u64, || "the sizes differ".to_owned())?;
    let mut found = vec![0_u8; COMPARED];
    for offset in [0, bytes - COMPARED] {
        let at = DevicePtr(memory.as_ptr().0 + offset as u64);
        // SAFETY: mapped memory of this process, and the target lives until the stream is
        // synchronized.
        unsafe { copy::device_to_host(found.as_mut_ptr().cast(), at, COMPARED, &stream) }?;
        stream.synchronize()?;
        ensure(found.iter().all(|&byte| byte == 7), || "the bytes differ".to_owned())?;
    }
    let begun = Instant::now();
    drop(memory);
    let unmapped = begun.elapsed();
    println!("imported and mapped in {mapped:?}, unmapped in {unmapped:?}");
    println!("the bytes are equal");
    drop(stream);
    environment.verify()
}
