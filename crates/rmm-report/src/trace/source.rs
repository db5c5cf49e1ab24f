//! The text of a log: decompression, and a limit on the length of a line.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use super::error::Compression;
use super::event::MAX_LINE;

/// The longest magic number that is looked at.
const MAGIC: usize = 4;

/// Detects the compression of the input and returns its text.
///
/// The window that a zstd frame may ask for is limited by the decoder to 128 MiB.
pub(super) fn open<'a>(mut input: impl Read + 'a) -> io::Result<(Compression, Box<dyn Read + 'a>)> {
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
) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match compression {
        Compression::Plain => Box::new(input),
        Compression::Gzip => Box::new(MultiGzDecoder::new(input)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(input)?),
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

/// Passes text through as whole lines of bounded length: fails at a line of more than [`MAX_LINE`]
/// bytes, and ends a last line that has no line end, so that the reader behind it can count lines.
pub(super) struct BoundedLines<R> {
    inner: R,
    /// The line being passed through, from 1.
    line: u64,
    /// How many of its bytes have been passed through.
    column: usize,
    too_long: bool,
    /// The last line, if it had no line end.
    unended_line: Option<u64>,
}

impl<R: Read> BoundedLines<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, line: 1, column: 0, too_long: false, unended_line: None }
    }

    /// The last line, if the text ends in the middle of it.
    pub(super) fn unended_line(&self) -> Option<u64> {
        self.unended_line
    }

    fn line_too_long(&self) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, LineTooLong { line: self.line })
    }

    /// Goes over the bytes that were read, and says how many of them are within the bound.
    fn accept(&mut self, bytes: &[u8]) -> usize {
        let mut start = 0;
        loop {
            let rest = &bytes[start..];
            let (length, ended) = match rest.iter().position(|&byte| byte == b'\n') {
                Some(position) => (position, true),
                None => (rest.len(), false),
            };
            if self.column + length > MAX_LINE {
                self.too_long = true;
                return start;
            }
            if !ended {
                self.column += length;
                return bytes.len();
            }
            self.line += 1;
            self.column = 0;
            start += length + 1;
        }
    }
}

impl<R: Read> Read for BoundedLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.too_long {
            return Err(self.line_too_long());
        }
        let read = self.inner.read(buffer)?;
        if read == 0 && self.column > 0 && !buffer.is_empty() {
            buffer[0] = b'\n';
            self.column = 0;
            self.unended_line = Some(self.line);
            self.line += 1;
            return Ok(1);
        }
        match self.accept(&buffer[..read]) {
            0 if self.too_long => Err(self.line_too_long()),
            accepted => Ok(accepted),
        }
    }
}

/// The payload of the I/O error for a line that is too long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("line {line} is longer than {MAX_LINE} bytes")]
pub(super) struct LineTooLong {
    /// Which line, from 1.
    pub(super) line: u64,
}
