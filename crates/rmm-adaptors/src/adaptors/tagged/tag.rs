//! Tags: names to which a thread's allocations are attributed.

#![forbid(unsafe_code)]

use rmm_core::fork;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// The largest number of tags in a process.
pub(super) const MOST_TAGS: usize = 1024;

/// A name for a part of a program, to which a
/// [`TaggedResourceAdaptor`](crate::TaggedResourceAdaptor) attributes memory.
///
/// A thread allocates for its current tag: the one that it [entered](Self::enter) last, or
/// `untagged` if it has entered none.
///
/// A process has up to 1024 tags, including `untagged` and `others`. They are never removed. Any
/// name beyond that limit yields the tag `others`.
///
/// ```
/// use rmm_adaptors::Tag;
///
/// let loader = Tag::named("loader");
/// assert_eq!(loader, Tag::named("loader"));
/// assert_eq!(Tag::current(), Tag::UNTAGGED);
/// let scope = loader.enter();
/// assert_eq!(Tag::current().name(), "loader");
/// drop(scope);
/// assert_eq!(Tag::current(), Tag::UNTAGGED);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(u16);

thread_local! {
    /// The current tag of this thread.
    static CURRENT: Cell<Tag> = const { Cell::new(Tag::UNTAGGED) };
}

/// All tags of the process.
#[derive(Debug)]
struct Names {
    /// The name of each tag, by its number.
    names: Vec<&'static str>,
    /// The tag of each name.
    tags: HashMap<&'static str, Tag>,
}

static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(|| {
    let names = vec!["untagged", "others"];
    let tags = HashMap::from([("untagged", Tag::UNTAGGED), ("others", Tag::OTHERS)]);
    Mutex::new(Names { names, tags })
});

fn names() -> MutexGuard<'static, Names> {
    fork::lock(&NAMES)
}

impl Tag {
    /// The tag of a thread that has entered none.
    pub const UNTAGGED: Self = Self(0);
    /// The tag of all names that came when the process had the most tags.
    const OTHERS: Self = Self(1);

    /// The tag with this name; makes it if there is none.
    ///
    /// Takes a lock of the process. Where a tag is needed often, keep it.
    pub fn named(name: &str) -> Self {
        let mut names = names();
        if let Some(&tag) = names.tags.get(name) {
            return tag;
        }
        let index = names.names.len();
        let Some(number) = u16::try_from(index).ok().filter(|_| index < MOST_TAGS) else {
            return Self::OTHERS;
        };
        let name: &'static str = Box::leak(name.into());
        names.names.push(name);
        names.tags.insert(name, Self(number));
        Self(number)
    }

    /// The current tag of this thread.
    #[inline]
    pub fn current() -> Self {
        CURRENT.get()
    }

    /// Makes a tag the current one of this thread. Returns the one before.
    #[cfg(feature = "tracing")]
    pub(super) fn replace_current(tag: Self) -> Self {
        CURRENT.replace(tag)
    }

    /// Makes this the current tag of the thread until the scope is dropped.
    ///
    /// A drop restores the tag that was current at the call, so nested scopes must be dropped in
    /// reverse order.
    pub fn enter(self) -> TagScope {
        TagScope { previous: CURRENT.replace(self), not_send: PhantomData }
    }

    /// The tag's name.
    pub fn name(self) -> &'static str {
        names().names.get(self.index()).copied().unwrap_or("others")
    }

    /// The tag's number as an index, below [`MOST_TAGS`].
    pub(super) fn index(self) -> usize {
        self.0.into()
    }

    /// The tag's number: tags are numbered from 0 in the order in which they are made.
    pub(crate) fn number(self) -> u16 {
        self.0
    }

    /// The tag with this [number](Self::number).
    pub(crate) fn numbered(number: u16) -> Self {
        Self(number)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({:?})", self.name())
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Keeps a [`Tag`] current on a thread: the result of [`Tag::enter`].
///
/// It cannot be sent to another thread:
///
/// ```compile_fail,E0277
/// let scope = rmm_adaptors::Tag::named("loader").enter();
/// std::thread::spawn(move || drop(scope));
/// ```
#[derive(Debug)]
#[must_use = "the thread leaves the tag when this is dropped"]
pub struct TagScope {
    previous: Tag,
    not_send: PhantomData<*const ()>,
}

impl Drop for TagScope {
    fn drop(&mut self) {
        CURRENT.set(self.previous);
    }
}

/// The memory that is attributed to one tag in a
/// [`TaggedResourceAdaptor`](crate::TaggedResourceAdaptor).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TagUsage {
    /// The tag.
    pub tag: Tag,
    /// Bytes of live blocks, as requested.
    pub live_bytes: u64,
    /// Live blocks.
    pub live_blocks: u64,
    /// The largest `live_bytes` so far. Where several threads use the tag at the same time, it may
    /// be off by [`PEAK_ERROR`](crate::TaggedResourceAdaptor::PEAK_ERROR) for each.
    pub peak_bytes: u64,
}

impl TagUsage {
    pub(super) fn new(tag: Tag, live_bytes: u64, live_blocks: u64, peak_bytes: u64) -> Self {
        Self { tag, live_bytes, live_blocks, peak_bytes }
    }
}
