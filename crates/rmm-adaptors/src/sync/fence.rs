//! A pair of fences of which one costs nothing and the other a call of the system.
//!
//! Where a store of one thread and a load of another must not miss each other both ways, each needs a full fence between its own store
//! and load. If one of the threads passes there all the time and the other hardly ever, the rare one can make the system run a
//! full fence on all processors that run this program; the frequent one then only has to keep the compiler from reordering.

#![forbid(unsafe_code)]

pub(crate) use imp::{heavy, light, prepare};

#[cfg(all(target_os = "linux", not(rmm_loom)))]
mod imp {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

    use rustix::thread::{MembarrierCommand, membarrier};

    /// Whether the system runs fences for us. Set once, and before the first that may ask for it: whoever finds it clear runs its own,
    /// which is right at any time.
    static IS_ASYMMETRIC: AtomicBool = AtomicBool::new(false);

    /// Has to come before the first [`heavy`], on its thread or one that it has heard of since.
    pub(crate) fn prepare() {
        static REGISTERED: OnceLock<()> = OnceLock::new();
        REGISTERED.get_or_init(|| {
            // A call shows that it works: later ones have the same outcome.
            IS_ASYMMETRIC.store(register().is_ok(), Ordering::Relaxed);
        });
    }

    /// Tells the system of this process, and runs a first fence.
    fn register() -> rustix::io::Result<()> {
        membarrier(MembarrierCommand::RegisterPrivateExpedited)?;
        membarrier(MembarrierCommand::PrivateExpedited)
    }

    /// The frequent side's.
    #[inline]
    pub(crate) fn light() {
        if IS_ASYMMETRIC.load(Ordering::Relaxed) {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The rare side's.
    #[cold]
    pub(crate) fn heavy() {
        if IS_ASYMMETRIC.load(Ordering::Relaxed) {
            // It worked before; a program may since have forbidden itself the call. Without it two threads could be at one value.
            let fenced = membarrier(MembarrierCommand::PrivateExpedited);
            if fenced.is_err() && register().is_err() {
                std::process::abort();
            }
        }
        fence(Ordering::SeqCst);
    }
}

#[cfg(not(all(target_os = "linux", not(rmm_loom))))]
mod imp {
    use crate::sync::primitives::atomic::{Ordering, fence};

    pub(crate) fn prepare() {}

    #[inline]
    pub(crate) fn light() {
        fence(Ordering::SeqCst);
    }

    #[cold]
    pub(crate) fn heavy() {
        fence(Ordering::SeqCst);
    }
}
