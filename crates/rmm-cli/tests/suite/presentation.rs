//! The table, the JSON and the page of a report.

use rmm_cli::table;
use rmm_report::page::{self, NEVER, View, ViewBlock, ViewFailure, ViewSegment};
use rmm_report::results::{Report, ResourceResult, TraceResult};

use super::common::{OF_A_RESOURCE, keys};

const MIB: u64 = 1 << 20;

fn pool() -> ResourceResult {
    ResourceResult {
        resource: "pool".to_owned(),
        events: 58_598,
        cold_ns_per_op: 1234.56,
        warm_ns_per_op: Some(61.2),
        repeats: 5,
        peak_live_bytes: 9_418_272_512,
        peak_reserved_bytes: Some(9_663_676_416),
        initial_reserved_bytes: 0,
        reserved_over_live: Some(1.026_056),
        pool_peak_live_bytes: Some(9_420_000_000),
        has_driver_pool: false,
        stream_waits: Some(0),
        driver_calls: Some(5),
        failures: 0,
        first_failure: None,
        leaked_blocks: 0,
        leaked_bytes: 0,
        view: Some(View {
            log: "gpt2.csv".to_owned(),
            resource: Some("pool".to_owned()),
            events: 100,
            blocks: (1..100)
                .map(|start| ViewBlock {
                    start,
                    end: NEVER,
                    size: MIB,
                    address: u64::from(start) * MIB,
                    ..ViewBlock::default()
                })
                .collect(),
            reserved: Some(vec![(0, 128 * MIB)]),
            segments: vec![ViewSegment { address: 0, size: 128 * MIB, start: 0, end: NEVER }],
            ..View::default()
        }),
    }
}

fn cuda() -> ResourceResult {
    ResourceResult {
        resource: "cuda".to_owned(),
        warm_ns_per_op: None,
        cold_ns_per_op: 213_456.7,
        repeats: 1,
        pool_peak_live_bytes: None,
        stream_waits: Some(12_345),
        driver_calls: Some(58_598),
        failures: 2,
        first_failure: Some("gpt2.csv:17: out of memory".to_owned()),
        leaked_blocks: 1,
        leaked_bytes: MIB,
        view: Some(View {
            log: "gpt2.csv".to_owned(),
            resource: Some("cuda".to_owned()),
            events: 17,
            failures: vec![ViewFailure { position: 17, size: MIB, ..ViewFailure::default() }],
            failed: 1,
            ..View::default()
        }),
        ..pool()
    }
}

fn trace() -> TraceResult {
    TraceResult {
        file: "gpt2.csv".to_owned(),
        events: 58_598,
        threads: 1,
        streams: 2,
        peak_live_bytes: 9_418_272_512,
        ends_early: false,
        resources: vec![pool(), cuda()],
    }
}

fn report() -> Report {
    Report {
        rmm_version: "0.1.0".to_owned(),
        device: "NVIDIA H200".to_owned(),
        software_device: false,
        traces: vec![trace()],
    }
}

#[test]
fn the_table() {
    let expected = "\
gpt2.csv: 58,598 events, 1 thread, 2 streams, peak live 8,982.0 MiB
          reserved  reserved       cold     warm          driver
resource       MiB     /live    ns/call  ns/call   waits   calls  failures
pool       9,216.0     1.026    1,234.6     61.2       0       5         0
cuda       9,216.0         -  213,456.7        -  12,345  58,598         2
cuda: first failure: gpt2.csv:17: out of memory
1 block (1.0 MiB) still live at the end: leaks, unless the log ends before its
  program did
";
    let found = table::render(&trace());
    assert_eq!(found, expected, "\n{found}");
}

#[test]
fn the_table_fits_80_columns() {
    let mut trace = trace();
    trace.file = "a/long/path/".repeat(9) + "gpt2.csv";
    let long =
        "statistics(limiting(pool(cuda, initial=1GiB, max=8GiB, preset=low-latency), limit=8GiB))";
    for (resource, name) in trace.resources.iter_mut().zip([long, "pool(preset=low-latency)"]) {
        resource.resource = name.to_owned();
        resource.peak_reserved_bytes = None;
    }
    let text = table::render(&trace);
    for line in text.lines().filter(|line| !line.starts_with("a/long/")) {
        assert!(line.chars().count() <= 80, "{line:?} in\n{text}");
    }
    assert!(text.contains("preset=low-latency),\n  limit=8GiB))\n"), "{text}");
    assert!(text.contains("\npool(preset=low-latency)\n         "), "{text}");
}

