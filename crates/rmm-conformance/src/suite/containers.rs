//! Containers over a resource.

use rmm_containers::{DeviceBuffer, DeviceUVector};
use rmm_core::{AnyResource, Device, DeviceResource, Introspect};

use super::blocks::{BLOCK_WORDS, SLOW, take_over};
use crate::failure::ensure;
use crate::{CheckResult, Failure, Subject};

const BYTES: usize = 4 * BLOCK_WORDS as usize;

/// Fills all words of a buffer by a kernel on the buffer's stream.
fn fill<R: DeviceResource>(
    subject: &Subject<'_, R>,
    buffer: &DeviceBuffer,
    value: u32,
    spin_cycles: u64,
) -> CheckResult {
    let words = u32::try_from(buffer.len() / 4).map_err(Failure::new)?;
    let (stream, pointer) = (buffer.stream().as_stream_ref(), buffer.as_ptr());
    // SAFETY: the buffer's own words, on the stream that it is on.
    unsafe { subject.kernels().fill(stream, pointer, words, value, spin_cycles) }
}

fn filled(value: u32) -> Vec<u8> {
    (0..BLOCK_WORDS).flat_map(|word| value.wrapping_add(word).to_le_bytes()).collect()
}

/// A buffer holds what was copied or filled in, keeps it when it grows and shrinks, and knows its
/// resource.
///
/// # Errors
/// What is wrong.
pub fn buffers_hold_their_bytes<R: DeviceResource>(subject: &Subject<'_, R>) -> CheckResult {
    let (resource, stream) = (subject.resource(), subject.stream());
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(10_001).collect();
    let mut buffer = DeviceBuffer::from_slice_in(&bytes, stream, resource)?;
    ensure(*buffer.resource() == AnyResource::of(resource), || "another resource".into())?;
    ensure(buffer.resource().find::<R>() == Some(resource), || {
        "the resource's type is lost".into()
    })?;
    ensure(buffer.to_vec_on(stream)? == bytes, || "bytes were lost on the way".into())?;
    buffer.resize(300_000)?;
    ensure(buffer.to_vec_on(stream)?[..10_001] == bytes, || "bytes were lost by growing".into())?;
    buffer.resize(5000)?;
    ensure(buffer.capacity() == 300_000, || "the buffer moved by shrinking".into())?;
    buffer.shrink_to_fit()?;
    ensure(buffer.capacity() == 5000, || "capacity is left".into())?;
    ensure(buffer.to_vec_on(stream)? == bytes[..5000], || "bytes were lost by shrinking".into())?;
    buffer.fill(0x7f)?;
    ensure(buffer.to_vec_on(stream)? == [0x7f; 5000], || "a fill missed bytes".into())?;
    let aligned = DeviceBuffer::uninit_aligned_in(10, 16, stream, resource)?;
    ensure(aligned.as_ptr().0 % 16 == 0, || "a buffer is not aligned".into())?;
    let empty = DeviceBuffer::uninit_in(0, stream, resource)?;
    ensure(empty.to_vec_on(stream)?.is_empty(), || "an empty buffer holds something".into())
}

/// Work enqueued for a buffer comes first, whichever stream it is copied to, moved to or read on,
/// and on whichever thread it is dropped.
///
/// # Errors
/// What is wrong.
pub fn buffers_move_between_streams<R: DeviceResource>(subject: &Subject<'_, R>) -> CheckResult {
    let errors = subject.counter()?;
    let (resource, stream, other) = (subject.resource(), subject.stream(), subject.other_stream()?);
    let mut buffer = DeviceBuffer::uninit_in(BYTES, stream, resource)?;

    fill(subject, &buffer, 1, SLOW)?;
    let copied = buffer.try_clone_on(&other)?;
    fill(subject, &buffer, 2, 0)?; // must not reach the copy
    ensure(copied.to_vec_on(&other)? == filled(1), || "a clone is not as its original was".into())?;
    drop(copied);

    fill(subject, &buffer, 3, SLOW)?;
    buffer.set_stream(&other)?;
    ensure(buffer.to_vec_on(&other)? == filled(3), || "set_stream did not order the two".into())?;

    fill(subject, &buffer, 4, SLOW)?;
    ensure(buffer.to_vec_on(stream)? == filled(4), || "reading elsewhere came too early".into())?;

    buffer.set_stream(stream)?;
    fill(subject, &buffer, 5, SLOW)?;
    buffer.resize(BYTES + 1)?;
    ensure(buffer.to_vec_on(&other)?[..BYTES] == filled(5), || "growing came too early".into())?;

    let third = DeviceBuffer::uninit_in(BYTES, stream, resource)?;
    fill(subject, &third, 6, SLOW)?;
    (0..super::blocks::TRAIL).try_for_each(|_| fill(subject, &third, 6, 0))?;
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

/// A vector holds its elements, and keeps them when it is resized and on its way to other streams.
///
/// # Errors
/// What is wrong.
pub fn vectors_hold_their_elements<R: DeviceResource>(subject: &Subject<'_, R>) -> CheckResult {
    let (resource, stream, other) = (subject.resource(), subject.stream(), subject.other_stream()?);
    let elements: Vec<f64> = (0..3000).map(f64::from).collect();
    let mut vector = DeviceUVector::from_slice_in(&elements, stream, resource)?;
    ensure(vector.to_vec_on(stream)? == elements, || "elements were lost".into())?;
    ensure(vector.to_vec_on(&other)? == elements, || "elements were lost elsewhere".into())?;
    vector.resize(6000)?;
    ensure(vector.to_vec_on(stream)?[..3000] == elements, || "lost by growing".into())?;
    vector.copy_from_slice(&[0.5])?;
    vector.resize(2)?;
    ensure(vector.to_vec_on(stream)? == [0.5, 1.0], || "lost by shrinking".into())?;
    ensure(vector.into_buffer().len() == 16, || "the buffer is not as long".into())
}
