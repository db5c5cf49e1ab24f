//! Performance targets of the pool, and whether a run meets them.

#![forbid(unsafe_code)]

use super::figures::{Figures, times_better};
use super::subject::ReportSubject;

/// What one figure is to reach.
struct Target {
    /// The work, as readers know it.
    label: &'static str,
    workload: &'static str,
    params: &'static str,
    limit: Limit,
    /// How many times better than RMM's pool, ...
    than_rmm_pool: Option<f64>,
    /// ... the best of the others, ...
    than_best_peer: Option<f64>,
    /// ... and itself on one thread.
    than_one_thread: Option<f64>,
}

/// A bound on a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Limit {
    None,
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    const fn at_most(self, bound: f64) -> Self {
        Self { limit: Limit::AtMost(bound), ..self }
    }

    const fn at_least(self, bound: f64) -> Self {
        Self { limit: Limit::AtLeast(bound), ..self }
    }

    const fn rmm_pool(self, times: f64) -> Self {
        Self { than_rmm_pool: Some(times), ..self }
    }

    const fn best_peer(self, times: f64) -> Self {
        Self { than_best_peer: Some(times), ..self }
    }

    const fn one_thread(self, times: f64) -> Self {
        Self { than_one_thread: Some(times), ..self }
    }
}

const fn target(label: &'static str, workload: &'static str, params: &'static str) -> Target {
    let (limit, times) = (Limit::None, None);
    Target {
        label,
        workload,
        params,
        limit,
        than_rmm_pool: times,
        than_best_peer: times,
        than_one_thread: times,
    }
}

/// How many times less than RMM's an adaptor of ours is to add, to a resource that does nothing.
/// Over a pool, a part of its work is done while the processor waits for the pool's.
const fn adaptor(label: &'static str, name: &'static str) -> Target {
    target(label, "adaptor_over_nothing", name).rmm_pool(5.0)
}

/// Nanoseconds that two runs of the same differ by: an adaptor that adds less counts as adding
/// this.
const RESOLUTION: f64 = 0.5;

/// Every target.
const TARGETS: &[Target] = &[
    target("pair, 256 B", "pair", "size=256").at_most(30.0).rmm_pool(15.0).best_peer(7.0),
    target("pair, 4 KiB", "pair", "size=4096").at_most(20.0).rmm_pool(15.0).best_peer(7.0),
    target("pair, 1 MiB", "pair", "size=1048576").at_most(30.0).rmm_pool(15.0).best_peer(7.0),
    target("legacy stream, pair", "legacy", "size=4096").at_most(45.0),
    target("legacy stream, random", "legacy", "random").at_most(80.0),
    target("per-thread stream, pair", "per-thread", "size=4096").at_most(25.0),
    target("per-thread stream, random", "per-thread", "random").at_most(50.0),
    // Three more than on a stream of our own.
    target("adopted stream, known end, pair", "foreign", "known end").at_most(23.0),
    target("adopted stream, unknown end, pair", "foreign", "unknown end").at_most(180.0),
    target("random, 256 streams", "streams", "streams=256").at_most(80.0),
    target("migrate, 1,000 calls a round", "migrate", "T=16 calls=1000").at_least(40.0),
    target("migrate, 50 calls a round", "migrate", "T=16 calls=50").at_least(10.0),
    target("16 threads on one stream", "shared", "T=16").at_least(200.0),
    target("large blocks", "large", "2 to 256 MiB").at_most(60.0),
    target("growth from an empty pool", "grow", "blocks=4000").at_most(350.0),
    target("busy streams, reserved / live", "busy", "reserved / live").at_most(1.25),
    target("p99.999 of a million calls", "latency", "random p99.999").at_most(10e3),
    target("longest of a million calls", "latency", "random longest").at_most(50e3),
    target("10,000 holes", "holes", "H=10000").at_most(60.0).rmm_pool(500.0).best_peer(10.0),
    target("random, 1 stream", "random", "streams=1").at_most(50.0).best_peer(8.0),
    target("random, 8 streams", "random", "streams=8").at_most(60.0).best_peer(5.0),
    target("16 threads", "threads", "T=16").at_least(100.0).best_peer(20.0).one_thread(10.0),
    target("handoff", "handoff", "4096").at_most(150.0).best_peer(6.0),
    target("etl-streams, warm", "replay", "etl-streams").at_most(50.0).best_peer(5.0),
    target("gnn-train, warm", "replay", "gnn-train").at_most(50.0).best_peer(5.0),
    target("gpt2-train, warm", "replay", "gpt2-train").at_most(50.0).best_peer(5.0),
    target("resnet-train, warm", "replay", "resnet-train").at_most(50.0).best_peer(5.0),
    target("etl-streams, cold", "replay_cold", "etl-streams").best_peer(1.0),
    target("gnn-train, cold", "replay_cold", "gnn-train").best_peer(1.0),
    target("gpt2-train, cold", "replay_cold", "gpt2-train").best_peer(1.0),
    target("resnet-train, cold", "replay_cold", "resnet-train").best_peer(1.0),
    target("etl-streams, reserved / peak", RESERVED, "etl-streams").at_most(1.40),
    target("gnn-train, reserved / peak", RESERVED, "gnn-train").at_most(1.15),
    target("gpt2-train, reserved / peak", RESERVED, "gpt2-train").at_most(1.15),
    target("resnet-train, reserved / peak", RESERVED, "resnet-train").at_most(1.15),
    target("random, 8 streams, waits", "waits", "random streams=8").at_most(10.0),
    target("etl-streams, waits", "waits", "etl-streams").at_most(10.0),
    target("gnn-train, waits", "waits", "gnn-train").at_most(10.0),
    target("gpt2-train, waits", "waits", "gpt2-train").at_most(10.0),
    target("resnet-train, waits", "waits", "resnet-train").at_most(10.0),
    target("allocate, p99.9", "allocate", "p99.9").at_most(1000.0),
    target("longest allocation, 10^5 blocks", "latency", LONGEST[0]).at_most(1e6),
    target("longest free, 10^5 blocks", "latency", LONGEST[1]).at_most(1e6),
    target("longest allocation, 10^6 blocks", "latency", LONGEST[2]).at_most(1e7),
    target("longest free, 10^6 blocks", "latency", LONGEST[3]).at_most(1e7),
    adaptor("adaptor aligned_256", "aligned_256"),
    adaptor("adaptor aligned_4096", "aligned_4096"),
    adaptor("adaptor callback", "callback"),
    adaptor("adaptor failure_callback", "failure_callback"),
    adaptor("adaptor limiting", "limiting"),
    adaptor("adaptor logging", "logging"),
    // It needs memory to move: over the pool.
    target("adaptor prefetch, over the pool", "adaptor_own", "prefetch").rmm_pool(5.0),
    adaptor("adaptor statistics", "statistics"),
    adaptor("adaptor thread_safe", "thread_safe"),
    adaptor("adaptor tracking", "tracking"),
];

