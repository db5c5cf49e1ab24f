//! Containers that several streams use at the same time.

use std::mem::ManuallyDrop;

use rmm_containers::{DeviceScalar, DeviceSliceMut, DeviceUVector, OnStream, PinnedVec};
use rmm_core::{Device, DeviceResource};

use super::blocks::{BLOCK_WORDS, SLOW, TRAIL, take_over};
use crate::failure::ensure;
use crate::{CheckResult, Failure, Subject};

const WORDS: usize = BLOCK_WORDS as usize;

type Used<'s, 'a> = OnStream<'s, DeviceSliceMut<'a, u32>>;

/// Has a kernel fill the words that a container gave out, on the stream that they are ordered for,
/// some time from now on.
fn fill<R: DeviceResource>(
    subject: &Subject<'_, R>,
    used: &Used<'_, '_>,
    value: u32,
    spin_cycles: u64,
) -> CheckResult {
    let words = u32::try_from(used.bytes() / 4).map_err(Failure::new)?;
    let kernels = subject.kernels();
    // SAFETY: the container ordered its words for this stream.
    unsafe { kernels.fill(used.stream(), used.as_ptr(), words, value, spin_cycles) }
}

fn filled(words: usize, value: u32) -> Vec<u32> {
    (value..).take(words).collect()
}

/// Two streams write the halves of a vector, and its own stream reads them; they use it again, and
/// it is freed behind them.
///
/// # Errors
/// What is wrong.
pub fn halves_are_written_by_two_streams<R: DeviceResource>(
    subject: &Subject<'_, R>,
) -> CheckResult {
    let errors = subject.counter()?;
    let (resource, stream) = (subject.resource(), subject.stream());
    let (first, second) = (subject.other_stream()?, subject.other_stream()?);
    let mut vector = DeviceUVector::<u32>::uninit_in(WORDS, stream, resource)?;
    for round in 0..2 {
        vector.fill(0)?;
        let (left, right) = vector.as_slice_mut().split_at(WORDS / 4)?;
        let left = left.into_use_on(&first)?;
        let right = right.into_use_on(&second)?;
        fill(subject, &left, round, SLOW)?;
        fill(subject, &right, round + 7, 0)?;
        // The address is good for all that is enqueued while it lives.
        (0..TRAIL).try_for_each(|_| fill(subject, &left, round, 0))?;
        let elements = vector.to_vec_on(stream)?;
        ensure(elements[..WORDS / 4] == filled(WORDS / 4, round), || {
            "the first half was read too early".into()
        })?;
        ensure(elements[WORDS / 4..] == filled(3 * WORDS / 4, round + 7), || {
            "the second half was read too early".into()
        })?;
    }
    // Not dropped: nothing depends on it.
    let left = ManuallyDrop::new(vector.use_on_mut(&first)?);
    fill(subject, &left, 3, SLOW)?;
    (0..TRAIL).try_for_each(|_| fill(subject, &left, 3, 0))?;
    let pointer = vector.as_ptr();
    drop(vector);
    drop(take_over(subject, stream, pointer, BLOCK_WORDS, &errors)?);
    Ok(Device::synchronize_current()?)
}

/// Pinned memory goes through streams in order, is read by the host when it is written, and not
/// freed under a copy.
///
/// # Errors
/// What is wrong.
pub fn pinned_vectors_wait_for_their_copies<R: DeviceResource>(
    subject: &Subject<'_, R>,
) -> CheckResult {
    let (resource, stream, other) = (subject.resource(), subject.stream(), subject.other_stream()?);
    let numbers = filled(WORDS, 5);
    let mut vector = DeviceUVector::<u32>::uninit_in(WORDS, stream, resource)?;
    fill(subject, &vector.use_on_mut(stream)?, 0, SLOW)?;
    let mut staging = PinnedVec::from_slice(&numbers)?;
    vector.copy_from(staging.device_slice())?;
    ensure(staging.as_slice()? == numbers, || "the source has changed".into())?;
    staging.as_mut_slice()?.fill(0);
    ensure(vector.to_vec_on(stream)? == numbers, || "the host wrote under a copy".into())?;

    fill(subject, &vector.use_on_mut(stream)?, 9, SLOW)?;
    staging.copy_from_device(vector.as_slice(), &other)?;
    ensure(staging.as_slice()? == filled(WORDS, 9), || "the host read too early".into())?;

    fill(subject, &vector.use_on_mut(&other)?, 0, SLOW)?;
    vector.as_slice_mut().copy_from_on(staging.device_slice(), &other)?;
    drop(staging);
    drop(PinnedVec::from_slice(&filled(WORDS, 77))?); // may lie where the former one did
    ensure(vector.to_vec_on(stream)? == filled(WORDS, 9), || "freed under a copy".into())
}

/// Values that are set in stream order come with the call, bit by bit, whatever their size and
/// wherever they go.
///
/// # Errors
/// What is wrong.
pub fn values_travel_with_the_call<R: DeviceResource>(subject: &Subject<'_, R>) -> CheckResult {
    let (resource, stream) = (subject.resource(), subject.stream());
    let mut scalar = DeviceScalar::new_in(-0.0f64, stream, resource)?;
    ensure(scalar.value_on(stream)?.is_sign_negative(), || "the sign is lost".into())?;
    scalar.set_value_to_zero_async()?;
    ensure(scalar.value_on(stream)?.is_sign_positive(), || "a sign came back".into())?;

    let elements: Vec<[u16; 3]> = (0..999).map(|i| [i, i + 1, i + 2]).collect();
    let mut vector = DeviceUVector::from_slice_in(&elements, stream, resource)?;
    vector.set_element_async(1, [7, 8, 9])?;
    vector.as_slice_mut().slice(500..)?.fill_on([4, 5, 6], stream)?;
    ensure(vector.element_on(0, stream)? == elements[0], || "a neighbour was written".into())?;
    ensure(vector.element_on(1, stream)? == [7, 8, 9], || "the element is another".into())?;
    ensure(vector.element_on(2, stream)? == elements[2], || "a neighbour was written".into())?;
    let found = vector.to_vec_on(stream)?;
    ensure(found[2..500] == elements[2..500], || "elements before were written".into())?;
    ensure(found[500..] == [[4, 5, 6]; 499], || "elements were left out".into())
}
