//! The allocators that `protocol` times.

#![forbid(unsafe_code)]

use rmm_cli::replay::ReplaySubject;
use rmm_core::Error;
use rmm_spec::{ResourceSpec, stacks};

use crate::adaptors::Pool;
use crate::setup::POOL_BYTES;

/// What a pool starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// 16 GiB, so that it does not grow while it is timed.
    Full,
    /// Nothing: it grows.
    Empty,
}

impl Start {
    fn bytes(self) -> u64 {
        match self {
            Self::Full => POOL_BYTES,
            Self::Empty => 0,
        }
    }
}

/// The workloads that suit an allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Serves {
    /// All of it.
    Everything,
    /// Blocks of one size, one at a time.
    Pairs,
    /// Shortened lists, because a call takes so long.
    Little,
}

/// An allocator by its name on the command line.
#[derive(Debug)]
pub struct Kind {
    /// The name in the rows, and in the list of stacks of `rmm-spec`.
    pub name: &'static str,
    /// The workloads that suit it.
    pub serves: Serves,
}

/// Every allocator, in the order in which they are timed.
pub const KINDS: &[Kind] = &[
    Kind { name: "pool", serves: Serves::Everything },
    Kind { name: "pool-cuda", serves: Serves::Everything },
    Kind { name: "pool-compact", serves: Serves::Everything },
    Kind { name: "arena", serves: Serves::Everything },
    Kind { name: "fixed-size", serves: Serves::Pairs },
    Kind { name: "binning", serves: Serves::Everything },
    Kind { name: "cuda-async", serves: Serves::Everything },
    Kind { name: "cuda", serves: Serves::Little },
];

impl Kind {
    /// Creates the allocator on the current device. The size of an arena does not change, so an
    /// arena never starts empty.
    ///
    /// # Errors
    /// If the device does not have the memory.
    pub fn make(&self, start: Start) -> Result<ReplaySubject, Error> {
        let (initial, size) = (start.bytes().to_string(), POOL_BYTES.to_string());
        let values = [("initial", &*initial), ("size", &size), ("bins", "18..22")];
        let unknown = |why: String| Error::invalid_argument("allocators", why);
        let missing = || unknown(format!("no stack is named {}", self.name));
        let stack = stacks::named(self.name).ok_or_else(missing)?;
        let spec: ResourceSpec =
            stack.spec_with(&values).parse().map_err(|error| unknown(format!("{error}")))?;
        spec.build().map(ReplaySubject::new)
    }
}

/// The pool over the driver's plain allocations.
pub(crate) fn pool_of(start: Start) -> Result<Pool, Error> {
    Pool::builder(rmm_resources::CudaMemoryResource::new()).initial_size(start.bytes()).build()
}