const RESERVED: &str = "replay_reserved_over_peak";

/// The longest calls that ask the driver for nothing, beside 10^5 blocks and beside 10^6.
const LONGEST: [&str; 4] = [
    "blocks=100000 streams=1 threads=1 allocate longest",
    "blocks=100000 streams=1 threads=1 free longest",
    "blocks=1000000 streams=1 threads=1 allocate longest",
    "blocks=1000000 streams=1 threads=1 free longest",
];

/// A ratio and what it is to be at least.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Times {
    pub(super) measured: Option<f64>,
    pub(super) at_least: Option<f64>,
}

impl Times {
    fn verdict(self) -> Verdict {
        match (self.measured, self.at_least) {
            (_, None) => Verdict::Met,
            (Some(measured), Some(at_least)) => Verdict::of(measured >= at_least),
            (None, Some(_)) => Verdict::NotMeasured,
        }
    }
}

/// Whether a target is reached; the worst comes last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// All that is wanted is reached.
    Met,
    /// Something that is wanted is not.
    Missed,
    /// Something was not measured.
    NotMeasured,
}

impl Verdict {
    fn of(is_met: bool) -> Self {
        if is_met { Self::Met } else { Self::Missed }
    }
}

/// A target with what was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Judged {
    /// The work.
    pub label: &'static str,
    pub(super) unit: String,
    pub(super) ours: Option<f64>,
    pub(super) limit: Limit,
    pub(super) rmm_pool: Option<f64>,
    pub(super) than_rmm_pool: Times,
    /// The best of the others, by name.
    pub(super) best_peer: Option<(String, f64)>,
    pub(super) than_best_peer: Times,
    pub(super) than_one_thread: Times,
}

impl Judged {
    /// Whether everything that is wanted was measured and is reached.
    pub fn verdict(&self) -> Verdict {
        let within = match (self.ours, self.limit) {
            (None, _) => Verdict::NotMeasured,
            (Some(_), Limit::None) => Verdict::Met,
            (Some(ours), Limit::AtMost(bound)) => Verdict::of(ours <= bound),
            (Some(ours), Limit::AtLeast(bound)) => Verdict::of(ours >= bound),
        };
        let times = [self.than_rmm_pool, self.than_best_peer, self.than_one_thread];
        times.into_iter().map(Times::verdict).fold(within, Verdict::max)
    }
}

