//! Names for parts of a program.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The most tags of a process.
pub(super) const MOST_TAGS: usize = 1024;

/// A name for a part of a program, by which a
/// [`TaggedResourceAdaptor`](crate::TaggedResourceAdaptor) counts its memory.
///
/// There are up to 1024 names in a process, which are kept to its end; those beyond are one tag,
/// `others`. A thread that has [entered](Self::enter) none is in `untagged`.
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
    static CURRENT: Cell<Tag> = const { Cell::new(Tag::UNTAGGED) };
}

#[derive(Debug)]
struct Names {
    names: Vec<&'static str>,
    tags: HashMap<&'static str, Tag>,
}

static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(|| {
    let names = vec!["untagged", "others"];
    let tags = HashMap::from([("untagged", Tag::UNTAGGED), ("others", Tag::OTHERS)]);
    Mutex::new(Names { names, tags })
});

fn names() -> MutexGuard<'static, Names> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tag {
    /// The tag of a thread that has entered none.
    pub const UNTAGGED: Self = Self(0);
    const OTHERS: Self = Self(1);

    /// The tag of this name. Takes a lock, so keep it where it is needed often.
    pub fn named(name: &str) -> Self {
        let mut names = names();
        if let Some(&tag) = names.tags.get(name) {
            return tag;
        }
        let place = names.names.len();
        let Some(place) = u16::try_from(place).ok().filter(|_| place < MOST_TAGS) else {
            return Self::OTHERS;
        };
        let name: &'static str = Box::leak(name.into());
        names.names.push(name);
        names.tags.insert(name, Self(place));
        Self(place)
    }

    /// The tag that this thread is in.
    #[inline]
    pub fn current() -> Self {
        CURRENT.get()
    }

    /// Makes it this thread's tag until the scope is dropped; scopes end in the reverse order.
    pub fn enter(self) -> TagScope {
        TagScope { before: CURRENT.replace(self), stays: PhantomData }
    }

    /// The name.
    pub fn name(self) -> &'static str {
        names().names.get(self.place()).copied().unwrap_or("others")
    }

    pub(super) fn place(self) -> usize {
        self.0.into()
    }

    pub(super) fn number(self) -> u16 {
        self.0
    }

    /// The tag of a [number](Self::number).
    pub(super) fn numbered(number: u16) -> Self {
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

/// Keeps a thread in a [`Tag`]. It stays on its thread:
///
/// ```compile_fail,E0277
/// let scope = rmm_adaptors::Tag::named("loader").enter();
/// std::thread::spawn(move || drop(scope));
/// ```
#[derive(Debug)]
#[must_use = "the thread leaves the tag where this is dropped"]
pub struct TagScope {
    before: Tag,
    stays: PhantomData<*const ()>,
}

impl Drop for TagScope {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// What a tag has of a resource's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TagUsage {
    /// Whose it is.
    pub tag: Tag,
    /// Bytes allocated now, as asked for.
    pub live_bytes: u64,
    /// Blocks allocated now.
    pub live_blocks: u64,
    /// The most bytes allocated at once.
    pub peak_bytes: u64,
}

impl TagUsage {
    pub(super) fn new(tag: Tag, live_bytes: u64, live_blocks: u64, peak_bytes: u64) -> Self {
        Self { tag, live_bytes, live_blocks, peak_bytes }
    }
}
