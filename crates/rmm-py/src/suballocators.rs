//! Resources that take large blocks from an upstream and hand out parts of them.

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rmm_adaptors::{
    ArenaMemoryResource as Arena, FixedSizeMemoryResource as FixedSize, PoolMemoryResource as Pool,
    PoolPreset, PoolStatistics, ReleasePolicy,
};
use rmm_core::{AnyResource, CUDA_ALLOCATION_ALIGNMENT, Device, Introspect as _};

use crate::bins::Bins;
use crate::kept::Kept;
use crate::resource::{DeviceMemoryResource, Upstream, UpstreamResourceAdaptor, make};
use crate::sizes::Bytes;

/// A pool that serves requests from blocks of an upstream.
///
/// Parameters
/// ----------
/// upstream_mr : DeviceMemoryResource
///     Where the pool takes its memory from.
/// initial_pool_size : int or str, optional
///     Bytes to reserve at once; half of the device's free memory by default.
/// maximum_pool_size : int or str, optional
///     The most bytes to reserve.
/// preset : str, optional
///     Not in RMM: what the pool puts first, "throughput", "compact" or "deterministic".
/// release : int or str, optional
///     Not in RMM: returns idle memory above this many bytes by itself, as blocks are freed.
/// soft_maximum_size : int or str, optional
///     Not in RMM: above it the pool waits for other streams before it grows.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = UpstreamResourceAdaptor,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct PoolMemoryResource {
    engine: Kept<Pool<AnyResource>>,
}

fn preset_of(name: &str) -> PyResult<PoolPreset> {
    match name {
        "throughput" => Ok(PoolPreset::Throughput),
        "compact" => Ok(PoolPreset::Compact),
        "deterministic" => Ok(PoolPreset::Deterministic),
        _ => Err(PyValueError::new_err(format!(
            "{name:?} is no preset of a pool: \"throughput\", \"compact\" and \"deterministic\" are"
        ))),
    }
}

/// Refuses sizes as RMM does.
fn check_sizes(initial: Option<u64>, maximum: Option<u64>) -> PyResult<()> {
    let is_aligned =
        |size: Option<u64>| size.is_none_or(|size| size % CUDA_ALLOCATION_ALIGNMENT as u64 == 0);
    let text = if !is_aligned(initial) {
        "Error, Initial pool size required to be a multiple of 256 bytes"
    } else if !is_aligned(maximum) {
        "Error, Maximum pool size required to be a multiple of 256 bytes"
    } else if initial.zip(maximum).is_some_and(|(initial, maximum)| initial > maximum) {
        "Initial pool size exceeds the maximum pool size"
    } else {
        return Ok(());
    };
    Err(PyRuntimeError::new_err(text))
}

/// The counters as a dictionary.
fn dictionary<'py>(py: Python<'py>, figures: &PoolStatistics) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    for (name, figure) in [
        ("allocations", figures.allocations),
        ("cached_allocations", figures.cached_allocations),
        ("slow_allocations", figures.slow_allocations),
        ("frees", figures.frees),
        ("live_bytes", figures.live_bytes),
        ("cached_bytes", figures.cached_bytes),
        ("peak_live_bytes", figures.peak_live_bytes),
        ("reserved_bytes", figures.reserved_bytes),
        ("peak_reserved_bytes", figures.peak_reserved_bytes),
        ("largest_free_bytes", figures.largest_free_bytes),
        ("upstream_allocations", figures.upstream_allocations),
        ("upstream_frees", figures.upstream_frees),
        ("events_recorded", figures.events_recorded),
        ("event_queries", figures.event_queries),
        ("stream_waits", figures.stream_waits),
        ("host_waits", figures.host_waits),
    ] {
        dictionary.set_item(name, figure)?;
    }
    dictionary.set_item("fragmentation", figures.fragmentation())?;
    Ok(dictionary)
}

