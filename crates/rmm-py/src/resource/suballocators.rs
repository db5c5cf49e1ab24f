//! Resources that take large blocks from an upstream and hand out parts of them.

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyList;
use rmm_adaptors::{ArenaMemoryResource as Arena, FixedSizeMemoryResource as FixedSize};
use rmm_core::{AnyResource, CUDA_ALLOCATION_ALIGNMENT};

use crate::interpreter::drop_detached::DropDetached;
use crate::interpreter::sizes::Bytes;
use crate::interpreter::truth::Truth;
use crate::resource::bins::Bins;
use crate::resource::{DeviceMemoryResource, Upstream, UpstreamResourceAdaptor, make};

/// A pool that takes all its memory at once, and does not grow.
///
/// Parameters
/// ----------
/// upstream_mr : DeviceMemoryResource
///     Where it takes its memory from.
/// arena_size : int or str, optional
///     Bytes to reserve at once; half of the device's free memory by default.
/// dump_log_on_failure : bool
///     Whether to write what it holds to a file when an allocation fails.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = UpstreamResourceAdaptor,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct ArenaMemoryResource;

#[pymethods]
impl ArenaMemoryResource {
    #[new]
    #[pyo3(
        signature = (upstream_mr, arena_size=None, dump_log_on_failure=Truth(false)),
        text_signature = "(upstream_mr, arena_size=None, dump_log_on_failure=False)"
    )]
    fn py_new(
        py: Python<'_>,
        upstream_mr: Upstream<'_>,
        arena_size: Option<Bytes>,
        dump_log_on_failure: Truth,
    ) -> PyResult<PyClassInitializer<Self>> {
        let upstream = upstream_mr.engine()?;
        let build = || {
            let builder = Arena::builder(upstream).dump_log_on_failure(dump_log_on_failure.0);
            match arena_size {
                Some(Bytes(size)) => builder.arena_size(size).build(),
                None => builder.build(),
            }
        };
        let engine = AnyResource::new(make(py, build)?);
        Ok(UpstreamResourceAdaptor::over(upstream_mr, engine).add_subclass(Self))
    }
}

/// Blocks of one size.
///
/// Parameters
/// ----------
/// upstream_mr : DeviceMemoryResource
///     Where it takes its memory from.
/// block_size : int
///     Bytes of a block.
/// blocks_to_preallocate : int
///     How many blocks to take from the upstream at once.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = UpstreamResourceAdaptor,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct FixedSizeMemoryResource {
    engine: DropDetached<FixedSize>,
}

#[pymethods]
impl FixedSizeMemoryResource {
    #[new]
    #[pyo3(signature = (upstream_mr, block_size=1_048_576, blocks_to_preallocate=128))]
    fn py_new(
        py: Python<'_>,
        upstream_mr: Upstream<'_>,
        block_size: u64,
        blocks_to_preallocate: usize,
    ) -> PyResult<PyClassInitializer<Self>> {
        let upstream = upstream_mr.engine()?;
        let build = || {
            FixedSize::builder(upstream)
                .block_size(block_size)
                .blocks(blocks_to_preallocate)
                .build()
        };
        let engine = make(py, build)?;
        let base = UpstreamResourceAdaptor::over(upstream_mr, AnyResource::new(engine.clone()));
        Ok(base.add_subclass(Self { engine: DropDetached::new(engine) }))
    }

    /// The bytes of a block. Not in RMM's Python package.
    fn get_block_size(&self) -> u64 {
        self.engine.peek().block_size()
    }
}

/// Requests go to bins by their size, and to the upstream if they are larger than all bins.
///
/// Parameters
/// ----------
/// upstream_mr : DeviceMemoryResource
///     Serves what is larger than all bins, and the bins themselves.
/// min_size_exponent, max_size_exponent : int
///     Bins of fixed size are made for each power of two between these; none if one is -1.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = UpstreamResourceAdaptor,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct BinningMemoryResource {
    bins: DropDetached<Bins>,
    upstream: DropDetached<AnyResource>,
    given: Py<PyList>,
}

