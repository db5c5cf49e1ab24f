//! A hand-written executor, checks, and work that waits until the test lets it go.

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use rmm_async::wait_for_abandoned;
use rmm_core::{CudaStream, StreamFlags};
use rmm_sim::{Checker, Kernel, Machine, Schedule};

/// Unparks the thread that runs the future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: parks the thread between polls.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}

/// Polls once, with a waker that does nothing.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    std::pin::Pin::new(future).poll(&mut context)
}

/// Runs a program under every schedule; the thread of the crate enters the machine, too.
#[track_caller]
pub(crate) fn check(program: impl Fn(&Machine)) {
    checker().run(|machine| {
        program(machine);
        wait_for_abandoned();
    });
}

pub(crate) fn checker() -> Checker {
    Checker::new().enter_all_threads(true)
}

/// A machine whose work runs as late as possible.
pub(crate) fn lazy() -> Machine {
    Machine::builder().memory(64 << 20).schedule(Schedule::Lazy).build()
}

pub(crate) fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

/// A kernel that is running until the gate is opened.
pub(crate) struct Gate {
    open: Sender<()>,
    runner: thread::JoinHandle<Result<(), rmm_core::Error>>,
}

impl Gate {
    /// Enqueues the kernel, and waits until a thread runs it.
    pub(crate) fn new(machine: &Machine, stream: &CudaStream) -> Self {
        let (entered, has_entered) = channel();
        let (open, is_open): (_, Receiver<()>) = channel();
        let kernel = Kernel::new("gate", move |_| {
            entered.send(()).expect("the test waits");
            is_open.recv().expect("the test opens the gate");
        });
        machine.launch(stream.as_raw(), kernel).expect("the stream exists");
        let (machine, stream) = (machine.clone(), stream.clone());
        let runner = thread::spawn(move || {
            let _entered = machine.enter();
            stream.synchronize()
        });
        has_entered.recv().expect("the kernel runs");
        Self { open, runner }
    }

    pub(crate) fn open(self) {
        self.open.send(()).expect("the kernel waits");
        self.runner.join().expect("no panic").expect("the device works");
    }

    /// Opens it where the kernel's context is lost.
    pub(crate) fn open_after_a_fault(self) {
        self.open.send(()).expect("the kernel waits");
        let _ignored = self.runner.join().expect("no panic");
    }
}
