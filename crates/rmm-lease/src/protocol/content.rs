//! What a name of the program's stands for.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A part of an allocation that has a name, and what the program says of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Content {
    /// The allocation.
    pub allocation_id: String,
    /// Where it begins in the allocation, in bytes.
    pub offset: u64,
    /// Its size, in bytes.
    pub size: u64,
    /// Whatever a reader needs to use it, such as a shape and a type. At most
    /// [`MAX_CONTENT`] bytes.
    #[serde(serialize_with = "write", deserialize_with = "read")]
    pub bytes: Vec<u8>,
}

/// How many bytes a program can say of a [`Content`].
pub const MAX_CONTENT: usize = 4096;

/// How long the name of an allocation or of a [`Content`] may be, in bytes.
pub const MAX_NAME: usize = 1024;

fn write<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    deserializer.deserialize_byte_buf(Bytes)
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = numbers.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}
