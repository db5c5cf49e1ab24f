//! Mutants of the caches in front of a pool's lock, and of what passes blocks between them.

use crate::mutants::mutant::Mutant;

const STATE: &str = "crates/rmm-adaptors/src/pool/state.rs";
const STREAMS: &str = "crates/rmm-adaptors/src/pool/streams.rs";
const BUDGET: &str = "crates/rmm-adaptors/src/pool/caches/budget.rs";
const FLUSH: &str = "crates/rmm-adaptors/src/pool/caches/flush.rs";
const CACHES: &str = "crates/rmm-adaptors/src/pool/caches.rs";
const CACHE: &str = "crates/rmm-adaptors/src/pool/caches/cache.rs";
const BIASED: &str = "crates/rmm-adaptors/src/sync/biased.rs";
const FENCE: &str = "crates/rmm-adaptors/src/sync/fence.rs";
const BACKOFF: &str = "crates/rmm-adaptors/src/sync/backoff.rs";
const BUILDER: &str = "crates/rmm-adaptors/src/pool/builder.rs";
const THREAD: &str = "crates/rmm-adaptors/src/sync/thread_token.rs";
const LADDER: &str = "crates/rmm-adaptors/src/pool/ladder.rs";
const SLOT: &str = "crates/rmm-adaptors/src/pool/caches/slot.rs";
const REFILL: &str = "crates/rmm-adaptors/src/pool/refill.rs";

