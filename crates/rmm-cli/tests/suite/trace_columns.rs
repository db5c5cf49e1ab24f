//! Columns by name, times, the end mark, and logs that begin in the middle.

use rmm_cli::args::ThreadMode;
use rmm_cli::device::OpenDevice;
use rmm_cli::replay::{ReplayOptions, replay};
use rmm_report::trace::{Action, Before, NO_DEVICE};

use super::common::{read, rows};

/// The optional columns stand between the others, and one is not known.
const LOG: &str = "\
Device,Site,Thread,Time,Action,More,Pointer,Size,Stream,Tag
0,\"train.py:12 step(\"\"a\"\",b) < main.py:3 main\",1,00:00:01.000000,allocate,x,0x10,64,0,weights
,,1,00:00:01.000250,allocate,,0x20,100,0,
3,eval.py:7 run,2,00:00:02.5,allocate failure,,(nil),7,0,\"a,b\"
3,,1,00:00:02.500001,free,\"\",0x10,64,0,weights
";

#[test]
fn columns_are_read_by_name() {
    let trace = read(LOG.as_bytes()).expect("valid");
    assert_eq!(trace.tags, ["", "weights", "a,b"]);
    assert_eq!(trace.sites, ["", "train.py:12 step(\"a\",b) < main.py:3 main", "eval.py:7 run"]);
    assert_eq!(trace.devices, [NO_DEVICE, 0, 3]);
    let of_each = |value: &dyn Fn(usize) -> u32| (0..4).map(value).collect::<Vec<_>>();
    assert_eq!(of_each(&|event| trace.tag(event)), [1, 0, 2, 1]);
    assert_eq!(of_each(&|event| trace.site(event)), [1, 0, 2, 0]);
    assert_eq!(of_each(&|event| trace.device(event)), [1, 0, 2, 2]);
    let times: Vec<Option<u64>> = (0..5).map(|event| trace.time(event)).collect();
    assert_eq!(times, [Some(0), Some(250_000), Some(1_500_000_000), Some(1_500_001_000), None]);
    let addresses: Vec<u64> = (0..4).map(|event| trace.address(event)).collect();
    assert_eq!(addresses, [0x10, 0x20, 0, 0x10]);
}

#[test]
fn a_log_without_the_columns_has_none() {
    let trace = rows("1,x,allocate,0x10,64,0\n1,00:00:00,free,0x10,64,0\n").expect("valid");
    assert_eq!((trace.tags.len(), trace.sites.len(), trace.devices.len()), (1, 1, 1));
    assert_eq!((trace.tag(0), trace.site(1), trace.device(1)), (0, 0, 0));
    assert!(!trace.has_times() && trace.time(1).is_none());
    assert!(!trace.ended && trace.before.is_empty());
}

#[test]
fn a_device_is_a_number() {
    let header = "Thread,Time,Action,Pointer,Size,Stream,Device\n";
    for device in ["-1", "gpu", "4294967296"] {
        let log = format!("{header}1,0,allocate,0x10,64,0,{device}\n");
        let message = format!("log.csv:2: device {device:?} is not the number of a device");
        assert_eq!(read(log.as_bytes()).expect_err(device).to_string(), message);
    }
}

#[test]
fn the_end_mark_is_no_event() {
    const MARK: &str = "1,00:00:02.000000,allocate failure,(nil),0,0\n";
    let first = "1,00:00:01.000000,allocate,0x10,64,0\n";
    let trace = rows(&format!("{first}{MARK}")).expect("valid");
    assert_eq!((trace.events.len(), trace.ended, trace.ends_early), (1, true, false));
    // In the middle it is what it says.
    let trace = rows(&format!("{first}{MARK}1,00:00:03,free,0x10,64,0\n")).expect("valid");
    assert_eq!((trace.events.len(), trace.ended), (3, false));
    assert_eq!(trace.events[1].action, Action::AllocateFailure { size: 0 });
    assert_eq!((trace.events[1].line, trace.time(2)), (3, Some(2_000_000_000)));
    // A row that is cut follows.
    let trace = rows(&format!("{first}{MARK}1,00:0")).expect("valid");
    assert_eq!((trace.events.len(), trace.ended, trace.ends_early), (2, false, true));
    assert_eq!(
        rows(MARK).expect_err("no event").to_string(),
        "log.csv: there is a header but no event"
    );
}

#[test]
fn a_log_that_begins_in_the_middle() {
    // 0x10 and 0x20 and a block without bytes were live before.
    let trace = rows(
        "1,1,allocate,0x30,1000,a\n1,2,free,0x20,300,b\n1,3,allocate,0x20,256,a\n1,4,free,0x10,64,c\n\
         1,5,free,(nil),0,0\n1,6,free,0x30,1000,a\n1,7,free,0x20,256,a\n",
    )
    .expect("valid");
    let before = |block, size, address, stream| Before {
        block,
        size,
        address,
        stream,
        tag: 0,
        site: 0,
        device: 0,
    };
    assert_eq!(trace.before, [before(1, 300, 0x20, 1), before(2, 64, 0x10, 2), before(3, 0, 0, 3)]);
    assert_eq!((trace.blocks, trace.peak_event), (4, 0));
    assert_eq!((trace.peak_live, trace.peak_live_aligned), (1364, 1024 + 512 + 256));
    assert_eq!(trace.events[2].action, Action::Allocate { block: 1, size: 256 });
    assert!(
        trace.to_string().ends_with("peak live 1.8 KiB, 3 blocks live before the log"),
        "{trace}"
    );
}

#[test]
fn the_peak_may_be_before_the_log() {
    let trace = rows("1,1,free,0x10,2000,0\n1,2,allocate,0x20,100,0\n").expect("valid");
    assert_eq!((trace.peak_event, trace.peak_live, trace.peak_live_aligned), (0, 2000, 2048));
    assert_eq!(trace.blocks, 1);
}

#[test]
fn a_log_that_begins_in_the_middle_is_replayed() {
    let log = "1,1,allocate,0x30,1000,a\n2,2,free,0x20,3000,b\n1,3,allocate,0x20,2000,a\n\
               2,4,free,0x10,64,c\n1,6,free,0x30,1000,a\n2,7,free,0x20,2000,a\n";
    let trace = rows(log).expect("valid");
    let machine = rmm_sim::Machine::new();
    let device = OpenDevice::on_machine(&machine);
    for threads in [None, Some(ThreadMode::AsRecorded)] {
        for kind in ["cuda", "pool", "statistics(pool(cuda))"] {
            let options = ReplayOptions { repeat: 2, threads, ..ReplayOptions::default() };
            let resource = kind.parse().expect("a resource");
            let result = replay(&device, &trace, &resource, options, &|_| {}).expect("replays");
            assert_eq!((result.failures, result.leaked_blocks), (0, 0), "{kind}");
            assert_eq!(result.peak_live_bytes, trace.peak_live_aligned, "{kind}");
            assert_eq!(result.events, 6);
        }
    }
    assert!(machine.leaks().is_empty());
}
