//! Mutants of streams that other libraries made.

use crate::mutants::mutant::Mutant;

const ENTRIES: &str = "crates/rmm-core/src/stream/table/entries.rs";
const FOREIGN: &str = "crates/rmm-core/src/stream/owned/foreign.rs";
const IDENTITY: &str = "crates/rmm-core/src/stream/owned/identity.rs";
const OWNED: &str = "crates/rmm-core/src/stream/owned.rs";
const TABLE: &str = "crates/rmm-core/src/stream/table.rs";

/// What has models that explore every interleaving of a few threads.
pub(in crate::mutants) const MODELLED: &[&str] = &[IDENTITY, ENTRIES];

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "stream-removes-the-entry-of-the-next",
        file: ENTRIES,
        original: "if entries.streams.get(&key).is_some_and(|entry| entry.id == id) {",
        replacement: "if entries.streams.contains_key(&key) {",
        breaks: "the drop of a stream makes the next one of its handle two streams",
    },
    Mutant {
        name: "stream-is-dropped-under-the-lock-of-the-table",
        file: ENTRIES,
        original: "    drop(entries);\n    known",
        replacement: "    known",
        breaks: "an adoption that finds the former stream's last reference waits for itself",
    },
    Mutant {
        name: "adoption-finds-and-enters-in-two-steps",
        file: ENTRIES,
        original: "    if !is_known {\n",
        replacement: "    drop(entries);\n    let mut entries = table.acquire();\n    if !is_known {\n",
        breaks: "two threads that adopt one stream at one time get two",
    },
    Mutant {
        name: "entries-of-streams-that-are-gone-stay",
        file: OWNED,
        original: "        table::remove(self.entry());\n",
        replacement: "",
        breaks: "each stream takes host memory for good",
    },
    Mutant {
        name: "unknown-streams-share-the-keys-of-others",
        file: OWNED,
        original: "((self.handle.addr(), self.context.map(Context::key)), self.id)",
        replacement: "((self.handle.addr(), self.identity.as_ref().map(Identity::context).or(self.context).map(Context::key)), self.id)",
        breaks: "a stream that may end at any time is taken for one that exists until it is dropped",
    },
    Mutant {
        name: "handle-is-the-stream",
        file: FOREIGN,
        original: "*known.inner.driver_id.get_or_init(|| driver_id) == driver_id",
        replacement: "*known.inner.driver_id.get_or_init(|| driver_id) == driver_id || true",
        breaks: "a new stream with an old handle is taken for the old one",
    },
    Mutant {
        name: "owner-of-a-known-stream-is-dropped",
        file: FOREIGN,
        original: "let _one_is_enough = stream.inner.owner.set(owner);",
        replacement: "drop(owner);",
        breaks: "a stream that was adopted with an owner ends before its last handle",
    },
    Mutant {
        name: "owner-is-dropped-at-exit",
        file: OWNED,
        original: "        if process_is_exiting() {\n            return;\n        }\n        self.end();",
        replacement: "        self.end();",
        breaks: "the destructor of a foreign stream calls a driver that is gone",
    },
    Mutant {
        name: "handle-of-the-next-context-is-the-same",
        file: FOREIGN,
        original: "identity.is_some_and(|identity| identity.context() == context)",
        replacement: "identity.is_some()",
        breaks: "a handle that was used before a reset stays refused after it",
    },
    Mutant {
        name: "identity-is-asked-for-once",
        file: IDENTITY,
        original: "(self.driver_id.load(Ordering::Acquire) == driver_id)",
        replacement: "(self.driver_id.load(Ordering::Acquire) == driver_id || true)",
        breaks: "memory freed on a stream that is gone is reused on the next one of its handle, in no order",
    },
    Mutant {
        name: "identity-is-stored-after-the-id-of-the-driver",
        file: IDENTITY,
        original: "        self.number.store(id.get(), Ordering::Release);\n        self.driver_id.store(driver_id, Ordering::Release);\n",
        replacement: "        self.driver_id.store(driver_id, Ordering::Release);\n        self.number.store(id.get(), Ordering::Release);\n",
        breaks: "a thread frees on the identity of the stream that had the handle before",
    },
    Mutant {
        name: "two-threads-take-two-identities",
        file: IDENTITY,
        original: "if self.driver_id.load(Ordering::Relaxed) == driver_id {",
        replacement: "if false {",
        breaks: "one stream has two identities, and the first retires while it is in use",
    },
    Mutant {
        name: "identity-ends-unnoticed",
        file: IDENTITY,
        original: "self.inner.retire(&watchers, former);",
        replacement: "let _never = (&watchers, former);",
        breaks: "a pool keeps what was freed on a stream that is gone for that stream",
    },
    Mutant {
        name: "identity-keeps-its-first-context",
        file: IDENTITY,
        original: "*current = context;",
        replacement: "let _never = (&mut current, context);",
        breaks: "a handle that comes back on another device is refused there",
    },
    Mutant {
        name: "identity-in-a-context-that-ended-is-asked-for",
        file: IDENTITY,
        original: "        identity.check_context()?;\n",
        replacement: "",
        breaks: "a stream of a context that was reset is passed to the driver, which crashes",
    },
    Mutant {
        name: "raw-handles-are-kept-for-good",
        file: TABLE,
        original: "} else if self.unknown.len() >= self.sweep_at {",
        replacement: "} else if false {",
        breaks: "each raw handle takes host memory for good",
    },
    Mutant {
        name: "raw-handles-outlive-a-reset",
        file: TABLE,
        original: ".filter(|found| found.ends == watch::ends_of_contexts())",
        replacement: "",
        breaks: "a raw handle that was used before a reset stays refused after it",
    },
    Mutant {
        name: "announcements-end-unnoticed",
        file: TABLE,
        original: "    CHANGES.fetch_add(1, Ordering::Release);\n",
        replacement: "",
        breaks: "a thread uses a stream that was released or forgotten, whose memory is gone",
    },
    Mutant {
        name: "announced-stream-of-another-handle",
        file: TABLE,
        original: "self.handle.get() == handle && self.changes.get()",
        replacement: "self.changes.get()",
        breaks: "two handles in one slot of a thread are one stream",
    },
    Mutant {
        name: "announcements-are-not-counted",
        file: TABLE,
        original: "            known.guards += guards;\n",
        replacement: "            let _ = &mut *known;\n",
        breaks: "a stream that was announced twice is unknown after the first end",
    },
    Mutant {
        name: "release-ends-what-is-announced-until-forgotten",
        file: TABLE,
        original: "known.guards == 0 && !known.until_forgotten",
        replacement: "known.guards == 0",
        breaks: "a stream that a resource keeps is unknown once it was adopted and released",
    },
    Mutant {
        name: "replaced-stream-is-taken-for-the-next",
        file: TABLE,
        original: "            other.stream.note_replaced();\n",
        replacement: "",
        breaks: "the end of a stream's work is looked for on the next stream of its handle",
    },
    Mutant {
        name: "replaced-stream-destroys-the-next",
        file: OWNED,
        original: "            && !self.may_be_gone()\n",
        replacement: "",
        breaks: "a stream that ended unnoticed destroys the next one of its handle",
    },
    Mutant {
        name: "announcement-ends-that-of-the-next-stream",
        file: TABLE,
        original: ".filter(|known| *known.stream == *stream)?",
        replacement: "?",
        breaks: "a stream is unknown as soon as the former one of its handle is released",
    },
    Mutant {
        name: "stream-of-any-context-is-of-the-current-one",
        file: FOREIGN,
        original: "                let context = unsafe { Context::of_stream(driver, handle) }?;\n                // SAFETY: the caller's contract.\n",
        replacement: "                let context = { let _ = driver; Context::current()? };\n",
        breaks: "a stream of another device counts as one of the current context",
    },
];
