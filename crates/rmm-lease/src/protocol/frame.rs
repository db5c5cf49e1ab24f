//! Frames: a length, a message, and perhaps a descriptor.

use serde::{Deserialize as _, Serialize as _};

use super::Message;

/// The largest payload, in bytes.
pub const MAX_FRAME: usize = 1 << 20;

const HEADER: usize = 4;

/// How deep arrays and maps are nested at most. Messages have 3 levels; each takes space on the
/// stack, which must not overflow.
const DEPTH: usize = 16;

/// Why bytes are no frame. The connection cannot be used any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The length is above [`MAX_FRAME`].
    #[error("a frame of {0} bytes: at most {MAX_FRAME} are allowed")]
    TooLarge(usize),
    /// The payload is no message.
    #[error("the frame is no message of this protocol: {0}")]
    NoMessage(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Bytes follow the message in its frame.
    #[error("the frame has {0} bytes behind its message")]
    Trailing(usize),
    /// A descriptor is missing, or is one too many.
    #[error("the frame has {found} file descriptors instead of {wanted}")]
    Descriptors {
        /// How many came.
        found: usize,
        /// How many the message has.
        wanted: usize,
    },
    /// The connection ended within a frame.
    #[error("the connection ended within a frame, after {0} bytes")]
    Truncated(usize),
}

/// A message with its descriptor, of a type that closes itself.
#[derive(PartialEq, Eq, Debug)]
pub struct Frame<D> {
    /// The message.
    pub message: Message,
    /// There is one exactly if the message [has one](Message::has_descriptor).
    pub descriptor: Option<D>,
}

/// The bytes of a message's frame.
///
/// ```
/// use rmm_lease::protocol::{Message, encode};
///
/// let frame = encode(&Message::CommitRequest {}).unwrap();
/// assert_eq!(frame, b"\0\0\0\x15\x81\xa4type\xaecommit_request");
/// ```
///
/// # Errors
/// [`FrameError::TooLarge`].
pub fn encode(message: &Message) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; HEADER];
    let mut serializer = rmp_serde::Serializer::new(&mut frame).with_struct_map();
    message.serialize(&mut serializer).map_err(|error| FrameError::NoMessage(error.into()))?;
    let length = frame.len() - HEADER;
    let header = u32::try_from(length).ok().filter(|_| length <= MAX_FRAME);
    let header = header.ok_or(FrameError::TooLarge(length))?;
    frame[..HEADER].copy_from_slice(&header.to_be_bytes());
    Ok(frame)
}

/// Puts frames together from what a connection delivers.
///
/// ```
/// use rmm_lease::protocol::{FrameReader, Message, encode};
///
/// let bytes = encode(&Message::CommitRequest {}).unwrap();
/// let mut reader: FrameReader<std::os::fd::OwnedFd> = FrameReader::new();
/// let (mut rest, mut frame) = (bytes.as_slice(), None);
/// while frame.is_none() {
///     let (now, later) = rest.split_at(reader.wanted()); // what `recvmsg` would return
///     frame = reader.push(now, []).unwrap();
///     rest = later;
/// }
/// assert_eq!(frame.unwrap().message, Message::CommitRequest {});
/// ```
#[derive(Debug)]
pub struct FrameReader<D> {
    /// # Invariant
    /// Fewer bytes than a header and its payload have.
    bytes: Vec<u8>,
    descriptors: Vec<D>,
}

impl<D> Default for FrameReader<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D> FrameReader<D> {
    /// A reader at the begin of a frame.
    pub fn new() -> Self {
        Self { bytes: Vec::new(), descriptors: Vec::new() }
    }

    /// How many bytes to read at most: with more, a descriptor of the next frame could not be told
    /// from one of this frame.
    pub fn wanted(&self) -> usize {
        self.payload().map_or(HEADER, |length| HEADER + length) - self.bytes.len()
    }

    /// The length that the header names, once there is one.
    fn payload(&self) -> Option<usize> {
        let header = self.bytes.first_chunk::<HEADER>()?;
        Some(usize::try_from(u32::from_be_bytes(*header)).unwrap_or(usize::MAX))
    }

    /// Adds what was read, and returns the frame that it completes. After an error the connection
    /// is to be closed.
    ///
    /// # Errors
    /// Any but [`FrameError::Truncated`].
    ///
    /// # Panics
    /// If these are more bytes than [`wanted`](Self::wanted).
    pub fn push(
        &mut self,
        bytes: &[u8],
        descriptors: impl IntoIterator<Item = D>,
    ) -> Result<Option<Frame<D>>, FrameError> {
        assert!(bytes.len() <= self.wanted(), "at most `wanted` bytes are read at once");
        self.descriptors.extend(descriptors);
        self.bytes.extend_from_slice(bytes);
        if self.descriptors.len() > 1 {
            let found = self.descriptors.len();
            return Err(FrameError::Descriptors { found, wanted: 1 });
        }
        let Some(length) = self.payload() else { return Ok(None) };
        if length > MAX_FRAME {
            return Err(FrameError::TooLarge(length));
        }
        if self.bytes.len() < HEADER + length {
            return Ok(None);
        }
        let message = decode(&self.bytes[HEADER..])?;
        let (found, wanted) = (self.descriptors.len(), usize::from(message.has_descriptor()));
        if found != wanted {
            return Err(FrameError::Descriptors { found, wanted });
        }
        self.bytes.clear();
        Ok(Some(Frame { message, descriptor: self.descriptors.pop() }))
    }

    /// To be called when the connection ends.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if that is within a frame.
    pub fn finish(self) -> Result<(), FrameError> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        Err(FrameError::Truncated(self.bytes.len()))
    }
}

fn decode(payload: &[u8]) -> Result<Message, FrameError> {
    let mut rest = payload;
    let mut deserializer = rmp_serde::Deserializer::new(&mut rest);
    deserializer.set_max_depth(DEPTH);
    let message = Message::deserialize(&mut deserializer)
        .map_err(|error| FrameError::NoMessage(error.into()))?;
    match rest.len() {
        0 => Ok(message),
        bytes => Err(FrameError::Trailing(bytes)),
    }
}
