//! One entry of a device's trace, and the fields of dictionaries.

use super::super::error::Reason;
use super::super::pickle::{Node, Pickle, Value};
use super::wrong::Place;

/// What an entry says, as far as it is read.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) stream: u64,
    /// Microseconds, if known.
    pub(super) time: Option<i64>,
    pub(super) frames: Option<Value>,
    /// The user's metadata.
    pub(super) tag: Option<Node>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Allocate,
    Free,
    Failure,
    /// The allocator took memory from the driver.
    Grow,
    /// The allocator returned memory.
    Shrink,
    /// The program attached metadata to a live block.
    Annotate,
    Other,
}

impl Entry {
    /// Reads an entry; `place` is where it stands.
    pub(super) fn read(pickle: &Pickle, entry: Node, place: Place) -> Result<Self, Reason> {
        let action =
            pickle.get(entry, "action").and_then(|action| pickle.text(pickle.node(action)));
        let kind = match action.as_deref() {
            Some("alloc") => Kind::Allocate,
            Some("free_completed") => Kind::Free,
            Some("oom") => Kind::Failure,
            Some("segment_alloc" | "segment_map") => Kind::Grow,
            Some("segment_free" | "segment_unmap") => Kind::Shrink,
            Some("annotate") => Kind::Annotate,
            Some(_) => Kind::Other,
            None => return Err(place.wrong("has no action")),
        };
        let is_read = kind != Kind::Other;
        let has_address = is_read && kind != Kind::Failure;
        let has_size = is_read && kind != Kind::Annotate;
        Ok(Self {
            kind,
            address: if has_address { needed(pickle, entry, "addr", place)? } else { 0 },
            size: if has_size {
                possible(needed(pickle, entry, "size", place)?, place)?
            } else {
                0
            },
            stream: number(pickle, entry, "stream", place)?.unwrap_or(0),
            time: match pickle.get(entry, "time_us").map(|time| pickle.node(time)) {
                Some(Node::Int(time)) => Some(time),
                _ => None,
            },
            frames: frames(pickle, entry),
            tag: metadata(pickle, entry),
        })
    }
}

/// The stack of an entry or a block; old versions have it in the block's history.
pub(super) fn frames(pickle: &Pickle, node: Node) -> Option<Value> {
    pickle.get(node, "frames").or_else(|| {
        let history = pickle.get(node, "history")?;
        let latest = *pickle.sequence(pickle.node(history))?.first()?;
        pickle.get(pickle.node(latest), "frames")
    })
}

/// What the user attached to an entry or a block.
pub(super) fn metadata(pickle: &Pickle, node: Node) -> Option<Node> {
    pickle.get(node, "user_metadata").map(|metadata| pickle.node(metadata))
}

/// The number of a key; a negative one is a pointer or handle of 64 bits.
pub(super) fn number(
    pickle: &Pickle,
    node: Node,
    key: &str,
    place: Place,
) -> Result<Option<u64>, Reason> {
    match pickle.get(node, key).map(|value| pickle.node(value)) {
        None | Some(Node::None) => Ok(None),
        Some(Node::Int(number)) => Ok(Some(number.cast_unsigned())),
        Some(_) => Err(place.wrong_at(key, "is no integer of 64 bits")),
    }
}

/// The number of a key that must be there.
pub(super) fn needed(pickle: &Pickle, node: Node, key: &str, place: Place) -> Result<u64, Reason> {
    number(pickle, node, key, place)?.ok_or_else(|| place.wrong(format!("has no {key}")))
}

/// A size, if a block can have it.
pub(super) fn possible(size: u64, place: Place) -> Result<u64, Reason> {
    if size > isize::MAX as u64 {
        return Err(place.wrong_at("size", format!("{size} is more than a block can have")));
    }
    Ok(size)
}
