//! Mutants of the caches in front of a pool's lock, and of what passes blocks between them.

use super::Mutant;

const STATE: &str = "crates/rmm-adaptors/src/pool/state.rs";
const TIMELINE: &str = "crates/rmm-adaptors/src/pool/timeline.rs";
const ALLOCATE: &str = "crates/rmm-adaptors/src/pool/allocate.rs";
const STREAMS: &str = "crates/rmm-adaptors/src/pool/streams.rs";
const CACHES: &str = "crates/rmm-adaptors/src/pool/caches.rs";
const CACHE: &str = "crates/rmm-adaptors/src/pool/caches/cache.rs";
const ALONE: &str = "crates/rmm-adaptors/src/sync/alone.rs";
const BIASED: &str = "crates/rmm-adaptors/src/pool/caches/biased.rs";
const FENCE: &str = "crates/rmm-adaptors/src/sync/fence.rs";
const PATIENCE: &str = "crates/rmm-adaptors/src/sync/backoff.rs";
const BUILDER: &str = "crates/rmm-adaptors/src/pool/builder.rs";
const THREAD: &str = "crates/rmm-adaptors/src/pool/caches/thread.rs";
const REFILL: &str = "crates/rmm-adaptors/src/pool/refill.rs";

/// What has models that explore every interleaving of a few threads.
pub(super) const MODELLED: &[&str] = &[ALONE, BIASED, THREAD];

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "cache-of-any-stream",
        file: CACHES,
        original: "let cache = cache.as_mut().filter(|_| label.is_of(stream))?;",
        replacement: "let cache = cache.as_mut()?;",
        breaks: "a stream gets what another has just freed",
    },
    Mutant {
        name: "odd-block-cached",
        file: CACHES,
        original: "if self.undersized_blocks.load(Ordering::Relaxed) > 0 {",
        replacement: "if self.undersized_blocks.load(Ordering::Relaxed) == usize::MAX {",
        breaks: "a block is handed out for more than it holds",
    },
    Mutant {
        name: "cached-blocks-left-out-of-the-search",
        file: ALLOCATE,
        original: "        self.flush_caches(&mut state);\n",
        replacement: "",
        breaks: "memory that threads keep at hand is refused to others",
    },
    Mutant {
        name: "cached-blocks-outlive-their-stream",
        file: STREAMS,
        original: "self.caches.flush_all(Some(stream.id()), |stream, address| {",
        replacement: "self.caches.flush_all(Some(stream.id()).filter(|_| false).or(Some(StreamRef::legacy().id())), |stream, address| {",
        breaks: "nothing marks the end of a stream's last uses of what it freed",
    },
    Mutant {
        name: "cached-blocks-free-for-all",
        file: STATE,
        original: "let list = self.timeline.find(stream).unwrap_or_else(|| self.quarantine_list());",
        replacement: "let list = self.timeline.find(stream).map_or(ListId::ANY_STREAM, |_| ListId::ANY_STREAM);",
        breaks: "what leaves a cache goes to any stream at once",
    },
    Mutant {
        name: "default-stream-cached",
        file: TIMELINE,
        original: "self.slots[list.index()].policy == RecordPolicy::OnDemand\n",
        replacement: "matches!(self.slots[list.index()].policy, RecordPolicy::OnDemand | RecordPolicy::EveryFreeFenced)\n",
        breaks: "nothing is put between two uses on the legacy default stream",
    },
    Mutant {
        name: "user-that-looks-no-more",
        file: BIASED,
        original: "if self.user.load(Ordering::Acquire) != me.id() {",
        replacement: "if self.user.load(Ordering::Acquire) == NOBODY {",
        breaks: "two threads are in one cache",
    },
    Mutant {
        name: "no-fence-of-the-user",
        file: BIASED,
        original: "        self.fences.light();\n",
        replacement: "",
        breaks: "a user and one from outside miss each other both ways",
    },
    Mutant {
        name: "no-fence-from-outside",
        file: BIASED,
        original: "            self.fences.heavy();\n",
        replacement: "",
        breaks: "a user and one from outside miss each other both ways",
    },
    Mutant {
        name: "user-inside-not-waited-for",
        file: BIASED,
        original: "spin_until(|| !thread.is_inside.load(Ordering::Acquire));",
        replacement: "spin_until(|| !thread.is_inside.load(Ordering::Acquire) || true);",
        breaks: "a cache is emptied while its user is at it",
    },
    Mutant {
        name: "user-leaves-unseen",
        file: BIASED,
        original: "self.0.is_inside.store(false, Ordering::Release);",
        replacement: "self.0.is_inside.store(false, Ordering::Relaxed);",
        breaks: "what a user did in its cache is not seen by whoever empties it",
    },
    Mutant {
        name: "next-user-blind",
        file: BIASED,
        original: "place.user.store(next.map_or(NOBODY, |(_, id)| id), Ordering::Release);",
        replacement: "place.user.store(next.map_or(NOBODY, |(_, id)| id), Ordering::Relaxed);",
        breaks: "what was done to a cache is not seen by its next user",
    },
    Mutant {
        name: "thread-ends-unseen",
        file: THREAD,
        original: "self.id.store(NOBODY, Ordering::Release);",
        replacement: "self.id.store(NOBODY, Ordering::Relaxed);",
        breaks: "what an ended thread did in its cache is not seen by the next",
    },
    Mutant {
        name: "batch-for-everybody",
        file: REFILL,
        original: "let usable = |other, point| point <= timeline.visible_to(list, other);",
        replacement: "let usable = |other, point| point <= timeline.visible_to(list, other).max(u64::MAX);",
        breaks: "a batch of blocks goes to a stream while another is at work on them",
    },
    Mutant {
        name: "batch-outlives-its-stream",
        file: STREAMS,
        original: "        state.flush_transfer(Some(list));\n",
        replacement: "",
        breaks: "a batch is some other stream's once its own has retired",
    },
    Mutant {
        name: "large-block-kept-out-of-reach",
        file: CACHE,
        original: "        while left > 0\n            && let Some((size, address)) = self.large.take_oldest()",
        replacement: "        while left > 64\n            && left < 128\n            && let Some((size, address)) = self.large.take_oldest()",
        breaks: "large blocks that threads keep at hand are refused to others",
    },
    Mutant {
        name: "no-fence-of-one-alone",
        file: ALONE,
        original: "        self.fences.light();\n",
        replacement: "",
        breaks: "the one that is alone and a second thread miss each other both ways",
    },
    Mutant {
        name: "no-fence-of-the-second",
        file: ALONE,
        original: "        self.fences.heavy();\n",
        replacement: "",
        breaks: "the one that is alone and a second thread miss each other both ways",
    },
    Mutant {
        name: "one-alone-not-waited-for",
        file: ALONE,
        original: "spin_until(|| !self.is_inside.load(Ordering::Acquire));",
        replacement: "spin_until(|| !self.is_inside.load(Ordering::Acquire) || true);",
        breaks: "a value is handed over while somebody is at it",
    },
    Mutant {
        name: "aborted-without-a-word",
        file: FENCE,
        original: "            abort(error);\n",
        replacement: "            let _untold = (error, abort);\n            std::process::abort();\n",
        breaks: "a program that forbids a system call ends and says nothing",
    },
    Mutant {
        name: "fences-of-the-process-not-asked-for",
        file: FENCE,
        original: "!wants_symmetric(std::env::var_os(\"RMM_FENCES\")) && register().is_ok()",
        replacement: "!wants_symmetric(None::<&OsStr>) && register().is_ok()",
        breaks: "a program that asks for full fences is aborted in its sandbox",
    },
    Mutant {
        name: "fences-of-the-pool-not-asked-for",
        file: BUILDER,
        original: "let fences = if symmetric_fences {",
        replacement: "let fences = if symmetric_fences && initial_size == usize::MAX {",
        breaks: "a pool that asks for full fences aborts its program in a sandbox",
    },
    Mutant {
        name: "waits-never-sleep",
        file: PATIENCE,
        original: "Pause::Sleep(time.min(LONGEST_SLEEP))",
        replacement: "if time > LONGEST_SLEEP { Pause::Yield } else { Pause::Yield }",
        breaks: "a thread that waits for one that is stopped takes a processor for as long",
    },
    Mutant {
        name: "no-fence-of-one-at-its-end",
        file: BIASED,
        original: "me.is_none_or(|me| me.id() != id)",
        replacement: "me.is_some_and(|me| me.id() != id)",
        breaks: "a thread that is ending and empties a cache misses its user",
    },
    Mutant {
        name: "next-thread-begins-unseen",
        file: THREAD,
        original: "thread.id.store(self.last_id, Ordering::Release);",
        replacement: "thread.id.store(self.last_id, Ordering::Relaxed);",
        breaks: "what an ended thread did in its cache is not seen once its record is another thread's",
    },
    Mutant {
        name: "shared-unseen-by-who-finds-it",
        file: ALONE,
        original: "let user = self.user.load(Ordering::Acquire);",
        replacement: "let user = self.user.load(Ordering::Relaxed);",
        breaks: "who finds a value shared misses what was counted beside it",
    },
    Mutant {
        name: "shared-unseen-by-who-comes-later",
        file: ALONE,
        original: "self.user.store(SHARED, Ordering::Release);",
        replacement: "self.user.store(SHARED, Ordering::Relaxed);",
        breaks: "who finds a value shared misses what was counted beside it",
    },
    Mutant {
        name: "batch-not-noted",
        file: REFILL,
        original: "is_due |= state.timeline.note_free(list, class.block_size());",
        replacement: "is_due |= class.block_size() == 0;",
        breaks: "nothing marks the end of the uses of what a stream left for others",
    },
    Mutant {
        name: "batch-serves-a-capture",
        file: REFILL,
        original: "|| CaptureScope::is_announced()\n",
        replacement: "|| false && CaptureScope::is_announced()\n",
        breaks: "a graph uses memory that its stream alone may have",
    },
];
