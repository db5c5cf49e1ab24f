//! The messages.

use serde::{Deserialize, Serialize};

use super::Content;

/// What a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Lock {
    /// To write: granted when no session writes or reads. It frees what was committed before.
    #[serde(rename = "rw")]
    Write,
    /// To read what is committed.
    #[serde(rename = "ro")]
    Read,
    /// To read what is committed, or to write if nothing is.
    #[serde(rename = "rw_or_ro", alias = "auto")]
    WriteOrRead,
}

/// What a session may do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Granted {
    /// Allocate, free and commit.
    #[serde(rename = "rw")]
    Write,
    /// Map what is committed.
    #[serde(rename = "ro")]
    Read,
}

/// Which owner it is, and of which GPU's memory: another number means that all memory is gone.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(from = "(String, String)", into = "(String, String)")]
pub struct Identity {
    /// Drawn by the owner when it starts.
    pub server_nonce: String,
    /// As `nvidia-smi -L` prints it: `GPU-`, and the UUID.
    pub gpu_uuid: String,
}

impl From<(String, String)> for Identity {
    fn from((server_nonce, gpu_uuid): (String, String)) -> Self {
        Self { server_nonce, gpu_uuid }
    }
}

impl From<Identity> for (String, String) {
    fn from(identity: Identity) -> Self {
        (identity.server_nonce, identity.gpu_uuid)
    }
}

/// An allocation of the owner's.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct AllocationRecord {
    /// The name that the client gave it.
    pub allocation_id: String,
    /// Its bytes, a multiple of the device's granularity.
    pub aligned_size: u64,
}

/// A process that has the lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct LockHolder {
    /// Its number, as the kernel gave it with the connection. 0 for a process of another PID
    /// namespace than the owner's, such as that of another container.
    pub process: u32,
    /// What it may do.
    pub lock: Granted,
}

/// A request or a response.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// The first request of a session. The response comes when the lock is granted.
    HandshakeRequest {
        /// What the client asks for.
        lock_type: Lock,
        /// The owner that the client had before; any, if there is none.
        #[serde(default)]
        expected_identity: Option<Identity>,
    },
    /// The lock is granted.
    HandshakeResponse {
        /// What the session may do.
        lock_type: Granted,
        /// See [`Identity`].
        server_nonce: String,
        /// See [`Identity`].
        gpu_uuid: String,
    },
    /// Make memory. Writers only.
    AllocateRequest {
        /// The name to give it.
        allocation_id: String,
        /// Its bytes, a multiple of the device's granularity.
        aligned_size: u64,
    },
    /// Send a file descriptor of an allocation.
    ExportRequest {
        /// Its name.
        allocation_id: String,
    },
    /// Free an allocation. Writers only.
    FreeRequest {
        /// Its name.
        allocation_id: String,
    },
    /// Name all allocations.
    ListAllocationsRequest {},
    /// Publish what is allocated: the writer becomes a reader.
    CommitRequest {},
    /// Free all that the writer has allocated, and end the session.
    AbortRequest {},
    /// Name the processes that hold the lock. It is sent in place of a handshake, and is not one of
    /// V1's messages.
    HoldersRequest {},
    /// Give a part of an allocation a name. Writers only. Not one of V1's messages.
    PutRequest {
        /// The name.
        name: String,
        /// What it stands for.
        content: Content,
    },
    /// What a name stands for. Not one of V1's messages.
    GetRequest {
        /// The name.
        name: String,
    },
    /// All names. Not one of V1's messages.
    ListNamesRequest {},
    /// The request was done.
    SuccessResponse {},
    /// The answer to an export: the frame has the descriptor.
    ExportResponse {},
    /// The answer to a list.
    ListAllocationsResponse {
        /// In the order in which they were allocated.
        allocations: Vec<AllocationRecord>,
    },
    /// The answer to [`GetRequest`](Self::GetRequest).
    GetResponse {
        /// What the name stands for.
        content: Content,
    },
    /// The answer to [`ListNamesRequest`](Self::ListNamesRequest).
    ListNamesResponse {
        /// In their order as text.
        names: Vec<String>,
    },
    /// The answer to [`HoldersRequest`](Self::HoldersRequest).
    HoldersResponse {
        /// The writer, or the readers.
        holders: Vec<LockHolder>,
    },
    /// The request was refused. The session goes on.
    ErrorResponse {
        /// Why.
        message: String,
        /// Whether there is not enough memory.
        #[serde(default)]
        out_of_memory: bool,
    },
}

impl Message {
    /// Whether its frame has a file descriptor.
    pub fn has_descriptor(&self) -> bool {
        matches!(self, Self::ExportResponse {})
    }
}
