//! Frames over a Unix socket, without waiting.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::protocol::{Frame, FrameError, FrameReader, Message, encode};
use crate::unforked::Unforked;

/// How many descriptors are taken from one message of the socket. More are an error, as two are.
const DESCRIPTORS: usize = 16;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// A descriptor that came with a frame; none if this process had no number left for it, and it is
/// lost.
pub(crate) type Arrived = Option<OwnedFd>;

pub(crate) enum Received {
    Frame(Frame<Arrived>),
    /// Nothing more for now.
    Nothing,
    /// The peer has closed the connection, at the end of a frame.
    End,
}

/// A connection that has at most one frame to send.
pub(crate) struct Connection {
    stream: Unforked<UnixStream>,
    reader: FrameReader<Arrived>,
    /// What is left of the frame that is being sent, and its descriptor, if none of its bytes have
    /// been.
    outgoing: Vec<u8>,
    descriptor: Option<OwnedFd>,
}

impl Connection {
    pub(crate) fn new(stream: Unforked<UnixStream>) -> Self {
        Self { stream, reader: FrameReader::new(), outgoing: Vec::new(), descriptor: None }
    }

    /// Reads until a frame is complete, or there is nothing.
    pub(crate) fn receive(&mut self) -> Result<Received, ConnectionError> {
        loop {
            let mut bytes = [0; 4096];
            let wanted = self.reader.wanted().min(bytes.len());
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            let place = &mut [IoSliceMut::new(&mut bytes[..wanted])];
            let received = match recvmsg(&self.stream, place, &mut control, flags) {
                Ok(received) => received,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                Err(error) => return Err(io::Error::from(error).into()),
            };
            let mut descriptors: Vec<Arrived> = Vec::new();
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(files) = message {
                    descriptors.extend(files.map(Some));
                }
            }
            // There was no space for all of them, or no number: then the frame goes on.
            if received.flags.contains(ReturnFlags::CTRUNC) {
                descriptors.push(None);
            }
            if received.bytes == 0 {
                std::mem::take(&mut self.reader).finish()?;
                return Ok(Received::End);
            }
            if let Some(frame) = self.reader.push(&bytes[..received.bytes], descriptors)? {
                return Ok(Received::Frame(frame));
            }
        }
    }

    /// Begins to send a frame. The one before has been sent.
    pub(crate) fn send(
        &mut self,
        message: &Message,
        descriptor: Option<OwnedFd>,
    ) -> Result<(), ConnectionError> {
        debug_assert!(!self.is_sending(), "a session has one response at a time");
        self.outgoing = encode(message)?;
        self.descriptor = descriptor;
        self.flush()
    }

    pub(crate) fn is_sending(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Sends what the socket takes.
    pub(crate) fn flush(&mut self) -> Result<(), ConnectionError> {
        while self.is_sending() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let files = self.descriptor.as_ref().map(|file| [file.as_fd()]);
            if let Some(files) = &files {
                let has_room = control.push(SendAncillaryMessage::ScmRights(files));
                debug_assert!(has_room, "the space is for one descriptor");
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let bytes = &[IoSlice::new(&self.outgoing)];
            match sendmsg(&self.stream, bytes, &mut control, flags) {
                Ok(sent) => {
                    self.outgoing.drain(..sent);
                    self.descriptor = None;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    /// Waits until the connection can go on: whether that is before the deadline.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> io::Result<bool> {
        let flags = if self.is_sending() { PollFlags::OUT } else { PollFlags::IN };
        wait_for(&mut [PollFd::new(&self.stream, flags)], deadline)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Waits for one of the files: whether that is before the deadline.
pub(crate) fn wait_for(files: &mut [PollFd<'_>], deadline: Option<Instant>) -> io::Result<bool> {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.map(|left| {
            Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
        });
        match poll(files, left.as_ref()) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
