//! Tags: names for parts of a program.

#![forbid(unsafe_code)]

use rmm_core::fork;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// The most tags of a process.
pub(super) const MOST_TAGS: usize = 1024;

/// A name for a part of a program, to which a
/// [`TaggedResourceAdaptor`](crate::TaggedResourceAdaptor) attributes memory.
///
/// A process has up to 1024 names, which are never removed; all further names are one tag,
/// `others`. A thread that has [entered](Self::enter) no tag is in `untagged`.
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
    fork::lock(&NAMES)
}

impl Tag {
    /// The tag of a thread that has entered none.
    pub const UNTAGGED: Self = Self(0);
    const OTHERS: Self = Self(1);

    /// The tag with this name. Takes a lock: where it is needed often, keep the tag.
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

    /// The current tag of this thread.
    #[inline]
    pub fn current() -> Self {
        CURRENT.get()
    }

    /// Makes it the current tag of this thread until the scope is dropped; drop scopes in reverse
    /// order.
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

    /// The tag with a [number](Self::number).
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

/// Keeps a thread in a [`Tag`]. It cannot be sent to another thread:
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

/// The memory of one tag in a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TagUsage {
    /// The tag.
    pub tag: Tag,
    /// Bytes allocated now, as requested.
    pub live_bytes: u64,
    /// Blocks allocated now.
    pub live_blocks: u64,
    /// The most bytes that were allocated at the same time.
    pub peak_bytes: u64,
}

impl TagUsage {
    pub(super) fn new(tag: Tag, live_bytes: u64, live_blocks: u64, peak_bytes: u64) -> Self {
        Self { tag, live_bytes, live_blocks, peak_bytes }
    }
}
