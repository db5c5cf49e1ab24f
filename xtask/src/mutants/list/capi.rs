//! Mutants of the C interface.

use crate::mutants::mutant::Mutant;

const CALLBACKS: &str = "crates/rmm-capi/src/callbacks.rs";
const CURRENT: &str = "crates/rmm-resources/src/current.rs";
const FAILURE: &str = "crates/rmm-capi/src/failure.rs";
const ORT: &str = "crates/rmm-capi/src/ort.rs";
const POOL: &str = "crates/rmm-capi/src/pool.rs";
const PRESSURE: &str = "crates/rmm-capi/src/pressure.rs";
const REGISTRY: &str = "crates/rmm-capi/src/registry.rs";
const RESOURCE: &str = "crates/rmm-capi/src/resource.rs";
const SIZED: &str = "crates/rmm-capi/src/sized.rs";
const SLEEP: &str = "crates/rmm-capi/src/sleep.rs";
const STREAMS: &str = "crates/rmm-capi/src/streams.rs";
const TORCH: &str = "crates/rmm-capi/src/torch.rs";
const TORCH_DEVICE: &str = "crates/rmm-capi/src/torch/device.rs";
const TRIM: &str = "crates/rmm-capi/src/trim.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "capi-kept-policy-ignored",
        file: STREAMS,
        original: "    if keeps() {\n",
        replacement: "    if keeps() && false {\n",
        breaks: "a resource that keeps streams asks the driver at each call",
    },
    Mutant {
        name: "capi-callbacks-never-released",
        file: CALLBACKS,
        original: "if let Some(release) = self.callbacks.release\n            && !process_is_exiting()",
        replacement: "if let Some(release) = self.callbacks.release\n            && process_is_exiting()",
        breaks: "the context of callbacks leaks",
    },
    Mutant {
        name: "capi-callbacks-not-retained",
        file: CALLBACKS,
        original: "callbacks.context = unsafe { retain(callbacks.context) };",
        replacement: "let _ = retain;",
        breaks: "the context of callbacks ends while a resource uses it",
    },
    Mutant {
        name: "capi-callbacks-shared-without-retain",
        file: CALLBACKS,
        original: "self.retain.is_some() || self.release.is_none()",
        replacement: "true",
        breaks: "the context of callbacks is released twice",
    },
    Mutant {
        name: "capi-unordered-callbacks-not-waited-for",
        file: CALLBACKS,
        original: "Ok(Resource::base(if foreign.is_ordered() {",
        replacement: "Ok(Resource::base(if true {",
        breaks: "callbacks without stream order free memory under the work of its stream",
    },
    Mutant {
        name: "capi-misaligned-block-accepted",
        file: CALLBACKS,
        original: "if !is_pointer_aligned(pointer, layout.align()) {",
        replacement: "if false {",
        breaks: "a callback's address is returned without the alignment that was requested",
    },
    Mutant {
        name: "capi-contexts-of-other-functions-compared",
        file: CALLBACKS,
        original: "let same_functions = one.addresses() == two.addresses();",
        replacement: "let same_functions = one.addresses()[2] == two.addresses()[2];",
        breaks: "the `equal` of one kind of resource gets the context of another",
    },
    Mutant {
        name: "capi-torch-gathers-without-waits",
        file: TORCH_DEVICE,
        original: "            // SAFETY: the caller's contract.\n            unsafe { streams::with(handle, || true, wait) }??;",
        replacement: "            let _ = (wait, handle);",
        breaks: "a recorded block is reused under the work of its streams",
    },
    Mutant {
        name: "capi-torch-last-stream-not-gathered",
        file: TORCH_DEVICE,
        original: "let all = || others.iter().chain([&last]).copied();",
        replacement: "let all = || others.iter().copied();\n        let _ = last;",
        breaks: "a recorded block is reused under the work of the stream that frees it",
    },
    Mutant {
        name: "capi-torch-gathers-a-captured-stream",
        file: TORCH_DEVICE,
        original: "if unsafe { streams::with(handle, || true, is_capturing) }?? {",
        replacement: "if false && unsafe { streams::with(handle, || true, is_capturing) }?? {",
        breaks: "a free of recorded memory spoils a capture",
    },
    Mutant {
        name: "capi-torch-charge-of-a-failure-kept",
        file: TORCH_DEVICE,
        original: "        self.device.discharge(self.bytes);",
        replacement: "        let _ = self.device;",
        breaks: "failed allocations count against the memory fraction for good",
    },
    Mutant {
        name: "capi-torch-free-not-discharged",
        file: TORCH,
        original: "        block.device.discharge(block.bytes as u64);",
        replacement: "",
        breaks: "freed memory counts against the memory fraction for good",
    },
    Mutant {
        name: "capi-torch-block-freed-to-the-current-resource",
        file: TORCH,
        original: "            unsafe { block.resource.deallocate(stream, of_c(pointer), layout) };",
        replacement: "            let Ok(current) = block.device.resource() else { return };\n            unsafe { current.deallocate(stream, of_c(pointer), layout) };",
        breaks: "memory is freed to a resource that it did not come from",
    },
    Mutant {
        name: "capi-torch-default-stream-of-another-device",
        file: TORCH_DEVICE,
        original: "if !self.has_others {",
        replacement: "if true || !self.has_others {",
        breaks: "memory is freed in the order of another device's default stream",
    },
    Mutant {
        name: "capi-ort-waits-for-another-device",
        file: ORT,
        original: "        let _current = block.device.enter()?;\n        if let Some(stream) = bound() {",
        replacement: "        if let Some(stream) = bound() {",
        breaks: "ONNX Runtime's memory is reused under the work of its device",
    },
    Mutant {
        name: "capi-structure-written-past-its-size",
        file: SIZED,
        original: "unsafe { ptr::copy_nonoverlapping(from, to, size - first) };",
        replacement: "let _ = size;\n    unsafe { ptr::copy_nonoverlapping(from, to, size_of::<T>() - first) };",
        breaks: "the memory behind the structure of an older header is overwritten",
    },
    Mutant {
        name: "capi-structure-read-past-its-size",
        file: SIZED,
        original: "unsafe { ptr::copy_nonoverlapping(structure.cast::<u8>(), copy.as_mut_ptr().cast(), size) };",
        replacement: "let _ = size;\n    unsafe { ptr::copy_nonoverlapping(structure.cast::<u8>(), copy.as_mut_ptr().cast(), size_of::<T>()) };",
        breaks: "what stands behind the structure of an older header is taken for options",
    },
    Mutant {
        name: "capi-driver-error-of-an-allocation",
        file: FAILURE,
        original: "if [RMM_RS_CUDA_ERROR, RMM_RS_REFUSED, RMM_RS_NOT_READY].contains(&failure.status) {",
        replacement: "if false && failure.status == RMM_RS_REFUSED {",
        breaks: "a failed allocation is not what C++ turns into `bad_alloc`",
    },
    Mutant {
        name: "capi-reference-never-released",
        file: RESOURCE,
        original: "drop(unsafe { Arc::from_raw(resource) });",
        replacement: "std::mem::forget(unsafe { Arc::from_raw(resource) });",
        breaks: "resources leak",
    },
    Mutant {
        name: "capi-registry-forgets-the-policy",
        file: REGISTRY,
        original: "Arc::new(resource.below(resource.any.clone()))",
        replacement: "Arc::new(Resource::base(resource.any.clone()))",
        breaks: "the streams of a current resource are asked for their ids again",
    },
    Mutant {
        name: "capi-policy-ends-with-a-guard",
        file: CURRENT,
        original: "self.handle.take()",
        replacement: "None",
        breaks: "a resource that Rust sets for a while takes the stream policy of C's with it",
    },
    Mutant {
        name: "capi-text-of-nothing",
        file: RESOURCE,
        original: "    unsafe { text::clear(buffer, capacity) };\n",
        replacement: "    unsafe { text::clear(buffer, 0) };\n",
        breaks: "an exit handler prints whatever its buffer held",
    },
    Mutant {
        name: "capi-trim-never-waits",
        file: TRIM,
        original: "Ok(if waits { any.trim_blocking(keep) } else { any.trim(keep) })",
        replacement: "Ok(if waits { any.trim(keep) } else { any.trim(keep) })",
        breaks: "a trim that may wait returns nothing while work is pending",
    },
    Mutant {
        name: "capi-trim-of-nothing",
        file: TRIM,
        original: "    if !holds_memory(any) {",
        replacement: "    if false {",
        breaks: "a program is told that a resource without memory was trimmed",
    },
    Mutant {
        name: "capi-budget-ignored",
        file: POOL,
        original: "builder = builder.budget(budget);",
        replacement: "let _ = budget;",
        breaks: "a pool takes more than its budget",
    },
    Mutant {
        name: "capi-blocks-not-cleared",
        file: POOL,
        original: "builder.clear_blocks(options.flags & RMM_RS_POOL_CLEAR_BLOCKS != 0)",
        replacement: "builder.clear_blocks(false)",
        breaks: "a tenant reads what another has left",
    },
    Mutant {
        name: "capi-sleep-waits-unasked",
        file: SLEEP,
        original: "wait_for_work(raw.wait_for_work != 0)",
        replacement: "wait_for_work(true)",
        breaks: "a pool falls asleep behind work that its program did not know of",
    },
    Mutant {
        name: "capi-not-ready-is-never",
        file: FAILURE,
        original: "ErrorKind::NotReady => RMM_RS_NOT_READY,",
        replacement: "ErrorKind::NotReady => RMM_RS_REFUSED,",
        breaks: "a server takes pending work for a pool that cannot sleep",
    },
    Mutant {
        name: "capi-remedies-lost",
        file: FAILURE,
        original: "let remedies = error.remedies().to_vec();",
        replacement: "let remedies = Vec::new();",
        breaks: "no failure says what would have helped",
    },
    Mutant {
        name: "capi-pressure-context-leaks",
        file: PRESSURE,
        original: "guard::value((), || unsafe { release(self.context) });",
        replacement: "let _ = release;",
        breaks: "the context of a callback is never released",
    },
];
