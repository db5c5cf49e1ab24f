//! Tests of the allocation log: lines, threads, and writers that fail.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::thread;

use rmm_adaptors::{LogColumn, LoggingResourceAdaptor, Tag};
use rmm_core::{CudaStream, DevicePtr, Resource, StreamRef, SynchronousResource};
use rmm_resources::CudaMemoryResource;

use crate::adaptors::scripted::{Scripted, free_sync};
use crate::support::{free, layout};
use rmm_sim::Machine;

/// A writer whose contents can be read meanwhile.
#[derive(Clone, Debug, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no writer panics").clone()).expect("UTF-8")
    }

    /// The rows below the header, by their fields.
    fn rows(&self) -> Vec<[String; 6]> {
        let text = self.text();
        assert!(text.ends_with('\n'), "{text:?}");
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("Thread,Time,Action,Pointer,Size,Stream"));
        let fields = |line: &str| {
            let fields: Vec<String> = line.split(',').map(str::to_owned).collect();
            fields.try_into().unwrap_or_else(|_| panic!("six fields: {line}"))
        };
        lines.map(fields).collect()
    }

    /// The rows without thread and time.
    fn calls(&self) -> Vec<String> {
        self.rows().into_iter().map(|[_, _, rest @ ..]| rest.join(",")).collect()
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Logged = LoggingResourceAdaptor<CudaMemoryResource>;

fn logged() -> (Logged, Page) {
    let page = Page::default();
    (
        Logged::to_writer(CudaMemoryResource::new(), page.clone())
            .expect("memory takes the header"),
        page,
    )
}

/// `HH:MM:SS.uuuuuu`.
fn is_time_of_day(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    let number = |range: std::ops::Range<usize>| text[range].parse::<u32>().expect("digits");
    shape == "99:99:99.999999" && number(0..2) < 24 && number(3..5) < 60 && number(6..8) < 60
}

#[test]
fn calls_are_logged_with_the_handle_of_their_stream() {
    let _machine = rmm_sim::enter();
    let (resource, page) = logged();
    let stream = CudaStream::new().unwrap();
    let pointer = resource.allocate(&stream, layout(1000)).unwrap();
    free(&resource, stream.as_stream_ref(), pointer, 1000);
    let (address, handle) = (pointer.0, stream.as_raw().addr());
    assert_eq!(
        page.calls(),
        [
            format!("allocate,{address:#x},1000,{handle:#x}"),
            format!("free,{address:#x},1000,{handle:#x}"),
        ]
    );
    for [thread, time, ..] in page.rows() {
        assert!(thread.parse::<u64>().is_ok_and(|thread| thread > 0), "{thread}");
        assert!(is_time_of_day(&time), "{time}");
    }
}

#[test]
fn a_failure_is_logged_without_an_address() {
    let _machine = Machine::builder().memory(1 << 20).enter();
    let (resource, page) = logged();
    let stream = CudaStream::new().unwrap();
    let error = resource.allocate(&stream, layout(1 << 30)).unwrap_err();
    assert!(error.is_out_of_memory());
    resource.allocate_sync(layout(2 << 30)).unwrap_err();
    let handle = stream.as_raw().addr();
    assert_eq!(
        page.calls(),
        [
            format!("allocate failure,(nil),1073741824,{handle:#x}"),
            "allocate failure,(nil),2147483648,0".to_owned(),
        ]
    );
}

#[test]
fn synchronous_calls_are_logged_and_those_for_zero_bytes_are_not() {
    let _machine = rmm_sim::enter();
    let (resource, page) = logged();
    let pointer = resource.allocate_sync(layout(1)).unwrap();
    // SAFETY: allocated just now with this layout, and not used.
    unsafe { resource.deallocate_sync(pointer, layout(1)) };
    let nothing = resource.allocate_sync(layout(0)).unwrap();
    // SAFETY: as above.
    unsafe { resource.deallocate_sync(nothing, layout(0)) };
    let address = pointer.0;
    assert_eq!(
        page.calls(),
        [format!("allocate,{address:#x},1,0"), format!("free,{address:#x},1,0"),]
    );
}

#[test]
fn each_thread_has_its_own_number() {
    let machine = rmm_sim::enter();
    let (resource, page) = logged();
    let pair = |resource: &Logged| {
        let _entered = machine.enter();
        let pointer = resource.allocate(StreamRef::legacy(), layout(64)).unwrap();
        free(resource, StreamRef::legacy(), pointer, 64);
    };
    let clone = resource.clone();
    pair(&resource);
    thread::scope(|scope| scope.spawn(|| pair(&clone)).join().unwrap());
    pair(&resource);
    let threads: Vec<String> = page.rows().into_iter().map(|[thread, ..]| thread).collect();
    let [first, second] = [&threads[0], &threads[2]];
    assert_ne!(first, second);
    assert_eq!(threads, [first, first, second, second, first, first].map(String::as_str));
}

/// RMM #2304, for the log: a reader must not find an address allocated twice.
#[test]
fn a_free_is_logged_before_its_address_is_reused() {
    let (upstream, page) = (Scripted::default(), Page::default());
    let logged = LoggingResourceAdaptor::to_writer(upstream.clone(), page.clone()).unwrap();
    let block = logged.allocate_sync(layout(100)).unwrap();
    let same = logged.clone();
    upstream.reuse_in_free(move || assert_eq!(same.allocate_sync(layout(200)).unwrap(), block));
    free_sync(&logged, block, layout(100));
    free_sync(&logged, block, layout(200));
    let calls = [("allocate", 100), ("free", 100), ("allocate", 200), ("free", 200)];
    let expected = calls.map(|(call, bytes)| format!("{call},{:#x},{bytes},0", block.0));
    assert_eq!(page.calls(), expected);
}

#[test]
fn lines_of_many_threads_stay_whole() {
    let machine = rmm_sim::enter();
    let (resource, page) = logged();
    thread::scope(|scope| {
        for bytes in 1..=4 {
            let (resource, machine) = (&resource, &machine);
            scope.spawn(move || {
                let _entered = machine.enter();
                for _ in 0..100 {
                    let pointer = resource.allocate(StreamRef::legacy(), layout(bytes)).unwrap();
                    free(resource, StreamRef::legacy(), pointer, bytes);
                }
            });
        }
    });
    let rows = page.rows();
    assert_eq!(rows.len(), 800);
    // An address that is reused was logged as freed before.
    let mut live = std::collections::HashSet::new();
    for [_, _, action, pointer, ..] in rows {
        match action.as_str() {
            "allocate" => assert!(live.insert(pointer), "handed out twice"),
            "free" => assert!(live.remove(&pointer), "freed twice"),
            other => panic!("{other}"),
        }
    }
    assert!(live.is_empty());
}

/// A writer that fails after a number of bytes.
struct Narrow(usize);

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.0 == 0 { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
    }
}

