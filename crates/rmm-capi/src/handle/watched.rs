//! Whether this process lets itself be watched by `rmm watch`.

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::{Mutex, Once};

    use rmm_core::fork;
    use rmm_report::watch::{self, Watched};

    use crate::handle::failure::Failure;

    /// Held only to read or write it.
    static WATCHED: Mutex<Option<Watched>> = Mutex::new(None);

    /// Opens the socket of this process until [`end`], or until the process exits.
    pub(crate) fn begin() -> Result<(), Failure> {
        keep(watch::serve().map_err(|error| Failure::refused(error.to_string()))?);
        Ok(())
    }

    fn keep(watched: Watched) {
        static AT_EXIT: Once = Once::new();

        let replaced = fork::lock(&WATCHED).replace(watched);
        drop(replaced);
        AT_EXIT.call_once(|| {
            // SAFETY: `exits` does not unwind, and the library stays loaded until the process ends.
            // Without the handler the socket's file stays, and the next program removes it.
            let _ignored = unsafe { libc::atexit(exits) };
        });
    }

    /// Closes the socket, if it is open.
    pub(crate) fn end() {
        let ended = fork::lock(&WATCHED).take();
        drop(ended);
    }

    extern "C" fn exits() {
        // Another thread may have the lock, and a child of a `fork` a copy of it that stays locked.
        if let Ok(mut watched) = WATCHED.try_lock() {
            drop(watched.take());
        }
    }

    /// Opens the socket if the environment variable `RMM_WATCH` asks for it. Looks once.
    #[cfg(feature = "soname")]
    pub(super) fn begin_if_asked() {
        use std::io::Write as _;

        static ASKED: Once = Once::new();

        ASKED.call_once(|| match watch::serve_if_asked() {
            Ok(watched) => watched.into_iter().for_each(keep),
            // A program that cannot be watched runs all the same.
            Err(error) => drop(writeln!(std::io::stderr(), "RMM_WATCH: {error}")),
        });
    }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{begin, end};

/// Opens the socket of this process if the environment variable `RMM_WATCH` asks for it, when its
/// first resource is made. Where this is a part of another library, that one looks.
pub(crate) fn first_resource() {
    #[cfg(all(target_os = "linux", feature = "soname"))]
    linux::begin_if_asked();
}

/// Refuses.
#[cfg(not(target_os = "linux"))]
pub(crate) fn begin() -> Result<(), crate::handle::failure::Failure> {
    let text = "programs can be watched on Linux only";
    Err(crate::handle::failure::Failure::refused(text))
}

/// There is nothing to close.
#[cfg(not(target_os = "linux"))]
pub(crate) fn end() {}