#[pymethods]
impl PoolMemoryResource {
    #[new]
    #[pyo3(signature = (
        upstream_mr, initial_pool_size=None, maximum_pool_size=None, *, preset=None, release=None,
        soft_maximum_size=None
    ))]
    fn py_new(
        py: Python<'_>,
        upstream_mr: Upstream<'_>,
        initial_pool_size: Option<Bytes>,
        maximum_pool_size: Option<Bytes>,
        preset: Option<&str>,
        release: Option<Bytes>,
        soft_maximum_size: Option<Bytes>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let (initial, maximum) =
            (initial_pool_size.map(|size| size.0), maximum_pool_size.map(|size| size.0));
        check_sizes(initial, maximum)?;
        let preset = preset.map(preset_of).transpose()?;
        let upstream = upstream_mr.engine()?;
        let initial = match initial {
            Some(initial) => initial,
            None => make(py, || Device::percent_of_free_memory(50))?,
        };
        check_sizes(Some(initial), maximum)?;
        let build = || {
            let mut builder = Pool::builder(upstream).initial_size(initial);
            if let Some(maximum) = maximum {
                builder = builder.maximum_size(maximum);
            }
            if let Some(Bytes(soft)) = soft_maximum_size {
                builder = builder.soft_maximum_size(soft);
            }
            if let Some(preset) = preset {
                builder = builder.preset(preset);
            }
            if let Some(Bytes(bytes)) = release {
                builder = builder.release(ReleasePolicy::Above { bytes });
            }
            builder.build()
        };
        let engine = make(py, build)?;
        let base = UpstreamResourceAdaptor::over(upstream_mr, AnyResource::new(engine.clone()));
        Ok(base.add_subclass(Self { engine: Kept::new(engine) }))
    }

    /// The bytes that the pool has taken from its upstream.
    fn pool_size(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.engine.reserved_bytes())
    }

    /// Returns idle memory to the upstream until no more than `keep` bytes are left, and returns
    /// how many bytes that were. Not in RMM.
    #[pyo3(signature = (keep=0))]
    fn trim(&self, py: Python<'_>, keep: u64) -> PyResult<u64> {
        make(py, || Ok(self.engine.trim(keep)))
    }

    /// The pool's counters as a dictionary. Not in RMM.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let figures = make(py, || Ok(self.engine.statistics()))?;
        dictionary(py, &figures)
    }
}

/// A suballocator with an arena for each stream.
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
    #[pyo3(signature = (upstream_mr, arena_size=None, dump_log_on_failure=false))]
    fn py_new(
        py: Python<'_>,
        upstream_mr: Upstream<'_>,
        arena_size: Option<Bytes>,
        dump_log_on_failure: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let upstream = upstream_mr.engine()?;
        let build = || {
            let builder = Arena::builder(upstream).dump_log_on_failure(dump_log_on_failure);
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
    engine: Kept<FixedSize<AnyResource>>,
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
        Ok(base.add_subclass(Self { engine: Kept::new(engine) }))
    }

    /// The bytes of a block. Not in RMM's Python package.
    fn get_block_size(&self) -> u64 {
        self.engine.block_size()
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
    bins: Kept<Bins>,
    upstream: Kept<AnyResource>,
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
        let (bins, upstream) = (Kept::new(bins), Kept::new(upstream));
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
            return Self::add_fixed(py, &self.bins, &self.upstream, allocation_size as u64);
        };
        let size = allocation_size.checked_next_multiple_of(CUDA_ALLOCATION_ALIGNMENT);
        let size = size.filter(|&size| size > 0);
        let size = size.ok_or_else(|| PyValueError::new_err("the size of a bin must not be 0"))?;
        let engine = resource.get().engine()?.clone();
        make(py, || self.bins.add(size, engine))?;
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

/// Returns idle memory of the first pool in a stack. Not in RMM.
#[pyfunction]
#[pyo3(signature = (mr, keep=0))]
pub(crate) fn trim(py: Python<'_>, mr: Upstream<'_>, keep: u64) -> PyResult<u64> {
    let engine = mr.engine()?;
    let released = make(py, || {
        let pool = engine.find::<Pool<AnyResource>>().map(|pool| pool.trim(keep));
        Ok(pool.or_else(|| engine.find::<FixedSize<AnyResource>>().map(|blocks| blocks.trim(keep))))
    })?;
    released.ok_or_else(|| PyRuntimeError::new_err("nothing in this stack holds unused memory"))
}

/// Adds the classes.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PoolMemoryResource>()?;
    module.add_class::<ArenaMemoryResource>()?;
    module.add_class::<FixedSizeMemoryResource>()?;
    module.add_class::<BinningMemoryResource>()?;
    module.add_function(wrap_pyfunction!(trim, module)?)
}