#[test]
fn a_failing_writer_loses_lines_and_no_memory() {
    // The granularity of the driver's allocations.
    const PAGE: usize = 2 << 20;
    let machine = Machine::builder().memory(64 << 20).enter();
    Logged::to_writer(CudaMemoryResource::new(), Narrow(10)).unwrap_err();
    // Room for the header and one line.
    let resource = Logged::to_writer(CudaMemoryResource::new(), Narrow(39 + 60)).unwrap();
    let blocks: Vec<DevicePtr> =
        (0..10).map(|_| resource.allocate_sync(layout(PAGE)).unwrap()).collect();
    assert_eq!(machine.memory_in_use(0), 10 * PAGE);
    for block in blocks {
        // SAFETY: allocated above with this layout, and not used.
        unsafe { resource.deallocate_sync(block, layout(PAGE)) };
    }
    assert_eq!(machine.memory_in_use(0), 0, "every block was freed");
    assert!((18..20).contains(&resource.lost_lines()), "{}", resource.lost_lines());
    resource.flush().unwrap_err();
    drop(resource);
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

/// A writer that takes the header and panics on everything else.
#[derive(Default)]
struct Panicking {
    has_header: bool,
    is_written_out: bool,
}

impl Write for Panicking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(!self.has_header, "a writer that panics");
        self.has_header = bytes.ends_with(b"\n");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        assert!(!self.is_written_out, "a writer that panics");
        self.is_written_out = true;
        Ok(())
    }
}

