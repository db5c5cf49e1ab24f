//! Memory of a pool that another process reads, and an event that it waits for: exported here,
//! imported by a child of this program.

use std::fmt::Write as _;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;

use rmm_conformance::{CheckResult, DeviceHandle, Environment, Place, ensure};
use rmm_core::{
    CudaEvent, CudaStream, Device, DevicePtr, Error, EventFlags, Resource, StreamFlags, copy,
};
use rmm_resources::{CudaAsyncMemoryResource, ExportHandleTypes, ImportedPool};
use rmm_sys::{CuIpcEventHandle, CuMemPoolPtrExportData};

/// Set for the child: the descriptor's number, and the name of the allocation as hexadecimal
/// digits.
const CHILD: &str = "RMM_TEST_IMPORT";
/// Set for the child of the other test: the exported event as hexadecimal digits.
const EVENT_CHILD: &str = "RMM_TEST_IMPORT_EVENT";
const BYTES: usize = 1 << 20;

/// What the parent writes and the child expects.
fn pattern() -> Vec<u8> {
    (0..BYTES).map(|index| u8::try_from(index * 7 % 251).expect("below 251")).collect()
}

#[test]
fn another_process_reads_an_exported_pool() {
    let result = match std::env::var(CHILD) {
        Ok(given) => import(&given),
        Err(_) => Place::selected().and_then(|places| places.into_iter().try_for_each(export)),
    };
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

fn export(place: Place) -> CheckResult {
    let environment = Environment::open(place)?;
    let capabilities = Device::current()?.capabilities()?;
    let built = CudaAsyncMemoryResource::builder()
        .export_handle_types(ExportHandleTypes::POSIX_FILE_DESCRIPTOR)
        .build();
    if capabilities.pool_handle_types.0 & ExportHandleTypes::POSIX_FILE_DESCRIPTOR.bits() == 0 {
        let refused = built.is_err_and(|error| error.is_unsupported());
        return ensure(refused, || "a device that cannot export pools must say so".to_owned());
    }
    let resource = built?;
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
    let layout = std::alloc::Layout::from_size_align(BYTES, 256).map_err(invalid)?;
    let pointer = resource.allocate(&stream, layout)?;
    let bytes = pattern();
    // SAFETY: the memory is as long, on its own stream, and the source lives until the stream is
    // synchronized.
    unsafe { copy::host_to_device(pointer, bytes.as_ptr().cast(), BYTES, &stream) }?;
    stream.synchronize()?;

    let file = inheritable(&resource.pool().export_file_descriptor()?)?;
    let name = resource.pool().export_pointer(pointer)?;
    let digits = hexadecimal(&name.reserved)?;
    let program = std::env::current_exe().map_err(invalid)?;
    let output = Command::new(program)
        .args(["--exact", "export::another_process_reads_an_exported_pool", "--nocapture"])
        .env(CHILD, format!("{} {digits}", file.as_raw_fd()))
        .output()
        .map_err(invalid)?;
    // SAFETY: allocated above with this layout; the child has ended, and its use with it.
    unsafe { resource.deallocate(&stream, pointer, layout) };
    ensure(output.status.success(), || {
        format!("the other process: {}", String::from_utf8_lossy(&output.stdout))
    })?;
    drop((resource, stream));
    environment.verify()
}

/// The child: the same program, with the descriptor open.
fn import(given: &str) -> CheckResult {
    let _environment = Environment::open(place_of_child())?;
    let (number, digits) =
        given.split_once(' ').ok_or_else(|| invalid("no allocation is named"))?;
    let number: i32 = number.parse().map_err(invalid)?;
    // SAFETY: the parent left this descriptor open for this process, and no other code here
    // uses it.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    let mut data = CuMemPoolPtrExportData { reserved: [0; 64] };
    fill_from(digits, &mut data.reserved)?;
    let pool = ImportedPool::from_file_descriptor(std::os::fd::AsFd::as_fd(&file))?;
    // SAFETY: the other process has sent what the driver gave it for an allocation of this pool,
    // which it keeps meanwhile.
    let pointer: DevicePtr = unsafe { pool.import_pointer(data) }?;
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
    let mut found = vec![0; BYTES];
    // SAFETY: the memory is as long, the parent has synchronized its stream, and the target lives
    // until this one is.
    unsafe { copy::device_to_host(found.as_mut_ptr().cast(), pointer, BYTES, &stream) }?;
    stream.synchronize()?;
    // SAFETY: imported above, and its only use is done.
    unsafe { pool.release(stream.as_stream_ref(), pointer) };
    stream.synchronize()?;
    ensure(found == pattern(), || "the bytes differ from what was written".to_owned())
}

#[test]
fn another_process_waits_for_an_event() {
    let result = match std::env::var(EVENT_CHILD) {
        Ok(digits) => wait_for_imported(&digits),
        Err(_) => Place::selected().and_then(|places| places.into_iter().try_for_each(share_event)),
    };
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

fn share_event(place: Place) -> CheckResult {
    let environment = Environment::open(place)?;
    let created = CudaEvent::with_flags(EventFlags::INTERPROCESS);
    if matches!(environment.handle(), DeviceHandle::Software(_)) {
        let refused = created.is_err_and(|error| error.is_unsupported());
        return ensure(refused, || "the software device has no other process".to_owned());
    }
    let (event, stream) = (created?, CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?);
    event.record(&stream)?;
    let exported = event.export()?;
    // SAFETY: the bytes are those of `export`, and the driver refuses them in the same process.
    let own = unsafe { CudaEvent::import(exported) };
    ensure(own.is_err(), || "imported by its own process".to_owned())?;
    let output = Command::new(std::env::current_exe().map_err(invalid)?)
        .args(["--exact", "export::another_process_waits_for_an_event", "--nocapture"])
        .env(EVENT_CHILD, hexadecimal(&exported.reserved)?)
        .output()
        .map_err(invalid)?;
    ensure(output.status.success(), || {
        format!("the other process: {}", String::from_utf8_lossy(&output.stdout))
    })?;
    drop((event, stream));
    environment.verify()
}

/// The child: the event of the parent has completed, and orders a stream of this process.
fn wait_for_imported(digits: &str) -> CheckResult {
    let _environment = Environment::open(place_of_child())?;
    let mut exported = CuIpcEventHandle { reserved: [0; 64] };
    fill_from(digits, &mut exported.reserved)?;
    // SAFETY: the parent has exported it, and keeps it until this process has ended.
    let event = unsafe { CudaEvent::import(exported) }?;
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
    stream.wait(&event)?;
    stream.synchronize()?;
    event.synchronize()?;
    ensure(event.is_complete()?, || "the event is not complete".to_owned())
}

fn place_of_child() -> Place {
    let ordinal = std::env::var("RMM_TEST_DEVICE").ok().and_then(|device| device.parse().ok());
    Place::Gpu(ordinal.unwrap_or(0))
}

fn hexadecimal(bytes: &[u8]) -> Result<String, Error> {
    let mut digits = String::new();
    for byte in bytes {
        write!(digits, "{byte:02x}").map_err(invalid)?;
    }
    Ok(digits)
}

fn fill_from(digits: &str, bytes: &mut [u8]) -> Result<(), Error> {
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).map_err(invalid)?;
        *byte = u8::from_str_radix(pair, 16).map_err(invalid)?;
    }
    Ok(())
}

/// The same file under a descriptor that a child inherits.
pub(crate) fn inheritable(file: &OwnedFd) -> Result<OwnedFd, Error> {
    // SAFETY: `dup` makes a new descriptor, without the flag that closes it in a child; nothing
    // else owns it.
    let copied = unsafe { libc::dup(file.as_raw_fd()) };
    if copied < 0 {
        return Err(invalid(std::io::Error::last_os_error()));
    }
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(copied) })
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(crate) fn invalid(reason: impl ToString) -> Error {
    Error::invalid_argument("export test", reason.to_string())
}
