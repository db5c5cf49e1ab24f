//! Asymmetric fences: a light one that costs nothing, and a heavy one that is a system call.
//!
//! Where a store of one thread and a load of another must not miss each other both ways (Dekker's
//! algorithm), each needs a full fence between its own store and load. If one of the threads passes
//! there all the time and the other hardly ever, the rare one can have the system run a full fence
//! on all processors that run this program (`membarrier(2)`, `MEMBARRIER_CMD_PRIVATE_EXPEDITED`);
//! the frequent one then only has to keep the compiler from reordering. Such a pair is
//! *asymmetric*.
//!
//! Once the frequent side has gone without a fence, the rare side cannot make up for it. So a
//! program that forbids itself the system call later on, as a sandbox does, must choose full fences
//! beforehand: by the environment variable `RMM_FENCES=symmetric` for the whole process, or for a
//! pool when it is built. Otherwise it is aborted at the next heavy fence, with a message.
//!
//! For loom both sides are full fences. That is what the system call makes of the light one: the
//! manual promises that it has the effect of a full fence in each other running thread, and a
//! thread that does not run passes one when it is scheduled. What loom does not see is whether the
//! system keeps that promise.

#![forbid(unsafe_code)]

/// Which fences two sides run. Both sides of a protocol must use the same pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fences {
    /// Whether the system runs the light side's fence. Only if it has done so once.
    is_asymmetric: bool,
}

impl Fences {
    /// Full fences on both sides: right at any time, and without a system call.
    pub(crate) const SYMMETRIC: Self = Self { is_asymmetric: false };

    /// The cheapest that the system and the environment variable `RMM_FENCES` allow.
    pub(crate) fn of_process() -> Self {
        Self { is_asymmetric: imp::is_asymmetric() }
    }

    /// A pair whose heavy fence serves both of these.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { is_asymmetric: self.is_asymmetric || other.is_asymmetric }
    }

    /// The frequent side's.
    #[inline]
    pub(crate) fn light(self) {
        if self.is_asymmetric {
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        } else {
            imp::full();
        }
    }

    /// The rare side's. Aborts the program if the system has run fences for it and no longer does.
    #[cold]
    pub(crate) fn heavy(self) {
        if self.is_asymmetric {
            imp::run_everywhere();
        }
        imp::full();
    }
}

#[cfg(all(target_os = "linux", not(rmm_loom)))]
mod imp {
    use std::ffi::OsStr;
    use std::io::Write as _;
    use std::sync::OnceLock;
    use std::sync::atomic::{Ordering, fence};

    use rustix::io::Errno;
    use rustix::thread::{MembarrierCommand, membarrier};

    /// Whether the system runs fences for this process, and the program wants that.
    pub(super) fn is_asymmetric() -> bool {
        static IS_ASYMMETRIC: OnceLock<bool> = OnceLock::new();
        // One call shows that it works: later ones succeed, too, unless the program forbids them.
        let find_out = || !wants_symmetric(std::env::var_os("RMM_FENCES")) && register().is_ok();
        *IS_ASYMMETRIC.get_or_init(find_out)
    }

    /// What the environment variable says. A misspelt value gets the fences that are right
    /// everywhere.
    pub(super) fn wants_symmetric(value: Option<impl AsRef<OsStr>>) -> bool {
        value.is_some_and(|value| !value.as_ref().is_empty() && value.as_ref() != "asymmetric")
    }

    /// Registers this process for the command, and runs a first fence.
    fn register() -> Result<(), Errno> {
        membarrier(MembarrierCommand::RegisterPrivateExpedited)?;
        membarrier(MembarrierCommand::PrivateExpedited)
    }

    #[inline]
    pub(super) fn full() {
        fence(Ordering::SeqCst);
    }

    pub(super) fn run_everywhere() {
        let fenced = membarrier(MembarrierCommand::PrivateExpedited);
        if fenced.is_err()
            && let Err(error) = register()
        {
            abort(error);
        }
    }

    /// Without the fence, two threads could be inside one cell.
    #[cold]
    fn abort(error: Errno) -> ! {
        let message = format!(
            "rmm: the system call membarrier worked when this program started and now fails: {error}.\n\
             rmm: threads rely on it, so the program is aborted. If the program forbids system calls after its start (a sandbox), set the \
             environment variable RMM_FENCES=symmetric, or build its pools with symmetric_fences(true)."
        );
        // Even if the message cannot be written, the program must not go on.
        let _ignored = writeln!(std::io::stderr(), "{message}");
        std::process::abort();
    }
}

#[cfg(not(all(target_os = "linux", not(rmm_loom))))]
mod imp {
    use crate::sync::primitives::atomic::{Ordering, fence};

    pub(super) fn is_asymmetric() -> bool {
        false
    }

    #[inline]
    pub(super) fn full() {
        fence(Ordering::SeqCst);
    }

    pub(super) fn run_everywhere() {
        unreachable!("there are no asymmetric fences here")
    }
}

#[cfg(all(test, target_os = "linux", not(rmm_loom)))]
mod tests {
    use super::imp::wants_symmetric;

    #[test]
    fn only_a_word_for_asymmetric_fences_leaves_them_on() {
        assert_eq!([None, Some(""), Some("asymmetric")].map(wants_symmetric), [false; 3]);
        assert_eq!([Some("symmetric"), Some("symetric")].map(wants_symmetric), [true; 2]);
    }
}
