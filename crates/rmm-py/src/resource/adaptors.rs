//! Adaptors: resources that see or change the requests to an upstream.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rmm_adaptors::{
    AlignedResourceAdaptor as Aligned, FallbackMemoryResource as Fallback,
    LimitingResourceAdaptor as Limiting, OutstandingAllocation,
    PrefetchResourceAdaptor as Prefetch, TaggedResourceAdaptor as Tagged,
    ThreadSafeResourceAdaptor as ThreadSafe, TrackingFinding, TrackingResourceAdaptor as Tracking,
};
use rmm_core::AnyResource;

use crate::interpreter::debug_log::{log, log_detached};
use crate::interpreter::drop_detached::DropDetached;
use crate::interpreter::truth::Truth;
use crate::resource::adaptor::{adaptor, silent_adaptor};
use crate::resource::{Upstream, UpstreamResourceAdaptor, make};

adaptor! {
    /// Refuses requests that would bring the total above a limit. Sizes are rounded up to 256.
    ///
    /// Parameters
    /// ----------
    /// upstream_mr : DeviceMemoryResource
    /// allocation_limit : int
    ///     The most bytes in all.
    LimitingResourceAdaptor(Limiting)
}

#[pymethods]
impl LimitingResourceAdaptor {
    #[new]
    #[pyo3(signature = (upstream_mr, allocation_limit))]
    fn py_new(
        upstream_mr: Upstream<'_>,
        allocation_limit: u64,
    ) -> PyResult<PyClassInitializer<Self>> {
        let engine = Limiting::new(upstream_mr.engine()?, allocation_limit);
        Ok(Self::over(upstream_mr, engine))
    }

    /// The bytes that are allocated.
    fn get_allocated_bytes(&self) -> u64 {
        self.engine.peek().allocated_bytes()
    }

    /// The most bytes in all.
    fn get_allocation_limit(&self) -> u64 {
        self.engine.peek().allocation_limit()
    }

    /// Changes the limit. If more is in use, requests fail until enough is freed. Not in RMM.
    fn set_allocation_limit(&self, allocation_limit: u64) {
        self.engine.peek().set_allocation_limit(allocation_limit);
    }

    /// The identity of the limit in the `remedies` of a `MemoryError`. Not in RMM.
    #[getter]
    fn limit_id(&self) -> u64 {
        self.engine.peek().limit_id().get()
    }
}

adaptor! {
    /// Remembers every allocation, with the stack of its caller on request. Wrong frees go to the
    /// debug log, and so does what is still allocated when it ends.
    ///
    /// Parameters
    /// ----------
    /// upstream_mr : DeviceMemoryResource
    /// capture_stacks : bool
    ///     Whether to capture stacks, which is slow.
    TrackingResourceAdaptor(Tracking)
}

#[pymethods]
impl TrackingResourceAdaptor {
    #[new]
    #[pyo3(
        signature = (upstream_mr, capture_stacks=Truth(false)),
        text_signature = "(upstream_mr, capture_stacks=False)"
    )]
    fn py_new(
        upstream_mr: Upstream<'_>,
        capture_stacks: Truth,
    ) -> PyResult<PyClassInitializer<Self>> {
        let builder = Tracking::builder(upstream_mr.engine()?).capture_stacks(capture_stacks.0);
        Ok(Self::over(upstream_mr, builder.on_finding(log_finding)))
    }

    /// The bytes that are allocated.
    fn get_allocated_bytes(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.engine.peek().allocated_bytes())
    }

    /// The allocations that were not freed, as text: a line for each, the largest first, and its
    /// stack if stacks are captured. Empty if there are none.
    fn get_outstanding_allocations_str(&self, py: Python<'_>) -> PyResult<String> {
        let engine = self.engine.get()?;
        Ok(py.detach(|| {
            let blocks = engine.outstanding();
            blocks.iter().fold(String::new(), |text, block| format!("{text}{block}\n"))
        }))
    }

    /// The allocations that were not freed, the largest first: a list of dictionaries with the
    /// address `ptr`, the bytes `size`, and, if stacks are captured, the line of the program
    /// `place` and the lines of the `stack`; else `None`. Not in RMM.
    fn outstanding<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let engine = self.engine.get()?;
        let blocks = py.detach(|| {
            let described = |block: OutstandingAllocation| {
                let texts = (block.call_site(), block.callstack());
                (block.pointer.0, block.layout.size(), texts)
            };
            engine.outstanding().into_iter().map(described).collect::<Vec<_>>()
        });
        let list = PyList::empty(py);
        for (pointer, size, (place, stack)) in blocks {
            let block = PyDict::new(py);
            block.set_item("ptr", pointer)?;
            block.set_item("size", size)?;
            block.set_item("place", place)?;
            block.set_item("stack", stack)?;
            list.append(block)?;
        }
        Ok(list)
    }

    /// How many frees named no block that is allocated. Not in RMM.
    #[getter]
    fn unknown_frees(&self) -> u64 {
        self.engine.peek().unknown_frees()
    }

    /// How many frees named a block with another size. Not in RMM.
    #[getter]
    fn wrong_frees(&self) -> u64 {
        self.engine.peek().wrong_frees()
    }

    /// Writes them to the debug log.
    fn log_outstanding_allocations(&self, py: Python<'_>) -> PyResult<()> {
        let text = self.get_outstanding_allocations_str(py)?;
        log(py, "debug", format!("Outstanding Allocations: {text}"))
    }
}

/// Writes a finding to the debug log, and to the standard error stream once Python ends.
fn log_finding(finding: &TrackingFinding<'_>) {
    let level = if matches!(finding, TrackingFinding::Leak(_)) { "warn" } else { "error" };
    log_detached(level, &finding.to_string());
}