#[test]
fn a_panicking_writer_loses_lines_and_no_memory() {
    let machine = rmm_sim::enter();
    let resource = Logged::to_writer(CudaMemoryResource::new(), Panicking::default()).unwrap();
    let pointer = resource.allocate(StreamRef::legacy(), layout(64)).unwrap();
    free(&resource, StreamRef::legacy(), pointer, 64);
    assert_eq!(resource.lost_lines(), 2);
    drop(resource); // no panic comes out
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

/// In RMM, a sink that failed leaked the block and failed the allocation.
#[test]
fn a_failing_writer_does_not_affect_the_others() {
    let machine = rmm_sim::enter();
    let (first, last) = (Page::default(), Page::default());
    let resource = Logged::builder(CudaMemoryResource::new())
        .writer(first.clone())
        // Room for the header and no line.
        .writer(Narrow(40))
        .writer(Panicking::default())
        .writer(last.clone())
        .build()
        .unwrap();
    let pointer = resource.allocate(StreamRef::legacy(), layout(64)).unwrap();
    free(&resource, StreamRef::legacy(), pointer, 64);
    assert_eq!(resource.lost_lines(), 4, "two lines for two writers");
    assert_eq!(first.text(), last.text());
    assert_eq!(first.calls().len(), 2);
    drop(resource);
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

#[test]
fn functions_get_lines_without_a_lock_and_may_panic() {
    let _machine = rmm_sim::enter();
    let (lines, page) = (Arc::new(Mutex::new(Vec::new())), Page::default());
    let (kept, current) = (Arc::clone(&lines), Arc::new(std::sync::OnceLock::<Logged>::new()));
    let own = Arc::clone(&current);
    let builder = Logged::builder(CudaMemoryResource::new()).writer(page.clone());
    let builder = builder.on_line(move |line| {
        kept.lock().expect("whole").push(line.to_owned());
        // The lock of the writers is free.
        if let Some(resource) = own.get() {
            resource.flush().expect("memory takes it");
        }
    });
    let builder = builder.on_line(|line| assert!(!line.contains(",free,"), "the second panics"));
    let resource = builder.build().expect("memory takes the header");
    assert_eq!(lines.lock().expect("whole")[..], ["Thread,Time,Action,Pointer,Size,Stream"]);
    current.set(resource.clone()).expect("it is not set");
    let block = resource.allocate_sync(layout(100)).expect("memory");
    free_sync(&resource, block, layout(100));
    assert_eq!(resource.lost_lines(), 1);
    let lines = lines.lock().expect("whole");
    let [_, allocated, freed] = &lines[..] else { panic!("{lines:?}") };
    assert!(allocated.contains(",allocate,") && freed.contains(",free,"), "{lines:?}");
    assert_eq!(page.rows().len(), 2);
}

#[test]
fn auto_flush_writes_each_line_at_once() {
    let _machine = rmm_sim::enter();
    let folder = std::env::temp_dir();
    let path = |what: &str| folder.join(format!("rmm-{what}-{}.csv", std::process::id()));
    let (lazy, eager) = (path("lazy"), path("eager"));
    let make = |path: &std::path::Path, flushes| {
        Logged::builder(CudaMemoryResource::new()).file(path).auto_flush(flushes).build().unwrap()
    };
    let (lazily, eagerly) = (make(&lazy, false), make(&eager, true));
    for resource in [&lazily, &eagerly] {
        resource.allocate_sync(layout(1)).unwrap();
    }
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(&lazy), "Thread,Time,Action,Pointer,Size,Stream\n", "the header at once");
    assert!(read(&eager).ends_with(",1,0\n"));
    lazily.flush().unwrap();
    assert!(read(&lazy).ends_with(",1,0\n"));
    // Another log in the same file truncates it.
    let another = make(&eager, true);
    assert_eq!(read(&eager), "Thread,Time,Action,Pointer,Size,Stream\n");
    drop(another);
    for path in [lazy, eager] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_file_lags_by_fewer_lines_than_flush_every() {
    let _machine = rmm_sim::enter();
    let path = std::env::temp_dir().join(format!("rmm-every-{}.csv", std::process::id()));
    let lines = || std::fs::read_to_string(&path).unwrap().lines().count();
    let three = std::num::NonZeroU64::new(3).unwrap();
    let builder = Logged::builder(CudaMemoryResource::new()).file(&path);
    let resource = builder.flush_every(three).build().unwrap();
    let seen: Vec<usize> = (0..7)
        .map(|_| {
            resource.allocate_sync(layout(1)).unwrap();
            lines()
        })
        .collect();
    assert_eq!(seen, [1, 1, 4, 4, 4, 7, 7]);
    drop(resource);
    assert_eq!(lines(), 9, "with the mark at the end");
    let by_default = Logged::create(CudaMemoryResource::new(), &path).unwrap();
    for _ in 0..100 {
        by_default.allocate_sync(layout(1)).unwrap();
    }
    assert_eq!(lines(), 101);
    drop(by_default);
    std::fs::remove_file(&path).unwrap();
}

/// The current resource of a device is never dropped, nor is one that a leaked container holds.
#[cfg(unix)]
#[test]
fn a_log_that_is_never_dropped_is_flushed_at_exit() {
    const CHILD: &str = "RMM_TEST_LOG_OF_CHILD";
    if let Some(path) = std::env::var_os(CHILD) {
        let _machine = rmm_sim::enter();
        let resource = Logged::create(CudaMemoryResource::new(), &path).unwrap();
        let resource = Box::leak(Box::new(resource));
        for _ in 0..3 {
            resource.allocate_sync(layout(100)).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 1, "not yet");
        return;
    }
    let path = std::env::temp_dir().join(format!("rmm-exit-{}.csv", std::process::id()));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "logging::a_log_that_is_never_dropped_is_flushed_at_exit"])
        .env(CHILD, &path);
    assert!(child.output().unwrap().status.success());
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!((text.lines().count(), text.matches(",allocate,0x").count()), (5, 3), "{text}");
    assert!(text.ends_with(",allocate failure,(nil),0,0\n"), "{text}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn errors_about_a_file_name_it() {
    let _machine = rmm_sim::enter();
    let file = |name: &str| {
        std::env::temp_dir().join(format!("rmm-{}-{name}", std::process::id())).join("log.csv")
    };
    let (one, another) = (file("none"), file("nor-this"));
    let upstream = CudaMemoryResource::new;
    let of_device = another.with_extension("dev0.csv");
    for (made, path) in [
        (Logged::create(upstream(), &one), &one),
        (Logged::builder(upstream()).writer(io::sink()).file(&another).build(), &another),
        (Logged::builder(upstream()).file_of_device(&another).build(), &of_device),
    ] {
        let error = made.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let start = format!("log file {}: ", path.display());
        assert!(error.to_string().starts_with(&start), "{error}");
    }
}

/// A file on a device that is always full.
#[cfg(target_os = "linux")]
#[test]
fn errors_about_a_full_file_name_it() {
    let (path, upstream) = ("/dev/full", CudaMemoryResource::new);
    let at_once = Logged::builder(upstream()).file(path).auto_flush(true).build();
    for error in [at_once.unwrap_err(), Logged::create(upstream(), path).unwrap_err()] {
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("log file /dev/full: No space"), "{error}");
    }
}

