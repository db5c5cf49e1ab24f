//! Many futures at once: one thread, and no leak.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use rmm_async::{Completion, completed, wait_for_abandoned};
use rmm_containers::PinnedVec;

use crate::harness::{Gate, block_on, lazy, stream};

const MANY: usize = 10_000;

/// Counts how often it is called.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many threads of the process have the name.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux").map_while(Result::ok);
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "rmm-async").count()
}

/// Polls all once; each waits.
fn poll_all(futures: &mut [Completion], count: &Arc<Count>) {
    let waker = Waker::from(Arc::clone(count));
    let mut context = Context::from_waker(&waker);
    for future in futures {
        assert!(std::pin::Pin::new(future).poll(&mut context).is_pending());
    }
}

#[test]
fn ten_thousand_pending_futures_have_one_thread() {
    let machine = lazy().enter();
    let _all = machine.enter_all_threads();
    let streams = [stream(), stream(), stream(), stream()];
    let gates: Vec<Gate> = streams.iter().map(|stream| Gate::new(&machine, stream)).collect();
    let (count, kept) = (Arc::new(Count::default()), Arc::new(()));
    let make = |index: usize| completed(&streams[index % 4]).expect("it is enqueued");
    let mut futures: Vec<Completion> = (0..MANY).map(make).collect();
    poll_all(&mut futures, &count);
    #[cfg(target_os = "linux")]
    assert_eq!(threads(), 1);
    // Half of them are dropped, with a buffer or without.
    for future in futures.split_off(MANY / 2) {
        drop(future.keep((PinnedVec::<u8>::zeroed(16).expect("a vector"), Arc::clone(&kept))));
    }
    assert_eq!(Arc::strong_count(&kept), 1 + MANY / 2, "their work is pending");
    for gate in gates {
        gate.open();
    }
    block_on(async {
        for future in futures {
            future.await.expect("the device works");
        }
    });
    wait_for_abandoned();
    assert_eq!(Arc::strong_count(&kept), 1);
    assert_eq!(Arc::strong_count(&count), 1, "no waker is left");
    #[cfg(target_os = "linux")]
    assert_eq!(threads(), 1);
    drop(streams);
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    machine.assert_no_violations();
}
