//! Mutants of the Python package's extension module.

use crate::mutants::mutant::Mutant;

const BINS: &str = "crates/rmm-py/src/bins.rs";
const BUFFER: &str = "crates/rmm-py/src/buffer.rs";
const CALLBACKS: &str = "crates/rmm-py/src/callbacks.rs";
const INTERPRETER: &str = "crates/rmm-py/src/interpreter.rs";
const KEPT: &str = "crates/rmm-py/src/kept.rs";
const MODULE: &str = "crates/rmm-py/src/lib.rs";
const PLACE: &str = "crates/rmm-py/src/place.rs";
const POOL: &str = "crates/rmm-py/src/pool.rs";
const PRESSURE: &str = "crates/rmm-py/src/pressure.rs";
const REGISTRY: &str = "crates/rmm-py/src/registry.rs";
const REMEDY: &str = "crates/rmm-py/src/remedy.rs";
const RESERVATION: &str = "crates/rmm-py/src/reservation.rs";

/// The package whose tests need an interpreter.
pub(in crate::mutants) const PACKAGE: &str = "rmm-py";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "python-hits-release-the-lock",
        file: INTERPRETER,
        original: "wait::before_first_wait(let_go, take_back, call);",
        replacement: "wait::before_first_wait(let_go, take_back, || {\n        wait::about_to_wait();\n        call()\n    });",
        breaks: "threads hand the interpreter's lock over at each allocation",
    },
    Mutant {
        name: "python-waits-for-memory-with-the-lock",
        file: INTERPRETER,
        original: "wait::before_first_wait(let_go, take_back, call);",
        replacement: "wait::before_first_wait(let_go, take_back, || wait::outside(call));",
        breaks: "no other thread runs while an allocation or a free waits for the device",
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
        file: PLACE,
        original: "py.detach(|| self.with(stream::synchronize))",
        replacement: "self.with(stream::synchronize)",
        breaks: "a host function that needs the interpreter's lock is waited for with it",
    },
    Mutant {
        name: "python-second-interpreter-accepted",
        file: MODULE,
        original: "if id == 0 {",
        replacement: "if id >= 0 {",
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
    Mutant {
        name: "python-bins-not-trimmed",
        file: BINS,
        original: ".upstream(&self.upstream).trimmable(self)",
        replacement: ".upstream(&self.upstream)",
        breaks: "a trim of a stack leaves what bins hold",
    },
    Mutant {
        name: "python-error-without-remedies",
        file: REMEDY,
        original: "let _noted = raised.value(py).setattr(\"remedies\", remedies);",
        replacement: "let _ = (py, remedies);",
        breaks: "a `MemoryError` does not say what would help",
    },
    Mutant {
        name: "python-budget-beyond-first-size",
        file: POOL,
        original: ".min(of_budget)",
        replacement: "",
        breaks: "a pool with a budget below half of the memory cannot be made",
    },
    Mutant {
        name: "python-removed-callback-stays",
        file: PRESSURE,
        original: "drop(guard);",
        replacement: "std::mem::forget(guard);",
        breaks: "a callback is called after it was removed",
    },
    Mutant {
        name: "python-reservation-outlives-its-block",
        file: RESERVATION,
        original: "        self.release(py).map(drop)",
        replacement: "        let _ = py;\n        Ok(())",
        breaks: "memory stays set aside after `with`, while buffers live",
    },
];
