//! Checks of [`DeviceBuffer`] and [`DeviceUVector`] on the resource: contents, resizing, and order
//! between streams.

use rmm_containers::{DeviceBuffer, DeviceUVector};
use rmm_core::{AnyResource, Device, DeviceResource, Introspect};

use super::blocks::{BLOCK_WORDS, SLOW, take_over};
use crate::failure::ensure;
use crate::{CheckResult, Failure, Subject};

/// Bytes of a buffer of [`BLOCK_WORDS`] words.
const BYTES: usize = 4 * BLOCK_WORDS as usize;

/// Launches a kernel on the buffer's stream that spins for `spin_cycles`, then writes
/// `value + index` to each word of the buffer.
fn launch_fill<R: DeviceResource>(
    subject: &Subject<'_, R>,
    buffer: &DeviceBuffer,
    value: u32,
    spin_cycles: u64,
) -> CheckResult {
    let words = u32::try_from(buffer.len() / 4).map_err(Failure::new)?;
    let (stream, pointer) = (buffer.stream().as_stream_ref(), buffer.as_ptr());
    // SAFETY: the kernel writes only to the buffer, and runs on the stream that the buffer is bound
    // to, so it runs before the buffer is resized, rebound or freed.
    unsafe { subject.kernels().fill(stream, pointer, words, value, spin_cycles) }
}

/// The bytes that [`launch_fill`] writes to a buffer of [`BYTES`].
fn filled(value: u32) -> Vec<u8> {
    (0..BLOCK_WORDS).flat_map(|word| value.wrapping_add(word).to_le_bytes()).collect()
}

/// Checks that a buffer keeps its bytes when it grows and shrinks, and names the resource that it
/// was allocated from.
///
/// # Errors
/// A description of the first check that failed, or the error of a call.
pub fn buffers_hold_their_bytes<R: DeviceResource>(subject: &Subject<'_, R>) -> CheckResult {
    let (resource, stream) = (subject.resource(), subject.stream());
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(10_001).collect();
    let mut buffer = DeviceBuffer::from_slice_in(&bytes, stream, resource)?;
    ensure(*buffer.resource() == AnyResource::of(resource), || {
        "the buffer names another resource".into()
    })?;
    ensure(buffer.resource().find::<R>() == Some(resource), || {
        "the buffer does not find its resource by type".into()
    })?;
    ensure(buffer.to_vec_on(stream)? == bytes, || "copying in and out changed bytes".into())?;
    buffer.resize(300_000)?;
    ensure(buffer.to_vec_on(stream)?[..10_001] == bytes, || "growing changed bytes".into())?;
    buffer.resize(5000)?;
    ensure(buffer.capacity() == 300_000, || "resize to fewer bytes changed the capacity".into())?;
    buffer.shrink_to_fit()?;
    ensure(buffer.capacity() == 5000, || "shrink_to_fit left capacity".into())?;
    ensure(buffer.to_vec_on(stream)? == bytes[..5000], || "shrinking changed bytes".into())?;
    buffer.fill(0x7f)?;
    ensure(buffer.to_vec_on(stream)? == [0x7f; 5000], || "fill missed bytes".into())?;
    let aligned = DeviceBuffer::uninit_aligned_in(10, 16, stream, resource)?;
    ensure(aligned.as_ptr().0 % 16 == 0, || "the buffer is not aligned to 16".into())?;
    let empty = DeviceBuffer::uninit_in(0, stream, resource)?;
    ensure(empty.to_vec_on(stream)?.is_empty(), || "an empty buffer has bytes".into())
}

/// Checks that work on a buffer completes before the buffer is copied, read, moved to another
/// stream or reallocated, and before its memory is reused after a drop on another thread.
///
/// # Errors
/// A description of the first check that failed, or the error of a call.
pub fn buffers_move_between_streams<R: DeviceResource>(subject: &Subject<'_, R>) -> CheckResult {
    let errors = subject.counter()?;
    let (resource, stream, other) = (subject.resource(), subject.stream(), subject.other_stream()?);
    let mut buffer = DeviceBuffer::uninit_in(BYTES, stream, resource)?;

    launch_fill(subject, &buffer, 1, SLOW)?;
    let copied = buffer.try_clone_on(&other)?;
    launch_fill(subject, &buffer, 2, 0)?; // later work: must not change the copy
    ensure(copied.to_vec_on(&other)? == filled(1), || "the clone has other bytes".into())?;
    drop(copied);

    launch_fill(subject, &buffer, 3, SLOW)?;
    buffer.set_stream(&other)?;
    ensure(buffer.to_vec_on(&other)? == filled(3), || {
        "set_stream did not order the streams".into()
    })?;

    launch_fill(subject, &buffer, 4, SLOW)?;
    ensure(buffer.to_vec_on(stream)? == filled(4), || {
        "a read on another stream was too early".into()
    })?;

    buffer.set_stream(stream)?;
    launch_fill(subject, &buffer, 5, SLOW)?;
    buffer.resize(BYTES + 1)?;
    ensure(buffer.to_vec_on(&other)?[..BYTES] == filled(5), || "resize copied too early".into())?;

    let third = DeviceBuffer::uninit_in(BYTES, stream, resource)?;
    launch_fill(subject, &third, 6, SLOW)?;
    (0..super::blocks::TRAIL).try_for_each(|_| launch_fill(subject, &third, 6, 0))?;
    let pointer = third.as_ptr();
    let device = subject.device();
    let dropped = std::thread::scope(|scope| {
        let dropper = scope.spawn(move || {
            let current = device.make_current();
            drop(third);
            current.map(drop)
        });
        dropper.join()
    });
    dropped.map_err(|_| Failure::new("dropping a buffer on another thread panicked"))??;
    drop(take_over(subject, &other, pointer, BLOCK_WORDS, &errors)?);
    drop(buffer);
    Ok(Device::synchronize_current()?)
}

/// Checks that a vector keeps its elements when it is resized and read on other streams.
///
/// # Errors
/// A description of the first check that failed, or the error of a call.
pub fn vectors_hold_their_elements<R: DeviceResource>(subject: &Subject<'_, R>) -> CheckResult {
    let (resource, stream, other) = (subject.resource(), subject.stream(), subject.other_stream()?);
    let elements: Vec<f64> = (0..3000).map(f64::from).collect();
    let mut vector = DeviceUVector::from_slice_in(&elements, stream, resource)?;
    ensure(vector.to_vec_on(stream)? == elements, || "copying in and out changed elements".into())?;
    ensure(vector.to_vec_on(&other)? == elements, || "a read on another stream is wrong".into())?;
    vector.resize(6000)?;
    ensure(vector.to_vec_on(stream)?[..3000] == elements, || "growing changed elements".into())?;
    vector.copy_from_slice(&[0.5])?;
    vector.resize(2)?;
    ensure(vector.to_vec_on(stream)? == [0.5, 1.0], || "shrinking changed elements".into())?;
    ensure(vector.into_buffer().len() == 16, || "into_buffer has another length".into())
}
