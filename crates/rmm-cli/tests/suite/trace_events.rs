//! The events of valid logs.

use rmm_report::trace::{Action, Event};

use super::common::{HEADER, gzip, read, rows, zstd};

/// Two threads and two streams; the slot of the second block is reused, an allocation fails, one
/// block stays.
const LOG: &str = "\
7,00:00:00.000001,allocate,0x1000,100,0x0
9,00:00:00.000002,allocate,0x2000,512,0xab
7,3,free,0x2000,512,0
9,4,allocate,0x2000,300,ab
9,5,allocate failure,(nil),99999,ab
7,6,free,0x1000,100,0x0
";

fn event(line: u64, thread: u32, stream: u32, action: Action) -> Event {
    Event { line, thread, stream, action }
}

#[test]
fn rows_become_events() {
    let trace = rows(LOG).expect("valid");
    assert_eq!(trace.threads, [7, 9]);
    assert_eq!(trace.streams, [0, 0xab]);
    assert_eq!(
        trace.events,
        [
            event(2, 0, 0, Action::Allocate { block: 0, size: 100 }),
            event(3, 1, 1, Action::Allocate { block: 1, size: 512 }),
            event(4, 0, 0, Action::Free { block: 1, size: 512 }),
            event(5, 1, 1, Action::Allocate { block: 1, size: 300 }),
            event(6, 1, 1, Action::AllocateFailure { size: 99999 }),
            event(7, 0, 0, Action::Free { block: 0, size: 100 }),
        ]
    );
    assert_eq!(
        (trace.blocks, trace.peak_live, trace.peak_live_aligned, trace.peak_event),
        (2, 612, 768, 1)
    );
    assert_eq!(
        trace.to_string(),
        "log.csv: 6 events, 2 threads, 2 streams, 2 blocks live at most, peak live 768 B"
    );
}

#[test]
fn compression_and_line_ends_do_not_matter() {
    let text = format!("{HEADER}{LOG}");
    let plain = read(text.as_bytes()).expect("plain");
    let crlf = text.replace('\n', "\r\n");
    let mut members = gzip(HEADER.as_bytes());
    members.extend(gzip(LOG.as_bytes()));
    let mut frames = vec![0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 42];
    frames.extend(zstd(HEADER.as_bytes()));
    frames.extend(zstd(LOG.as_bytes()));
    for (what, bytes) in [
        ("gzip", gzip(text.as_bytes())),
        ("two gzip members", members),
        ("zstd", zstd(text.as_bytes())),
        ("a skippable and two zstd frames", frames),
        ("CR LF", crlf.into_bytes()),
        ("no line end at the end", text.trim_end().as_bytes().to_vec()),
        ("a byte order mark", format!("\u{feff}{text}").into_bytes()),
    ] {
        assert_eq!(read(&bytes).expect(what), plain, "{what}");
    }
}

#[test]
fn blank_lines_count_as_lines_only() {
    for blank in ["\n", "\r\n"] {
        let text =
            format!("{blank}{HEADER}{blank}{blank}1,1,allocate,0x1,8,0\n{blank}1,1,free,0x1,8,0");
        let lines: Vec<u64> =
            read(text.as_bytes()).expect("valid").events.iter().map(|event| event.line).collect();
        assert_eq!(lines, [5, 7], "{blank:?}");
    }
}

#[test]
fn empty_blocks_may_share_a_pointer() {
    let trace = rows(
        "1,1,allocate,(nil),0,0\n1,2,allocate,0x0,0,0\n1,3,allocate,0,0,0\n1,4,allocate,0x100,0,0\n\
         1,5,allocate,0x100,64,0\n1,6,free,0x0,0,0\n1,7,free,0x100,0,0\n1,8,free,0x100,64,0\n\
         1,9,free,(nil),0,0\n1,10,free,0,0,0\n",
    )
    .expect("valid");
    assert_eq!(
        (trace.blocks, trace.peak_live, trace.peak_live_aligned, trace.peak_event),
        (5, 64, 256, 4)
    );
    let mut live = [false; 5];
    for event in &trace.events {
        let (block, becomes) = match event.action {
            Action::Allocate { block, .. } => (block, true),
            Action::Free { block, .. } => (block, false),
            Action::AllocateFailure { .. } => panic!("there is none"),
        };
        let slot = &mut live[block as usize];
        assert_ne!(*slot, becomes, "line {}", event.line);
        *slot = becomes;
    }
    assert_eq!(live, [false; 5]);
}

#[test]
fn the_last_slot_freed_is_the_first_reused() {
    let trace = rows(
        "1,1,allocate,0x1,8,0\n1,1,allocate,0x2,8,0\n1,1,allocate,0x3,8,0\n1,1,free,0x1,8,0\n1,1,free,0x3,8,0\n\
         1,1,allocate,0x4,8,0\n1,1,allocate,0x5,8,0\n1,1,allocate,0x6,8,0\n",
    )
    .expect("valid");
    let blocks: Vec<u32> = trace.events[5..]
        .iter()
        .map(|event| match event.action {
            Action::Allocate { block, .. } => block,
            _ => panic!("an allocation"),
        })
        .collect();
    assert_eq!(blocks, [2, 0, 3]);
}

#[test]
fn the_largest_size_is_taken() {
    let trace = rows(&format!("1,1,allocate,0x1,{},0\n", isize::MAX)).expect("valid");
    assert_eq!((trace.peak_live, trace.peak_live_aligned), (isize::MAX as u64, 1 << 63));
}