impl BinningMemoryResource {
    fn add_fixed(py: Python<'_>, bins: &Bins, upstream: &AnyResource, size: u64) -> PyResult<()> {
        let size = size.checked_next_multiple_of(CUDA_ALLOCATION_ALIGNMENT as u64);
        let size = size.filter(|&size| size > 0);
        let size = size.ok_or_else(|| PyValueError::new_err("the size of a bin must not be 0"))?;
        let upstream = upstream.clone();
        let blocks = make(py, || FixedSize::builder(upstream).block_size(size).build())?;
        make(py, || bins.add(usize::try_from(size).unwrap_or(usize::MAX), AnyResource::new(blocks)))
    }
}

#[pymethods]
impl BinningMemoryResource {
    #[new]
    #[pyo3(
        signature = (upstream_mr, min_size_exponent=-1, max_size_exponent=-1),
        text_signature = "(upstream_mr, min_size_exponent=-1, max_size_exponent=-1)"
    )]
    fn py_new(
        py: Python<'_>,
        upstream_mr: Upstream<'_>,
        min_size_exponent: i8,
        max_size_exponent: i8,
    ) -> PyResult<PyClassInitializer<Self>> {
        let upstream = upstream_mr.engine()?;
        let bins = Bins::new(upstream.clone());
        if min_size_exponent != -1 && max_size_exponent != -1 {
            for exponent in min_size_exponent..=max_size_exponent {
                let size = u32::try_from(exponent).ok().and_then(|power| 1_u64.checked_shl(power));
                let size = size.ok_or_else(|| {
                    PyValueError::new_err(format!("2 to the power of {exponent} is no bin's size"))
                })?;
                Self::add_fixed(py, &bins, &upstream, size)?;
            }
        }
        let given = PyList::empty(py).unbind();
        let base = UpstreamResourceAdaptor::over(upstream_mr, AnyResource::new(bins.clone()));
        let (bins, upstream) = (DropDetached::new(bins), DropDetached::new(upstream));
        Ok(base.add_subclass(Self { bins, upstream, given }))
    }

    /// Adds a bin for requests of up to `allocation_size` bytes that no smaller bin serves: of
    /// `bin_resource`, or of fixed-size blocks. A bin of the same size is replaced.
    ///
    /// Raises
    /// ------
    /// RuntimeError
    ///     If memory of these sizes is allocated; RMM would free it into the new bin.
    #[pyo3(signature = (allocation_size, bin_resource=None))]
    fn add_bin(
        &self,
        py: Python<'_>,
        allocation_size: usize,
        bin_resource: Option<Bound<'_, DeviceMemoryResource>>,
    ) -> PyResult<()> {
        let Some(resource) = bin_resource else {
            return Self::add_fixed(
                py,
                self.bins.get()?,
                self.upstream.get()?,
                allocation_size as u64,
            );
        };
        let size = allocation_size.checked_next_multiple_of(CUDA_ALLOCATION_ALIGNMENT);
        let size = size.filter(|&size| size > 0);
        let size = size.ok_or_else(|| PyValueError::new_err("the size of a bin must not be 0"))?;
        let engine = resource.get().engine()?.clone();
        let bins = self.bins.get()?;
        make(py, || bins.add(size, engine))?;
        self.given.bind(py).append(resource)
    }

    /// The resources that were given for bins.
    #[getter]
    fn bin_mrs(&self, py: Python<'_>) -> Py<PyList> {
        self.given.clone_ref(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.given)
    }
}

/// Returns idle memory of a resource and those below it, as their method `trim`. Not in RMM.
///
/// Raises
/// ------
/// RuntimeError
///     If nothing in the stack holds memory that it could return.
#[pyfunction]
#[pyo3(signature = (mr, keep=0, *, wait=false))]
pub(crate) fn trim(py: Python<'_>, mr: Upstream<'_>, keep: u64, wait: bool) -> PyResult<u64> {
    if !rmm_rs::calls::trim::holds_memory(mr.0.get().engine()?) {
        return Err(PyRuntimeError::new_err("nothing in this stack holds unused memory"));
    }
    mr.0.get().trim(py, keep, wait)
}

/// Adds the classes.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ArenaMemoryResource>()?;
    module.add_class::<FixedSizeMemoryResource>()?;
    module.add_class::<BinningMemoryResource>()?;
    module.add_function(wrap_pyfunction!(trim, module)?)
}