/// In a process of its own, so that the environment of other tests is unchanged.
#[test]
fn rmm_log_file_names_the_log() {
    const CHILD: &str = "RMM_TEST_LOGGING_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let resource = Logged::from_environment(CudaMemoryResource::new());
        match std::env::var_os("RMM_LOG_FILE") {
            Some(_) => drop(resource.unwrap()),
            None => assert_eq!(resource.unwrap_err().kind(), io::ErrorKind::NotFound),
        }
        return;
    }
    let path = std::env::temp_dir().join(format!("rmm-named-{}.csv", std::process::id()));
    for file in [None, Some(&path)] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "logging::rmm_log_file_names_the_log"]).env(CHILD, "1");
        child.env_remove("RMM_LOG_FILE");
        if let Some(path) = file {
            child.env("RMM_LOG_FILE", path);
        }
        assert!(child.output().unwrap().status.success());
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("Thread,Time,Action,Pointer,Size,Stream\n"), "{text}");
    assert!(text.lines().count() == 2 && text.ends_with(",allocate failure,(nil),0,0\n"), "{text}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn tag_site_and_device_are_written_on_request() {
    let _machine = rmm_sim::enter();
    let page = Page::default();
    let builder = Logged::builder(CudaMemoryResource::new()).writer(page.clone());
    let resource = builder.columns(LogColumn::ALL).build().unwrap();
    assert_eq!(resource.header(), "Thread,Time,Action,Pointer,Size,Stream,Tag,Site,Device");
    let scope = Tag::named("a, \"b\"\n").enter();
    let [first, second] = [1, 2].map(|_| resource.allocate_sync(layout(1000)).unwrap());
    let of_both = line!() - 1;
    drop(scope);
    let third = resource.allocate_sync(layout(1000)).unwrap();
    let of_third = line!() - 1;
    for pointer in [first, second, third] {
        // SAFETY: allocated above with this layout, and not used.
        unsafe { resource.deallocate_sync(pointer, layout(1000)) };
    }
    drop(resource);
    let text = page.text();
    let rows: Vec<&str> = text.lines().skip(1).collect();
    let site = |line: u32| format!("tests/suite/logging.rs:{line} ");
    for row in rows.iter().take(2) {
        assert!(row.contains(",1000,0,\"a, \"\"b\"\" \","), "{row}");
        assert!(row.contains(&site(of_both)) && row.ends_with(",0"), "{row}");
        assert!(!row.contains("observer.rs") && !row.contains("library/core"), "{row}");
    }
    assert!(rows[2].contains(",1000,0,untagged,"), "{}", rows[2]);
    assert!(rows[2].contains(&site(of_third)), "{}", rows[2]);
    for row in &rows[3..6] {
        assert!(row.contains(",free,0x") && row.ends_with(",1000,0,,,0"), "{row}");
    }
    assert!(rows[6].ends_with(",allocate failure,(nil),0,0,,,0"), "{}", rows[6]);
    assert_eq!(rows.len(), 7);
}

#[test]
fn a_log_ends_with_one_mark_after_its_last_handle() {
    let _machine = rmm_sim::enter();
    let (resource, page) = logged();
    let other = resource.clone();
    drop(resource);
    assert_eq!(page.calls(), [""; 0]);
    drop(other);
    assert_eq!(page.calls(), ["allocate failure,(nil),0,0"]);

    let page = Page::default();
    let builder = Logged::builder(CudaMemoryResource::new()).writer(page.clone());
    drop(builder.end_mark(false).build().unwrap());
    assert_eq!(page.calls(), [""; 0]);
}