/// What has models that explore every interleaving of a few threads.
pub(in crate::mutants) const MODELLED: &[&str] = &[BIASED, THREAD];

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "cache-of-any-stream",
        file: SLOT,
        original: "self.stream.load(Ordering::Relaxed) == stream.get()",
        replacement: "self.stream.load(Ordering::Relaxed) != NO_STREAM || stream.get() == NO_STREAM",
        breaks: "a stream gets what another has just freed",
    },
    Mutant {
        name: "undersized-block-cached",
        file: CACHES,
        original: "if self.undersized_blocks.load(Ordering::Relaxed) > 0 {",
        replacement: "if self.undersized_blocks.load(Ordering::Relaxed) == usize::MAX {",
        breaks: "a block is handed out for more than it holds",
    },
    Mutant {
        name: "cached-blocks-left-out-of-the-search",
        file: LADDER,
        original: "        self.session.flush_caches();\n",
        replacement: "",
        breaks: "memory in thread caches is refused to other threads",
    },
    Mutant {
        name: "caches-stay-large-when-memory-is-short",
        file: BUDGET,
        original: "(scale / 2).max(LEAST_SCALE)",
        replacement: "scale",
        breaks: "cached blocks make the pool hold more pages",
    },
    Mutant {
        name: "caches-do-not-follow-demand",
        file: BUDGET,
        original: "scale = (scale + scale / 2).min(most);",
        replacement: "",
        breaks: "one request in five takes the lock while memory is plentiful",
    },
    Mutant {
        name: "a-flush-of-large-blocks-takes-the-cache",
        file: FLUSH,
        original: "NextOwner::Former",
        replacement: "NextOwner::None",
        breaks: "a change of mind about large blocks costs every thread its cache",
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
        file: CACHE,
        original: "stream == StreamRef::legacy().id()",
        replacement: "stream == StreamRef::legacy().id() && stream.needs_identification()",
        breaks: "nothing is put between two uses on the legacy default stream",
    },
    Mutant {
        name: "owner-that-does-not-look-again",
        file: BIASED,
        original: "if cell.owner.load(Ordering::Acquire) != B::id(me) {",
        replacement: "if cell.owner.load(Ordering::Acquire) == NO_OWNER {",
        breaks: "two threads are inside one cell",
    },
    Mutant {
        name: "no-light-fence",
        file: BIASED,
        original: "        cell.fences.light();\n",
        replacement: "",
        breaks: "an owner and a revoker miss each other both ways",
    },
    Mutant {
        name: "no-heavy-fence",
        file: BIASED,
        original: "        fences.heavy();\n",
        replacement: "",
        breaks: "an owner and a revoker miss each other both ways",
    },
    Mutant {
        name: "owner-inside-not-waited-for",
        file: BIASED,
        original: "spin_until(|| !flag.load(Ordering::Acquire));",
        replacement: "spin_until(|| !flag.load(Ordering::Acquire) || true);",
        breaks: "a value is revoked while its owner is inside",
    },
    Mutant {
        name: "owner-leaves-unseen",
        file: BIASED,
        original: "self.0.store(false, Ordering::Release);",
        replacement: "self.0.store(false, Ordering::Relaxed);",
        breaks: "a revoker does not see what the owner did",
    },
    Mutant {
        name: "next-owner-blind",
        file: BIASED,
        original: "self.cells[index].owner.store(owner, Ordering::Release);",
        replacement: "self.cells[index].owner.store(owner, Ordering::Relaxed);",
        breaks: "the next owner does not see what the revoker did",
    },
    Mutant {
        name: "thread-ends-unseen",
        file: THREAD,
        original: "self.id.store(NO_THREAD, Ordering::Release);",
        replacement: "self.id.store(NO_THREAD, Ordering::Relaxed);",
        breaks: "what an ended thread did in its cache is not seen by the next",
    },
    Mutant {
        name: "batch-for-any-stream",
        file: REFILL,
        original: "let usable = |other, point| point <= timeline.visible_to(list, other);",
        replacement: "let usable = |other, point| point <= timeline.visible_to(list, other).max(u64::MAX);",
        breaks: "a batch of blocks goes to a stream while another is at work on them",
    },
    Mutant {
        name: "batch-outlives-its-stream",
        file: STREAMS,
        original: "        state.flush_transfer(Some(list));\n        if state",
        replacement: "        if state",
        breaks: "a batch is some other stream's once its own has retired",
    },
    Mutant {
        name: "large-block-kept-out-of-reach",
        file: CACHE,
        original: "        while left > 0\n            && (class.is_large() || counters.bytes() > goal.bytes)",
        replacement: "        while left > 64\n            && left < 128",
        breaks: "large blocks in thread caches are refused to other threads",
    },
    Mutant {
        name: "first-thread-cell-changes-owners",
        file: BIASED,
        original: "        REVOKED\n",
        replacement: "        NO_OWNER\n",
        breaks: "two threads write one flag",
    },
    Mutant {
        name: "two-revokers-at-once",
        file: BIASED,
        original: "if owner == REVOKING {",
        replacement: "if owner == REVOKING && owner == NO_OWNER {",
        breaks: "two threads use a value that both have revoked",
    },
    Mutant {
        name: "entered-while-inside",
        file: BIASED,
        original: "if flag.load(Ordering::Relaxed) {",
        replacement: "if flag.load(Ordering::Relaxed) && cell.flag_of(NO_OWNER).is_some() {",
        breaks: "a thread is inside twice, and leaves with the first",
    },
    Mutant {
        name: "aborted-without-a-word",
        file: FENCE,
        original: "            abort(error);\n",
        replacement: "            let _untold = (error, abort);\n            std::process::abort();\n",
        breaks: "a program that forbids a system call is aborted without a message",
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
        replacement: "let fences = if symmetric_fences && initial_size == u64::MAX {",
        breaks: "a pool that asks for full fences aborts its program in a sandbox",
    },
    Mutant {
        name: "waits-never-sleep",
        file: BACKOFF,
        original: "Pause::Sleep(time.min(LONGEST_SLEEP))",
        replacement: "if time > LONGEST_SLEEP { Pause::Yield } else { Pause::Yield }",
        breaks: "a thread that waits for one that is stopped takes a processor for as long",
    },
    Mutant {
        name: "no-heavy-fence-of-an-exiting-thread",
        file: BIASED,
        original: "me.is_some_and(|me| B::id(me) == former_owner)",
        replacement: "me.is_none_or(|me| B::id(me) == former_owner)",
        breaks: "a thread that is exiting and flushes a cache misses its owner",
    },
    Mutant {
        name: "next-thread-begins-unseen",
        file: THREAD,
        original: "record.id.store(self.last_id, Ordering::Release);",
        replacement: "record.id.store(self.last_id, Ordering::Relaxed);",
        breaks: "what an ended thread did in its cache is not seen once its record is another thread's",
    },
    Mutant {
        name: "revocation-unseen",
        file: BIASED,
        original: "        // Acquire: what the revoker did is seen.\n        let owner = self.owner.load(Ordering::Acquire);",
        replacement: "        let owner = self.owner.load(Ordering::Relaxed);",
        breaks: "a thread that finds a value shared misses what was counted beside it",
    },
    Mutant {
        name: "search-takes-cells-from-their-owners",
        file: BIASED,
        original: "NextOwner::Former => former,",
        replacement: "NextOwner::Former => former.min(NO_OWNER),",
        breaks: "a thread loses its cache when another looks into it",
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
    Mutant {
        name: "unwanted-large-blocks-stay-cached",
        file: "crates/rmm-adaptors/src/pool/allocate.rs",
        original: "self.caches.keep_large(should_be);",
        replacement: "self.caches.keep_large(should_be);
            if !should_be {
                return;
            }",
        breaks: "large blocks stay in caches that serve no large request any more",
    },
    Mutant {
        name: "ghosts-are-hit-over-and-over",
        file: "crates/rmm-adaptors/src/pool/caches/large_demand.rs",
        original: "*ghost = NO_GHOST;",
        replacement: "*ghost = wanted;",
        breaks: "one block freed counts as a hit of many requests",
    },
    Mutant {
        name: "threads-that-meet-go-on-sharing",
        file: CACHES,
        original: "Wanted::ForTheFirstTime if !is_all_threads => return,",
        replacement: "Wanted::ForTheFirstTime => return,",
        breaks: "a thread that finds a shared cache locked goes to the heap and gets no cache of its own",
    },
    Mutant {
        name: "third-thread-takes-its-turn",
        file: "crates/rmm-adaptors/src/pool/caches/slot.rs",
        original: "if wanted_by != thread && wanted_by != NO_THREAD {",
        replacement: "if wanted_by == thread && wanted_by == NO_THREAD {",
        breaks: "threads that share a stream wait for two misses in a row, which others interrupt",
    },
];
