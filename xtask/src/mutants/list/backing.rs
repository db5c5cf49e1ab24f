//! Mutants of the choice between virtual memory and `cudaMalloc`, and of the one type of pools.

use crate::mutants::mutant::Mutant;

const BACKING: &str = "crates/rmm-resources/src/backing.rs";
const SPACE: &str = "crates/rmm-resources/src/virtual_memory/space.rs";
const VIRTUAL: &str = "crates/rmm-resources/src/virtual_memory/builder.rs";
const VIEWS: &str = "crates/rmm-adaptors/src/with_properties.rs";
const SPEC: &str = "crates/rmm-spec/src/build.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "backing-after-any-failure",
        file: BACKING,
        original: "Err(error) if error.is_unsupported() => {",
        replacement: "Err(_) if true => {",
        breaks: "a call that fails once gives a program another kind of memory",
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
        original: "None => PoolMemoryResource::on_device()?,",
        replacement: "None => PoolMemoryResource::builder(rmm_resources::CudaMemoryResource::new()),",
        breaks: "`pool` is not the default pool",
    },
    Mutant {
        name: "pool-found-by-what-its-memory-cannot-do",
        file: VIEWS,
        original: "resource.has_all::<T>().then(",
        replacement: "Some(()).map(|()|",
        breaks: "safe code gets a pool of memory that it claims the device or the host can use",
    },
];
