//! Fills: values are passed to the driver as arguments, without a copy from host memory.

use rmm_core::{DevicePtr, Error, StreamRef, copy};

/// Sets `bytes` bytes to repetitions of `pattern`. One driver call if the pattern repeats within
/// four bytes; otherwise one call per four bytes of the pattern, and then device copies that double
/// the filled range each time.
///
/// # Safety
/// `target` points to `bytes` bytes of device memory, a multiple of the pattern's length. Other
/// uses of them are ordered before this point on the stream, or after the calls.
pub(crate) unsafe fn repeat(
    target: DevicePtr,
    pattern: &[u8],
    bytes: usize,
    stream: StreamRef<'_>,
) -> Result<(), Error> {
    let Some(&first) = pattern.first() else { return Ok(()) };
    if pattern.iter().all(|byte| *byte == first) {
        // SAFETY: the caller's contract.
        return unsafe { copy::fill(target, first, bytes, stream) };
    }
    if let Some(word) = as_word(pattern)
        && target.0.is_multiple_of(4)
        && bytes.is_multiple_of(4)
    {
        // SAFETY: the caller's contract; the address is aligned.
        return unsafe { copy::fill_words(target, word, bytes / 4, stream) };
    }
    // SAFETY: the memory has at least the length of the pattern.
    unsafe { write_once(target, pattern, stream) }?;
    let mut done = pattern.len();
    while done < bytes {
        let more = done.min(bytes - done);
        let next = DevicePtr(target.0 + done as u64);
        // SAFETY: the first `done` bytes are written before this point on the stream. The next
        // `more` bytes, at most as many, follow them and lie within the memory.
        unsafe { copy::device_to_device(next, target, more, stream) }?;
        done += more;
    }
    Ok(())
}

/// The four bytes that a pattern of 2 or 4 bytes repeats to.
fn as_word(pattern: &[u8]) -> Option<u32> {
    match *pattern {
        [a, b] => Some(u32::from_ne_bytes([a, b, a, b])),
        [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d])),
        _ => None,
    }
}

/// Writes the bytes, up to four per call.
///
/// # Safety
/// The contract of [`repeat`], for the pattern's length.
unsafe fn write_once(
    target: DevicePtr,
    pattern: &[u8],
    stream: StreamRef<'_>,
) -> Result<(), Error> {
    let (words, rest) =
        if target.0.is_multiple_of(4) { pattern.as_chunks::<4>() } else { (&[][..], pattern) };
    for (at, word) in words.iter().enumerate() {
        let place = DevicePtr(target.0 + 4 * at as u64);
        // SAFETY: within the memory, at an aligned address.
        unsafe { copy::fill_words(place, u32::from_ne_bytes(*word), 1, stream) }?;
    }
    for (at, byte) in rest.iter().enumerate() {
        let place = DevicePtr(target.0 + (4 * words.len() + at) as u64);
        // SAFETY: within the memory.
        unsafe { copy::fill(place, *byte, 1, stream) }?;
    }
    Ok(())
}
