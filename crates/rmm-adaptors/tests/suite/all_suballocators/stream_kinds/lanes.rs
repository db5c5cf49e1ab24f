//! The streams of a program, by how the allocator comes to know them.

use rmm_core::{CudaEvent, CudaStream, StreamFlags, StreamLifetime};
use rmm_sys::CuStream;

/// Which streams a program has beside those that come and go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mix {
    /// All kinds.
    All,
    /// The legacy stream and blocking ones, which mostly need no events.
    Implicit,
    /// The default streams, and streams of others.
    Foreign,
}

impl Mix {
    pub(super) fn of(seed: u64) -> Self {
        [Self::All, Self::Implicit, Self::Foreign][usize::try_from(seed % 3).expect("small")]
    }
}

/// A stream as a caller names it.
#[derive(Clone)]
pub(super) enum Lane {
    /// A default stream, or one of this library.
    Own(CudaStream),
    /// A stream of others, adopted once.
    Adopted {
        /// Dropped first, since its end may be that of the owner's stream.
        ours: CudaStream,
        owner: CudaStream,
    },
    /// A stream of others, of which each call gets the handle.
    Raw { owner: CudaStream },
}

/// A stream of this library, in the place of another one's.
fn owner(is_blocking: bool) -> CudaStream {
    let flags = if is_blocking { StreamFlags::empty() } else { StreamFlags::NON_BLOCKING };
    CudaStream::with_flags(flags, 0).expect("a stream")
}

/// # Safety
/// As for [`CudaStream::adopt`].
unsafe fn adopt(owner: &CudaStream, lifetime: StreamLifetime) -> CudaStream {
    // SAFETY: the caller's contract.
    unsafe { CudaStream::adopt(owner.as_raw(), lifetime) }.expect("it exists")
}

impl Lane {
    fn adopted(owner: CudaStream, lifetime: StreamLifetime) -> Self {
        // SAFETY: a lane keeps the owner until the adopted stream is dropped; the blocks of
        // destroyed lanes are behind events.
        let ours = unsafe { adopt(&owner, lifetime) };
        Self::Adopted { ours, owner }
    }

    /// One of the kinds of foreign streams, new.
    pub(super) fn foreign(kind: usize, is_blocking: bool) -> Self {
        let owner = owner(is_blocking);
        match kind % 3 {
            0 => Self::adopted(owner, StreamLifetime::UntilDropped),
            1 => Self::adopted(owner, StreamLifetime::Unknown),
            _ => Self::Raw { owner },
        }
    }

    /// The stream for one call.
    pub(super) fn stream(&self) -> CudaStream {
        match self {
            Self::Own(stream) | Self::Adopted { ours: stream, .. } => stream.clone(),
            // SAFETY: the owner outlives each call; the blocks of destroyed lanes are behind
            // events.
            Self::Raw { owner } => unsafe { adopt(owner, StreamLifetime::Unknown) },
        }
    }

    fn known(&self) -> &CudaStream {
        match self {
            Self::Own(stream) => stream,
            Self::Adopted { owner, .. } | Self::Raw { owner } => owner,
        }
    }

    fn is_legacy(&self) -> bool {
        self.known().as_raw() == CuStream::LEGACY
    }

    fn is_blocking(&self) -> bool {
        !self.is_legacy() && !self.known().is_non_blocking()
    }

    /// Whether both name one stream of the driver.
    fn is_same(&self, other: &Self) -> bool {
        self.known().as_raw() == other.known().as_raw()
    }

    /// Whether work on `later` follows work on this one by the rules of the driver alone.
    pub(super) fn is_implicitly_before(&self, later: &Self) -> bool {
        self.is_same(later)
            || (self.is_legacy() && later.is_blocking())
            || (self.is_blocking() && later.is_legacy())
    }

    pub(super) fn record(&self) -> CudaEvent {
        self.known().record_event().expect("an event")
    }

    pub(super) fn wait(&self, event: &CudaEvent) {
        self.known().wait(event).expect("a wait");
    }
}

/// The streams that live as long as the program.
pub(super) struct Lanes(Vec<Lane>);

impl Lanes {
    pub(super) fn new(mix: Mix) -> Self {
        let own = |is_blocking| Lane::Own(owner(is_blocking));
        let mut lanes = vec![Lane::Own(CudaStream::legacy()), Lane::Own(CudaStream::per_thread())];
        if mix != Mix::Foreign {
            lanes.extend([own(true), own(true)]);
        }
        if mix == Mix::All {
            lanes.extend([own(false), own(false)]);
        }
        for kind in 0..3 {
            lanes.push(Lane::foreign(kind, true));
            if mix != Mix::Implicit {
                lanes.push(Lane::foreign(kind, false));
            }
        }
        // One stream of the driver under several names.
        let shared = owner(mix == Mix::Implicit);
        lanes.push(Lane::adopted(shared.clone(), StreamLifetime::UntilDropped));
        lanes.push(Lane::adopted(shared.clone(), StreamLifetime::Unknown));
        lanes.push(Lane::Raw { owner: shared.clone() });
        lanes.push(Lane::Own(shared));
        Self(lanes)
    }

    /// One of them: every third time the legacy stream.
    pub(super) fn pick(&self, number: usize) -> &Lane {
        let count = self.0.len();
        if number.is_multiple_of(3) { &self.0[0] } else { &self.0[number / 3 % count] }
    }
}