silent_adaptor! {
    /// Prefetches managed memory to the current device as it is allocated.
    ///
    /// Parameters
    /// ----------
    /// upstream_mr : DeviceMemoryResource
    PrefetchResourceAdaptor
}

#[pymethods]
impl PrefetchResourceAdaptor {
    #[new]
    #[pyo3(signature = (upstream_mr))]
    fn py_new(upstream_mr: Upstream<'_>) -> PyResult<PyClassInitializer<Self>> {
        let engine = Prefetch::new(upstream_mr.engine()?);
        let engine = AnyResource::new(engine);
        Ok(UpstreamResourceAdaptor::over(upstream_mr, engine).add_subclass(Self))
    }
}

adaptor! {
    /// Counts memory by tags, such as the parts of a program; see `rmm_rs.tag`. Not in RMM.
    ///
    /// Parameters
    /// ----------
    /// upstream_mr : DeviceMemoryResource
    TaggedResourceAdaptor(Tagged)
}

#[pymethods]
impl TaggedResourceAdaptor {
    #[new]
    #[pyo3(signature = (upstream_mr))]
    fn py_new(upstream_mr: Upstream<'_>) -> PyResult<PyClassInitializer<Self>> {
        let engine = Tagged::new(upstream_mr.engine()?);
        Ok(Self::over(upstream_mr, engine))
    }

    /// The memory of each tag that was used: a dictionary of dictionaries.
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let engine = self.engine.get()?;
        let usage = py.detach(|| engine.usage());
        let by_tag = PyDict::new(py);
        for tag in usage {
            let figures = PyDict::new(py);
            figures.set_item("current_bytes", tag.live_bytes)?;
            figures.set_item("peak_bytes", tag.peak_bytes)?;
            figures.set_item("current_count", tag.live_blocks)?;
            by_tag.set_item(tag.tag.name(), figures)?;
        }
        Ok(by_tag)
    }
}

silent_adaptor! {
    /// Aligns large requests to more than 256 bytes. Not in RMM's Python package.
    ///
    /// Parameters
    /// ----------
    /// upstream_mr : DeviceMemoryResource
    /// alignment : int
    ///     A power of two, at least 256.
    /// alignment_threshold : int
    ///     Requests of at least this many bytes are aligned.
    AlignedResourceAdaptor
}

#[pymethods]
impl AlignedResourceAdaptor {
    #[new]
    #[pyo3(signature = (upstream_mr, alignment=256, alignment_threshold=0))]
    fn py_new(
        py: Python<'_>,
        upstream_mr: Upstream<'_>,
        alignment: usize,
        alignment_threshold: usize,
    ) -> PyResult<PyClassInitializer<Self>> {
        let upstream = upstream_mr.engine()?;
        let build = || Aligned::with_threshold(upstream, alignment, alignment_threshold);
        let engine = make(py, build)?;
        let engine = AnyResource::new(engine);
        Ok(UpstreamResourceAdaptor::over(upstream_mr, engine).add_subclass(Self))
    }
}

silent_adaptor! {
    /// Calls the upstream from one thread at a time. Resources of this package need none. Not in
    /// RMM's Python package.
    ///
    /// Parameters
    /// ----------
    /// upstream_mr : DeviceMemoryResource
    ThreadSafeResourceAdaptor
}

#[pymethods]
impl ThreadSafeResourceAdaptor {
    #[new]
    #[pyo3(signature = (upstream_mr))]
    fn py_new(upstream_mr: Upstream<'_>) -> PyResult<PyClassInitializer<Self>> {
        let engine = ThreadSafe::new(upstream_mr.engine()?);
        let engine = AnyResource::new(engine);
        Ok(UpstreamResourceAdaptor::over(upstream_mr, engine).add_subclass(Self))
    }
}

/// Asks a second resource where the first is out of memory. Not in RMM.
///
/// Parameters
/// ----------
/// upstream_mr : DeviceMemoryResource
///     The first.
/// fallback_mr : DeviceMemoryResource
///     The second.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = UpstreamResourceAdaptor,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct FallbackMemoryResource {
    engine: DropDetached<Fallback>,
    fallback: Py<crate::resource::DeviceMemoryResource>,
}

#[pymethods]
impl FallbackMemoryResource {
    #[new]
    #[pyo3(signature = (upstream_mr, fallback_mr))]
    fn py_new(
        upstream_mr: Upstream<'_>,
        fallback_mr: Upstream<'_>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let engine = Fallback::new(upstream_mr.engine()?, fallback_mr.engine()?);
        let base = UpstreamResourceAdaptor::over(upstream_mr, AnyResource::new(engine.clone()));
        let fallback = fallback_mr.0.unbind();
        Ok(base.add_subclass(Self { engine: DropDetached::new(engine), fallback }))
    }

    /// The second resource.
    #[getter]
    fn fallback_mr(&self, py: Python<'_>) -> Py<crate::resource::DeviceMemoryResource> {
        self.fallback.clone_ref(py)
    }

    /// The bytes that are allocated from the second resource.
    fn get_fallback_bytes(&self) -> u64 {
        self.engine.peek().fallback_bytes()
    }

    /// How often the second resource was asked.
    fn get_fallbacks(&self) -> u64 {
        self.engine.peek().fallbacks()
    }

    fn __traverse__(&self, visit: pyo3::gc::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.fallback)
    }
}

/// Adds the classes.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LimitingResourceAdaptor>()?;
    module.add_class::<TrackingResourceAdaptor>()?;
    module.add_class::<PrefetchResourceAdaptor>()?;
    module.add_class::<TaggedResourceAdaptor>()?;
    module.add_class::<AlignedResourceAdaptor>()?;
    module.add_class::<ThreadSafeResourceAdaptor>()?;
    module.add_class::<FallbackMemoryResource>()
}
