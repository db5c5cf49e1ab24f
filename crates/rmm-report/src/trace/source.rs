//! The text of a log: decompression, and lines of limited length.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use super::error::Compression;
use super::event::MAX_LINE;

/// The longest magic number that is looked at.
const MAGIC: usize = 4;

/// Detects the compression of the input and returns its text.
///
/// The window that a zstd frame may ask for is limited by the decoder to 128 MiB.
pub(super) fn open<'a>(
    mut input: impl Read + 'a,
) -> io::Result<(Compression, Box<dyn BufRead + 'a>)> {
    let mut magic = Vec::with_capacity(MAGIC);
    input.by_ref().take(MAGIC as u64).read_to_end(&mut magic)?;
    let compression = recognise(&magic);
    let input: BufReader<Chain<Cursor<Vec<u8>>, _>> =
        BufReader::new(Cursor::new(magic).chain(input));
    Ok((compression, decoder(compression, input)?))
}

fn decoder<'a>(
    compression: Compression,
    input: impl BufRead + 'a,
) -> io::Result<Box<dyn BufRead + 'a>> {
    Ok(match compression {
        Compression::Plain => Box::new(input),
        Compression::Gzip => Box::new(BufReader::new(MultiGzDecoder::new(input))),
        Compression::Zstd => {
            Box::new(BufReader::new(zstd::stream::read::Decoder::with_buffer(input)?))
        }
    })
}

fn recognise(magic: &[u8]) -> Compression {
    match magic {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        // A frame, or one of the skippable frames that some writers put before the first.
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Compression::Zstd,
        _ => Compression::Plain,
    }
}

/// The lines of a text, of which none may have more than [`MAX_LINE`] bytes.
pub(super) struct Lines<R> {
    inner: R,
    buffer: Vec<u8>,
    /// The number of the line in the buffer, from 1.
    number: u64,
}

/// A line without its line end.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) text: &'a [u8],
    pub(super) number: u64,
    /// Whether it had a line end.
    pub(super) is_ended: bool,
}

/// Why there is no next line.
#[derive(Debug)]
pub(super) enum LineError {
    Read(io::Error),
    /// With the line's number.
    TooLong(u64),
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, buffer: Vec::new(), number: 0 }
    }

    /// The next line; none at the end of the text.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, LineError> {
        self.buffer.clear();
        let mut limited = self.inner.by_ref().take(MAX_LINE as u64 + 1);
        if limited.read_until(b'\n', &mut self.buffer).map_err(LineError::Read)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let mut text = self.buffer.as_slice();
        let is_ended = text.ends_with(b"\n");
        if is_ended {
            text = &text[..text.len() - 1];
        } else if text.len() > MAX_LINE {
            return Err(LineError::TooLong(self.number));
        }
        if self.number == 1 {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        text = text.strip_suffix(b"\r").unwrap_or(text);
        Ok(Some(Line { text, number: self.number, is_ended }))
    }
}
