//! The charts of a page: which figures are in which.

#![forbid(unsafe_code)]

use rmm_report::draw::Drawn;

use super::bars::{self, Panel};
use super::figures::Figures;

/// A chart: its file, its caption, and its panels.
type Chart = (&'static str, &'static str, Vec<Panel>);

const TRACES: [&str; 4] = ["etl-streams", "gnn-train", "gpt2-train", "resnet-train"];

/// File, caption and picture of each chart for which there are figures.
pub(super) fn draw(figures: &Figures) -> Drawn<Vec<(&'static str, &'static str, String)>> {
    let mut drawn = Vec::new();
    let adaptors = ("adaptors.svg", "What adaptors add", adaptor_panels(figures));
    for (file, caption, panels) in of_streams().into_iter().chain([adaptors]).chain(of_work()) {
        drawn.extend(bars::draw(figures, &panels)?.map(|svg| (file, caption, svg)));
    }
    Ok(drawn)
}

fn panel(workload: &'static str, params: &str, title: impl Into<String>) -> Panel {
    Panel { title: title.into(), workload, params: params.to_owned() }
}

/// A chart of panels of a workload, its parameters and a title each.
fn chart<const N: usize>(
    file: &'static str,
    caption: &'static str,
    panels: [(&'static str, &str, &str); N],
) -> Chart {
    (file, caption, panels.map(|(workload, params, title)| panel(workload, params, title)).into())
}

/// Pairs, and every kind of stream and way to share it.
fn of_streams() -> [Chart; 3] {
    let pair = [
        ("pair", "size=256", "256 B, ns a pair"),
        ("pair", "size=4096", "4 KiB, ns a pair"),
        ("pair", "size=1048576", "1 MiB, ns a pair"),
        ("handoff", "4096", "freed on another thread, ns a pair"),
    ];
    let streams = [
        ("legacy", "size=4096", "legacy default stream, 4 KiB, ns a pair"),
        ("legacy", "random", "the same, random calls, ns a call"),
        ("per-thread", "size=4096", "per-thread stream, 4 KiB, ns a pair"),
        ("per-thread", "random", "the same, random calls, ns a call"),
        ("foreign", "known end", "adopted stream, known end, ns a pair"),
        ("foreign", "unknown end", "the same, unknown end, ns a pair"),
        ("streams", "streams=256", "256 streams, random calls, ns a call"),
    ];
    let tasks = [
        ("migrate", "T=16 calls=1000", "after 1,000 calls, million calls a second"),
        ("migrate", "T=16 calls=50", "after 50 calls, million calls a second"),
        ("shared", "T=16", "16 threads on one stream, million calls a second"),
    ];
    [
        chart("pair.svg", "Allocate and free of one size", pair),
        chart("streams.svg", "Default streams, streams of others, many streams", streams),
        chart("tasks.svg", "Tasks that change threads, and threads on one stream", tasks),
    ]
}

/// Lists of calls, made up and recorded.
fn of_work() -> [Chart; 7] {
    let random = [
        ("random", "streams=1", "1 stream, ns a call"),
        ("random", "streams=8", "8 streams, ns a call"),
    ];
    let growth = [
        ("large", "2 to 256 MiB", "blocks of 2 to 256 MiB, ns a call"),
        ("grow", "blocks=4000", "4,000 blocks from an empty pool, ns a call"),
        ("busy", "reserved / live", "streams that work, reserved / live"),
        ("latency", "random longest", "the longest of a million calls, ns"),
    ];
    let threads = [1, 4, 8, 16].map(|threads| {
        let title = format!("{threads} threads, million calls a second in all");
        panel("threads", &format!("T={threads}"), title)
    });
    let holes = [0, 100, 1000, 10_000].map(|holes| {
        let title = format!("{holes} holes of 2 KiB, ns a pair of 4 KiB");
        panel("holes", &format!("H={holes}"), title)
    });
    let traces = |workload, what: &str| {
        TRACES.map(|name| panel(workload, name, format!("{name}, {what}"))).into()
    };
    let reserved = traces("replay_reserved_over_peak", "reserved / live");
    [
        chart("random.svg", "Random calls", random),
        ("threads.svg", "Threads", threads.into()),
        ("holes.svg", "Beside free blocks that are too small", holes.into()),
        chart("growth.svg", "Large blocks, growth, and the longest call", growth),
        ("replay.svg", "Recorded programs, warm", traces("replay", "ns a call")),
        ("replay-cold.svg", "Recorded programs, first run", traces("replay_cold", "ns a call")),
        ("reserved.svg", "Memory held for one byte in use at the peak", reserved),
    ]
}

/// A panel for each adaptor that both runners timed over a resource that does nothing.
pub(super) fn adaptor_panels(figures: &Figures) -> Vec<Panel> {
    let workload = "adaptor_over_nothing";
    let works = figures.works().filter(|((name, _), _)| name == workload);
    works
        .map(|((_, name), _)| name)
        .filter(|name| figures.values(workload, name).len() > 1)
        .map(|name| panel(workload, name, format!("{name}, ns a pair, over nothing")))
        .collect()
}
