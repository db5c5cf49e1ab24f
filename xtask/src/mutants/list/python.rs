//! Mutants of the Python package's extension module.

use crate::mutants::mutant::Mutant;

const BUFFER: &str = "crates/rmm-py/src/buffer.rs";
const CALLBACKS: &str = "crates/rmm-py/src/callbacks.rs";
const FORK: &str = "crates/rmm-py/src/fork.rs";
const KEPT: &str = "crates/rmm-py/src/kept.rs";
const MODULE: &str = "crates/rmm-py/src/lib.rs";
const REGISTRY: &str = "crates/rmm-py/src/registry.rs";
const STREAM: &str = "crates/rmm-py/src/stream.rs";

/// The package whose tests need an interpreter.
pub(in crate::mutants) const PACKAGE: &str = "rmm-py";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "python-fork-not-noticed",
        file: FORK,
        original: "FORKED.store(true, Ordering::Relaxed);",
        replacement: "FORKED.store(false, Ordering::Relaxed);",
        breaks: "the child of a fork uses its parent's driver",
    },
    Mutant {
        name: "python-dropped-with-the-lock",
        file: KEPT,
        original: "without_the_lock(|| drop(object));",
        replacement: "drop(object);",
        breaks: "a thread waits for the device with the interpreter's lock while a pool ends",
    },
    Mutant {
        name: "python-waits-with-the-lock",
        file: STREAM,
        original: "py.detach(|| self.with(synchronize))",
        replacement: "self.with(synchronize)",
        breaks: "a host function that needs the interpreter's lock is waited for with it",
    },
    Mutant {
        name: "python-second-interpreter-accepted",
        file: MODULE,
        original: "Err(first) if first == id => Ok(()),",
        replacement: "Err(first) if first == id || first >= 0 => Ok(()),",
        breaks: "two interpreters share classes",
    },
    Mutant {
        name: "python-cycle-of-a-buffer-not-seen",
        file: BUFFER,
        original: "        visit.call(&self.resource)?;\n",
        replacement: "",
        breaks: "memory in a cycle through a buffer's resource is never freed",
    },
    Mutant {
        name: "python-exported-buffer-resized",
        file: BUFFER,
        original: "let _lasts = ManuallyDrop::new(self.share()?);",
        replacement: "let _ends = self.share()?;",
        breaks: "memory that a tensor of another library shows is freed by a resize",
    },
    Mutant {
        name: "python-cause-forgotten",
        file: CALLBACKS,
        original: "    note_raised(Some(raised));\n    if is_memory {",
        replacement: "    drop(raised);\n    if is_memory {",
        breaks: "an exception of a callback is not the cause of the error that comes out",
    },
    Mutant {
        name: "python-set-resource-not-kept",
        file: REGISTRY,
        original: "let replaced = lock().insert(device, mr.0.unbind());",
        replacement: "let replaced = lock().remove(&device);",
        breaks: "another object than the one that was set comes out",
    },
];
