//! The Python lines at which a thread is.
//!
//! The interpreter, if the process has one, is asked by the functions that `faulthandler` uses:
//! they need no lock of the interpreter's, which `ctypes` and others release around a call of the
//! driver. A thread reads its own frames, which stand still while it is inside a call.

use std::ffi::{CStr, c_int, c_void};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::sync::{Arc, OnceLock};

/// `PyGILState_GetThisThreadState`: the calling thread's state, or null.
type ThisThread = unsafe extern "C" fn() -> *mut c_void;
/// `_Py_DumpTraceback`: writes the frames of a thread's state to a file.
type Dump = unsafe extern "C" fn(c_int, *mut c_void);

/// Upper bound on the bytes that are read.
const READ: u64 = 16 << 10;

/// What the interpreter writes of the calling thread's frames; `None` if it runs no Python.
pub(crate) fn frames() -> Option<Arc<str>> {
    static FUNCTIONS: OnceLock<Option<(ThisThread, Dump)>> = OnceLock::new();
    let (this_thread, dump) = (*FUNCTIONS.get_or_init(functions))?;
    // SAFETY: it takes no argument, and may be called on any thread, with the interpreter's lock or
    // without, also before the interpreter is made and after it has ended.
    let thread = unsafe { this_thread() };
    if thread.is_null() {
        return None;
    }
    // SAFETY: the name is null-terminated.
    let descriptor = unsafe { libc::memfd_create(c"frames".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the descriptor was just opened, and nothing else has it.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    // SAFETY: the state is the calling thread's own, and exists while the thread is inside a call
    // of Python's. The function takes no lock and allocates nothing.
    unsafe { dump(file.as_raw_fd(), thread) };
    file.rewind().ok()?;
    let mut written = Vec::new();
    file.take(READ).read_to_end(&mut written).ok()?;
    Some(String::from_utf8_lossy(&written).into())
}

fn functions() -> Option<(ThisThread, Dump)> {
    let this_thread = symbol(c"PyGILState_GetThisThreadState")?;
    let dump = symbol(c"_Py_DumpTraceback").or_else(|| symbol(c"PyUnstable_DumpTraceback"))?;
    // SAFETY: CPython's function of this name has this signature.
    let this_thread = unsafe { std::mem::transmute::<*mut c_void, ThisThread>(this_thread) };
    // SAFETY: as above; the newer of the two returns a pointer besides, in a register that a caller
    // need not read.
    let dump = unsafe { std::mem::transmute::<*mut c_void, Dump>(dump) };
    Some((this_thread, dump))
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is null-terminated.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The program's frames of what the interpreter has written, as `file:line in function`, the
/// innermost first. Frames of the standard library and of installed packages are left out, unless
/// there are no others.
pub(crate) fn of_program(written: &str) -> Vec<String> {
    let frames: Vec<(&str, String)> = written.lines().filter_map(frame).collect();
    let is_library = |file: &str| {
        ["/lib/python3", "-packages/", "<frozen "].iter().any(|part| file.contains(part))
    };
    let has_own = frames.iter().any(|(file, _)| !is_library(file));
    let shown = frames.into_iter().filter(|(file, _)| !has_own || !is_library(file));
    shown.map(|(_, text)| text).collect()
}

/// A line such as `  File "/src/train.py", line 12 in step`.
fn frame(line: &str) -> Option<(&str, String)> {
    let (file, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
    let (number, function) = rest.split_once(" in ")?;
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write!(text, "{file}:{number} in {function}");
    Some((file, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_program_come_first_and_alone() {
        let written = "Stack (most recent call first):
  File \"/usr/lib/python3.11/ctypes/__init__.py\", line 5 in call
  File \"/src/train.py\", line 12 in step
  File \"/src/env/lib/python3.11/site-packages/lib/run.py\", line 7 in run
  File \"<string>\", line 1 in <module>
";
        let expected = ["/src/train.py:12 in step", "<string>:1 in <module>"];
        assert_eq!(of_program(written), expected);
        let (library, _) = written.split_once("  File \"/src").expect("it is there");
        assert_eq!(of_program(library), ["/usr/lib/python3.11/ctypes/__init__.py:5 in call"]);
        assert_eq!(of_program("  <no Python frame>\n"), Vec::<String>::new());
    }
}