#[test]
fn the_table_says_what_its_figures_do_not() {
    let mut trace = trace();
    trace.resources.pop();
    let plain = table::render(&trace);
    trace.ends_early = true;
    let text = table::render(&trace);
    assert!(text.contains("\nthe log ends before its program: "), "{text}");
    trace.resources[0].resource = "arena(cuda)".to_owned();
    trace.resources[0].peak_live_bytes = 222 * MIB;
    trace.resources[0].initial_reserved_bytes = 71_680 * MIB;
    let text = table::render(&trace);
    assert!(text.contains("\narena(cuda): reserved 71,680.0 MiB when it was created"), "{text}");
    assert!(!plain.contains("ends in the middle") && !plain.contains("when it was created"));
}

#[test]
fn the_json_has_the_figures_but_not_the_pictures() {
    let json: serde_json::Value =
        serde_json::from_str(&report().to_json().expect("plain data")).expect("JSON");
    let resource = &json["traces"][0]["resources"][1];
    assert_eq!(resource["warm_ns_per_op"], serde_json::Value::Null);
    assert_eq!(resource["first_failure"], "gpt2.csv:17: out of memory");
    assert_eq!(keys(resource), OF_A_RESOURCE);
}

#[test]
fn the_page_says_what_there_is() {
    let page = page::render(&report());
    for part in [
        "Replayed on NVIDIA H200 by rmm 0.1.0.",
        "99.0 MiB in 99 blocks, at event 99.",
        "Of the 2 resources replayed here pool held least: 128.0 MiB at most. It never grew, and no \
         stream waited for another. One does not run: 1 request failed in \
         cuda. At least 99.0 MiB",
        "The first was 1.0 MiB, at event 17; no other failed.",
        "The same events on 2 resources. Live at most: cuda 0 B, pool 99.0 MiB. Held at most: pool \
         128.0 MiB.",
    ] {
        assert!(page.contains(part), "{part:?} is missing");
    }
    assert!(!page.contains("first failure:"), "it is told once");
    assert!(!page.contains("There was no GPU"));
    assert_eq!(page, page::render(&report()), "the same report, the same page");
}

#[test]
fn the_page_admits_the_software_device() {
    let page = page::render(&Report { software_device: true, ..report() });
    assert!(
        page.contains("Replayed on the software device")
            && page.contains("say nothing about a GPU")
    );
}

/// The page without our own script, style sheet and data.
fn markup(page: &str) -> String {
    let mut markup = page.to_owned();
    for tag in ["script", "style"] {
        while let Some(start) = markup.find(&format!("<{tag}")) {
            let end = format!("</{tag}>");
            let length = markup[start..].find(&end).expect("an end") + end.len();
            markup.replace_range(start..start + length, "");
        }
    }
    markup
}

#[test]
fn the_page_needs_nothing_else_and_runs_only_its_own_script() {
    let mut report = report();
    let bad = "</script><script>alert('1')</script><!--\"&\u{1b}[31m";
    report.device = bad.to_owned();
    for trace in &mut report.traces {
        trace.file = bad.to_owned();
        for resource in &mut trace.resources {
            resource.resource = bad.to_owned();
            resource.first_failure = Some(bad.to_owned());
            let view = resource.view.as_mut().expect("a view");
            view.log = bad.to_owned();
            view.resource = Some(bad.to_owned());
            view.names.tags = vec![bad.to_owned(); 2];
            view.names.sites = vec![bad.to_owned(); 2];
            view.names.streams = vec![bad.to_owned(); 2];
            for failure in &mut view.failures {
                failure.text = bad.to_owned();
            }
        }
    }
    let page = page::render(&report);
    let scripts = page.matches("<script").count();
    assert_eq!(scripts, page.matches("</script>").count());
    let columns = page.matches("<script type=\"text/plain\" class=\"column\">").count();
    assert_eq!(scripts, columns + 2, "the columns, the data and our own");
    assert!(!page.contains('\u{1b}') && !page.contains("<!--"));
    assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(&#39;1&#39;)"));
    assert!(page.contains("default-src 'none'; script-src 'sha256-"));
    for word in ["http:", "https:", "url(", "src=", "@import", " style=", " onclick="] {
        assert!(!markup(&page).contains(word), "{word}");
    }
}

#[test]
fn extremes_can_be_rendered() {
    let mut report = report();
    for size in [0, u64::MAX] {
        let view = View {
            events: 1,
            blocks: vec![ViewBlock {
                start: 1,
                end: NEVER,
                size,
                address: u64::MAX,
                ..ViewBlock::default()
            }],
            reserved: Some(vec![(u32::MAX, u64::MAX)]),
            segments: vec![ViewSegment { address: u64::MAX, size: u64::MAX, start: 0, end: NEVER }],
            ..View::default()
        };
        report.traces[0].resources[0].view = Some(view);
        assert!(page::render(&report).ends_with("</html>\n"));
    }
    let empty = Report { traces: Vec::new(), ..report };
    assert!(page::render(&empty).ends_with("</html>\n"));
}