/// Holds one of our allocators to every target.
pub fn judge(figures: &Figures, allocator: &str) -> Vec<Judged> {
    TARGETS
        .iter()
        .map(|target| judge_one(figures, &ReportSubject::ours(allocator), target))
        .collect()
}

fn judge_one(figures: &Figures, subject: &ReportSubject, target: &Target) -> Judged {
    let &Target { label, workload, params, limit, .. } = target;
    let unit = figures.unit(&(workload.to_owned(), params.to_owned())).to_owned();
    let ours = figures.value(subject, workload, params);
    let rmm_pool = figures.value(&ReportSubject::peer("pool"), workload, params);
    let best_peer = figures.best_peer(workload, params);
    let one_thread = figures.value(subject, "threads", "T=1").filter(|_| workload == "threads");
    let least = if workload.starts_with("adaptor") { RESOLUTION } else { f64::MIN };
    let times = |theirs: Option<f64>, at_least| Times {
        // A ratio to nothing means nothing.
        measured: ours
            .zip(theirs.filter(|theirs| *theirs > 0.0))
            .map(|(ours, theirs)| times_better(ours.max(least), theirs, &unit)),
        at_least,
    };
    Judged {
        label,
        ours,
        limit,
        rmm_pool,
        than_rmm_pool: times(rmm_pool, target.than_rmm_pool),
        best_peer: best_peer.map(|(subject, value)| (subject.label(), value)),
        than_best_peer: times(best_peer.map(|(_, value)| value), target.than_best_peer),
        than_one_thread: times(one_thread, target.than_one_thread),
        unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn of(label: &str) -> Judged {
        let judged = judge(&fixture::figures(), "pool");
        judged.into_iter().find(|judged| judged.label == label).unwrap()
    }

    #[test]
    fn a_target_is_met_if_all_its_parts_are() {
        let pair = of("pair, 4 KiB");
        assert_eq!(pair.verdict(), Verdict::Met, "{pair:?}");
        assert_eq!(pair.best_peer, Some(("RMM arena".to_owned(), 218.0)));
        assert_eq!(of("pair, 256 B").verdict(), Verdict::Missed, "31 ns are too many");
        let holes = of("10,000 holes");
        assert!(holes.ours.unwrap() <= 60.0);
        assert_eq!(holes.verdict(), Verdict::Missed, "PyTorch is too near: {holes:?}");
    }

    #[test]
    fn streams_of_others_have_limits_of_their_own() {
        let verdict = |label| of(label).verdict();
        assert_eq!(verdict("legacy stream, pair"), Verdict::Met);
        assert_eq!(verdict("adopted stream, unknown end, pair"), Verdict::Missed, "181 ns");
        assert_eq!(verdict("migrate, 1,000 calls a round"), Verdict::Missed, "39 Mops/s");
        assert_eq!(verdict("migrate, 50 calls a round"), Verdict::Met, "more is better");
        assert_eq!(verdict("busy streams, reserved / live"), Verdict::NotMeasured);
    }

    #[test]
    fn threads_are_compared_with_one_thread() {
        let threads = of("16 threads");
        assert_eq!(threads.than_one_thread.measured, Some(5.0));
        assert_eq!(
            threads.verdict(),
            Verdict::Missed,
            "110 Mops/s, but only five times those of one thread"
        );
    }

    #[test]
    fn an_adaptor_is_compared_with_rmm_s() {
        let times = |label| (of(label).than_rmm_pool.measured, of(label).verdict());
        assert_eq!(times("adaptor statistics"), (Some(10.0), Verdict::Met));
        assert_eq!(times("adaptor limiting"), (Some(4.0), Verdict::Missed));
        assert_eq!(times("adaptor callback"), (Some(1.5), Verdict::Missed));
        assert_eq!(times("adaptor prefetch, over the pool"), (Some(700.0), Verdict::Met));
        assert_eq!(times("adaptor tracking"), (None, Verdict::NotMeasured));
    }

    #[test]
    fn nothing_is_not_infinitely_better() {
        let nearly_nothing = of("adaptor failure_callback");
        assert_eq!(nearly_nothing.ours, Some(0.01));
        assert_eq!(nearly_nothing.than_rmm_pool.measured, Some(10.0), "5 ns to 0.5 ns");
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        assert_eq!(of("handoff").verdict(), Verdict::NotMeasured);
        assert_eq!(of("gnn-train, cold").verdict(), Verdict::NotMeasured, "no peer was");
        assert_eq!(of("gnn-train, reserved / peak").verdict(), Verdict::Met, "no peer is needed");
    }
}
