//! Figures as text.

use rmm_report::format::{bytes, thousands};
use rmm_report::watch::{ProgramFigures, WatchedPool};

use crate::style::plain;
use crate::text::{self, Row};

/// The most tags of a pool that are shown.
const MOST_TAGS: usize = 5;

/// The columns of the table.
const HEADER: [&str; 8] =
    ["pool", "live", "peak", "reserved", "largest\nfree", "requests\na second", "waits", "failed"];

/// One line: the process and its pools.
pub(super) fn in_list(figures: &ProgramFigures) -> String {
    let reserved: u64 = figures.pools.iter().map(|pool| pool.reserved_bytes).sum();
    let pools = rmm_report::format::count(figures.pools.len() as u64, "pool");
    let program = printable(&figures.program);
    let all = format!("{program}, {pools}, {} reserved", bytes(reserved));
    text::hang(&format!("{:>8}  ", figures.pid), &all, 10)
}

/// A line that says what it is, and the table of its pools. No line is longer than 80 columns,
/// unless a name is.
pub(super) fn as_table(figures: &ProgramFigures, before: Option<&ProgramFigures>) -> String {
    let ProgramFigures { pid, program, time_ms, .. } = figures;
    let title = format!("{}, process {pid}, {} UTC", printable(program), time_of_day(*time_ms));
    let mut shown = text::wrap(&title, 2);
    if figures.pools.is_empty() {
        return shown + "  it has no pool, or has registered none\n";
    }
    let elapsed = before.map(|before| time_ms.saturating_sub(before.time_ms));
    let mut rows = Vec::new();
    let is_one_device = figures.pools.iter().all(|pool| pool.device == figures.pools[0].device);
    for pool in &figures.pools {
        let earlier = before.and_then(|before| before.pools.iter().find(|it| is_same(it, pool)));
        let name = match pool.device {
            Some(device) if !is_one_device => format!("{}, device {device}", pool.pool),
            _ => pool.pool.clone(),
        };
        let cells = [
            printable(&name),
            bytes(pool.live_bytes),
            bytes(pool.peak_live_bytes),
            bytes(pool.reserved_bytes),
            bytes(pool.largest_free_bytes),
            a_second(pool, earlier, elapsed),
            thousands(pool.stream_waits + pool.host_waits),
            thousands(pool.failed_allocations),
        ];
        rows.push(Row { cells: cells.to_vec(), style: None });
        let tags =
            figures.tags.iter().filter(|tag| tag.pool == pool.pool && tag.device == pool.device);
        for tag in tags.take(MOST_TAGS) {
            let name = format!("  tag {}", printable(&tag.tag));
            let mut cells = vec![name, bytes(tag.live_bytes), bytes(tag.peak_bytes)];
            cells.resize(HEADER.len(), String::new());
            rows.push(Row { cells, style: None });
        }
    }
    shown += &plain(&text::table(&HEADER.map(str::to_owned), &rows));
    shown
}

fn is_same(one: &WatchedPool, other: &WatchedPool) -> bool {
    one.pool == other.pool && one.device == other.device
}

/// Allocations a second since the reading before.
fn a_second(pool: &WatchedPool, before: Option<&WatchedPool>, elapsed_ms: Option<u64>) -> String {
    let (Some(before), Some(elapsed @ 1..)) = (before, elapsed_ms) else { return "-".to_owned() };
    let more = pool.allocations.saturating_sub(before.allocations);
    thousands(more.saturating_mul(1000) / elapsed)
}

fn time_of_day(time_ms: u64) -> String {
    let seconds = time_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Text of another program without characters that control the terminal.
fn printable(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(json: &str) -> ProgramFigures {
        serde_json::from_str(json).expect("figures")
    }

    #[test]
    fn a_table_has_pools_tags_and_what_happens_in_a_second() {
        let before = figures(
            r#"{"pid": 7, "program": "train\u001b[2J", "time_ms": 1000,
                "pools": [{"pool": "current", "device": 0, "allocations": 10}]}"#,
        );
        let after = figures(
            r#"{"pid": 7, "program": "train\u001b[2J", "time_ms": 3500, "pools": [
                {"pool": "current", "device": 0, "live_bytes": 1048576, "peak_live_bytes": 2097152,
                 "reserved_bytes": 4294967296, "largest_free_bytes": 1024, "allocations": 5010,
                 "stream_waits": 3, "host_waits": 4, "failed_allocations": 1},
                {"pool": "workers", "device": 1}],
                "tags": [{"pool": "current", "device": 0, "tag": "loader\n", "live_bytes": 512,
                          "peak_bytes": 2048}], "of_another_version": 1}"#,
        );
        let expected = "\
train [2J, process 7, 00:00:03 UTC
                                               largest  requests
pool                  live     peak  reserved     free  a second  waits  failed
current, device 0  1.0 MiB  2.0 MiB  4.00 GiB  1.0 KiB     2,000      7       1
  tag loader         512 B  2.0 KiB
workers, device 1      0 B      0 B       0 B      0 B         -      0       0
";
        assert_eq!(as_table(&after, Some(&before)), expected);
        let first = as_table(&before, None);
        assert!(first.contains("\ncurrent   0 B   0 B       0 B      0 B         -"), "{first}");
        assert_eq!(in_list(&after), "       7  train [2J, 2 pools, 4.00 GiB reserved\n");
    }

    #[test]
    fn without_a_pool_it_says_so() {
        let shown = as_table(&figures(r#"{"pid": 7, "time_ms": 86399999}"#), None);
        assert_eq!(shown, ", process 7, 23:59:59 UTC\n  it has no pool, or has registered none\n");
    }
}
