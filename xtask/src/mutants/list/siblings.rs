//! Mutants of what returns free memory: trims, siblings, limits, reservations, callbacks.

use crate::mutants::mutant::Mutant;

const AWAITED: &str = "crates/rmm-core/src/siblings/awaited.rs";
const DRIVER_POOLS: &str = "crates/rmm-core/src/driver_pools.rs";
const IDLE_TIME: &str = "crates/rmm-adaptors/src/pool/idle_time.rs";
const LADDER: &str = "crates/rmm-adaptors/src/pool/ladder.rs";
const LIMITING: &str = "crates/rmm-adaptors/src/limiting.rs";
const POOL_TRIM: &str = "crates/rmm-adaptors/src/pool/trim.rs";
const PRESSURE: &str = "crates/rmm-adaptors/src/pool/pressure.rs";
const REMEDY: &str = "crates/rmm-core/src/remedy.rs";
const REQUEST: &str = "crates/rmm-core/src/siblings/request.rs";
const RESERVATION: &str = "crates/rmm-adaptors/src/pool/reservation.rs";
const SIBLINGS: &str = "crates/rmm-core/src/siblings.rs";
const TRIM_STACK: &str = "crates/rmm-core/src/resource/trim_stack.rs";
const TURN: &str = "crates/rmm-core/src/siblings/turn.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "limit-asks-everyone",
        file: SIBLINGS,
        original: "self.may_ask(member) && member.draws_on.contains(&limit)",
        replacement: "self.may_ask(member) && (member.draws_on.contains(&limit) || true)",
        breaks: "each refusal by a limit empties pools that could not help",
    },
    Mutant {
        name: "impossible-request-empties-siblings",
        file: SIBLINGS,
        original: "held > 0 && held.saturating_add(free) >= needed",
        replacement: "held > 0 && (free >= needed || true)",
        breaks: "a request for more than there is takes all idle memory of all pools",
    },
    Mutant {
        name: "siblings-return-all-at-once",
        file: TURN,
        original: "other.give(|usage| usage.reserved.saturating_sub(missing))",
        replacement: "other.give(|_| 0)",
        breaks: "a sibling returns all its idle memory for a request that is short of little",
    },
    Mutant {
        name: "kinds-of-memory-are-mixed",
        file: SIBLINGS,
        original: "kind.unwrap_or(MemoryKind::Device)",
        replacement: "kind.map_or(MemoryKind::Device, |_| MemoryKind::Device)",
        breaks: "pools of pinned memory are emptied for a request for device memory",
    },
    Mutant {
        name: "trim-passes-bins-by",
        file: TRIM_STACK,
        original: "others.chain(ask::upstream(resource))",
        replacement: "others.take(0).chain(ask::upstream(resource))",
        breaks: "a trim of a stack leaves what its bins hold",
    },
    Mutant {
        name: "blocking-trim-waits-during-a-capture",
        file: POOL_TRIM,
        original: "has_pending_frees(&session) && !session.may_capture()",
        replacement: "has_pending_frees(&session)",
        breaks: "a trim invalidates a capture",
    },
    Mutant {
        name: "driver-pool-trim-waits-during-a-capture",
        file: DRIVER_POOLS,
        original: "if is_captured || CaptureScope::is_announced() {",
        replacement: "if is_captured {",
        breaks: "a trim of a driver pool invalidates a capture",
    },
    Mutant {
        name: "siblings-before-own-idle-memory",
        file: LADDER,
        original: "is_refused && self.scarce().is_some_and(has_siblings)",
        replacement: "is_refused && self.scarce().is_some_and(has_siblings) && false",
        breaks: "a pool takes its siblings' memory and keeps its own",
    },
    Mutant {
        name: "host-waits-before-siblings",
        file: LADDER,
        original: ".or_else(|| self.after_pause(Self::ask_for_idle))",
        replacement: "",
        breaks: "the host waits for the device while siblings hold idle memory",
    },
    Mutant {
        name: "limit-asks-no-one",
        file: LIMITING,
        original: "Some(Others::of_limit(self.id))",
        replacement: "Some(Others::of_limit(LimitId::new()))",
        breaks: "a limit refuses while pools over it hold idle memory",
    },
    Mutant {
        name: "code-of-the-program-is-waited-for",
        file: AWAITED,
        original: "let _restore = if Flag::Awaited.is_set() { Restore::after_program() } else { Restore(None) };",
        replacement: "let _restore = Restore(None);",
        breaks: "a thread waits for a callback that waits for it",
    },
    Mutant {
        name: "others-are-asked-under-an-adaptor-s-lock",
        file: REQUEST,
        original: "let Some(deferring) = Deferring::begin_unless_awaited() else {",
        replacement: "if stream.is_none() || true {\n        return in_program(allocate);\n    }\n    let Some(deferring) = Deferring::begin_unless_awaited() else {",
        breaks: "a request waits for a lock of its own thread, which a sibling over the same adaptor needs",
    },
    Mutant {
        name: "reservation-keeps-the-rest",
        file: RESERVATION,
        original: "if rest.bytes > 0 {",
        replacement: "if rest.bytes > 0 && false {",
        breaks: "what remains of a reservation is lost",
    },
    Mutant {
        name: "callback-calls-callbacks",
        file: PRESSURE,
        original: "if RUNS.replace(true) {",
        replacement: "if RUNS.replace(true) && false {",
        breaks: "a callback that allocates calls itself",
    },
    Mutant {
        name: "span-of-time-is-always-over",
        file: IDLE_TIME,
        original: "now.saturating_sub(self.since) >= self.after",
        replacement: "now >= self.since.min(self.after)",
        breaks: "memory goes back long before the time that was asked for",
    },
    Mutant {
        name: "remedies-that-do-not-suffice-come-first",
        file: REMEDY,
        original: "(!remedy.is_enough, effort(remedy.action), remedy.bytes)",
        replacement: "(effort(remedy.action), remedy.bytes)",
        breaks: "the first remedy of an error does not help",
    },
];
