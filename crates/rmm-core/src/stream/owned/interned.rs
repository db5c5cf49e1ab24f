//! The table of streams by handle, which gives everyone who adopts a stream the same one.
//!
//! ```text
//! (handle, context)      a stream that exists until its last CudaStream is dropped
//! (handle, no context)   a handle whose stream may change between calls
//!          |
//!          v
//!     Weak<Inner>        upgraded by an adoption; removed by Inner::drop
//! ```
//!
//! An entry never outlives its stream: [`forget`] removes it before the stream is destroyed. So
//! the table has as many entries as there are streams. A new stream with the handle of an old one
//! has another id from the driver, which an adoption compares.
#![forbid(unsafe_code)]

#[cfg(all(test, rmm_loom))]
mod models;
mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use self::table::{Entries, Key};
use super::{Inner, StreamKind, StreamLifetime};
use crate::StreamId;

/// Lock order: only that of an identity's context comes after it. An `Arc<Inner>` is never dropped
/// under it, since [`forget`] takes it.
static TABLE: Mutex<Entries<Arc<Inner>>> = Mutex::new(BTreeMap::new());

/// Where the stream's entry is, and the id in it; `None` for the default streams, which need none.
fn entry_of(inner: &Inner) -> Option<(Key, StreamId)> {
    let handle = inner.handle.addr();
    let key = match inner.kind {
        StreamKind::Legacy | StreamKind::PerThread => None,
        StreamKind::Adopted(StreamLifetime::Unknown) => Some((handle, None)),
        _ => inner.context.map(|context| (handle, Some(context.key()))),
    };
    key.map(|key| (key, inner.id))
}

/// Enters the stream, and returns it; or returns the one that is there, if it `is_same`.
pub(super) fn enter_or_get(new: Inner, is_same: impl FnOnce(&Inner) -> bool) -> Arc<Inner> {
    let entry = entry_of(&new);
    let new = Arc::new(new);
    match entry {
        Some(entry) => table::enter_or_get(&TABLE, entry, new, |known| is_same(known)),
        None => new,
    }
}

/// Enters the stream in place of what is there.
pub(super) fn replace(new: &Arc<Inner>) {
    if let Some(entry) = entry_of(new) {
        table::replace(&TABLE, entry, new);
    }
}

/// Removes the stream's entry, if it still has one. Called when the stream is dropped.
pub(super) fn forget(inner: &Inner) {
    if let Some(entry) = entry_of(inner) {
        table::forget(&TABLE, entry);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use rmm_sys::CuStream;

    use super::table::Lock as _;
    use super::*;
    use crate::{CudaStream, Error};

    /// How many entries a handle has, of any context.
    fn entries_of(handle: CuStream) -> usize {
        let handle = handle.addr();
        TABLE.acquire().range((handle, None)..=(handle, Some((usize::MAX, u64::MAX)))).count()
    }

    #[test]
    fn an_entry_ends_with_its_stream() -> Result<(), Error> {
        let machine = rmm_sim::Machine::new();
        let _entered = machine.enter();
        let stream = CudaStream::new()?;
        let (handle, context) = (stream.as_raw(), stream.own_context());
        assert_eq!(entries_of(handle), 1);
        let handle = stream.into_raw().expect("it is the only one");
        assert_eq!(entries_of(handle), 0);
        // A million streams that come and go, the last hundred of which are there.
        let mut streams = VecDeque::new();
        let kind = StreamKind::Adopted(StreamLifetime::UntilDropped);
        for number in 1..1_000_000 {
            let handle = CuStream::from_raw(std::ptr::without_provenance_mut(number << 4));
            let new = Inner::new(handle, StreamId::next(), kind, context, false);
            streams.push_back(enter_or_get(new, |_| true));
            if streams.len() > 100 {
                streams.pop_front();
            }
        }
        // Tests beside this one have a few of their own.
        let len = TABLE.acquire().len();
        assert!((streams.len()..streams.len() + 100).contains(&len), "{len}");
        Ok(())
    }

    #[test]
    fn a_stream_leaves_the_entry_of_its_successor() -> Result<(), Error> {
        let machine = rmm_sim::Machine::new();
        let _entered = machine.enter();
        let former = CudaStream::new()?;
        // Two identities of one stream, as if the first were dropped while a new stream with its
        // handle is made. Their owner is neither.
        let handle = former.as_raw();
        let context = former.own_context().expect("a created stream has one");
        let kind = StreamKind::Adopted(StreamLifetime::UntilDropped);
        let successor = Arc::new(Inner::new(handle, StreamId::next(), kind, Some(context), false));
        replace(&successor);
        drop(former);
        assert_eq!(entries_of(handle), 1);
        drop(successor);
        assert_eq!(entries_of(handle), 0);
        Ok(())
    }
}
