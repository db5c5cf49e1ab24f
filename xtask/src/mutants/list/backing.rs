//! Mutants of the choice between virtual memory and `cudaMalloc`.

use crate::mutants::mutant::Mutant;

const BACKING: &str = "crates/rmm-resources/src/backing.rs";
const BUILDER: &str = "crates/rmm-resources/src/backing/builder.rs";
const CUDA: &str = "crates/rmm-resources/src/backing/cuda_of_device.rs";
const SPACE: &str = "crates/rmm-resources/src/virtual_memory/space.rs";
const VIRTUAL: &str = "crates/rmm-resources/src/virtual_memory/builder.rs";
const SPEC: &str = "crates/rmm-spec/src/build.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "backing-after-any-failure",
        file: BUILDER,
        original: "(Err(error), None) if error.is_unsupported() => {",
        replacement: "(Err(_), None) => {",
        breaks: "a call that fails once gives a program another kind of memory",
    },
    Mutant {
        name: "backing-drops-options",
        file: BUILDER,
        original: "(None, option) => option,",
        replacement: "(None, _) => None,",
        breaks: "memory that other devices should access is not accessible to them",
    },
    Mutant {
        name: "backing-ignores-a-demand",
        file: BUILDER,
        original: "return Ok(BackingMemoryResource::over_cuda(device, \"demanded\"));",
        replacement: "None",
        breaks: "a program that exports memory by legacy IPC gets virtual memory",
    },
    Mutant {
        name: "backing-is-not-extendable",
        file: BACKING,
        original: "request.extendable(resource).upstream(resource)",
        replacement: "request.upstream(resource)",
        breaks: "the default pool does not grow in place",
    },
    Mutant {
        name: "backing-of-the-current-device",
        file: CUDA,
        original: "let is_current = Device::current()? == self.device;",
        replacement: "let is_current = Device::current().is_ok();",
        breaks: "memory belongs to whichever device is current",
    },
    Mutant {
        name: "backing-for-streams-of-any-device",
        file: CUDA,
        original: "if device != self.device {",
        replacement: "if device != self.device && false {",
        breaks: "a stream gets memory of a device that is not the resource's",
    },
    Mutant {
        name: "backing-loses-rdma",
        file: SPACE,
        original: "gpu_direct_rdma_capable: self.rdma.into(),",
        replacement: "gpu_direct_rdma_capable: 0,",
        breaks: "memory cannot be registered for RDMA although that was asked for",
    },
    Mutant {
        name: "backing-always-for-rdma",
        file: VIRTUAL,
        original: "Self::IfSupported => Ok(capability::attribute(device, attribute)? != 0),",
        replacement: "Self::IfSupported => Ok(true),",
        breaks: "a device without virtual memory for RDMA is used without virtual memory",
    },
    Mutant {
        name: "backing-of-the-pool-in-specifications",
        file: SPEC,
        original: "None | Some(Plan::Base(Base::Backing)) => self.over(BackingMemoryResource::new()?),",
        replacement: "None | Some(Plan::Base(Base::Backing)) => self.over(CudaMemoryResource::new()),",
        breaks: "`pool` is not the default pool",
    },
];
