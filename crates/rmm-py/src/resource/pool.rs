//! The pool.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rmm_adaptors::{
    Contents, PoolMemoryResource as Pool, PoolPreset, PoolStatistics, RecorderResourceAdaptor,
    ReleasePolicy, SleepOptions,
};
use rmm_core::{AnyResource, AnySynchronousResource, CUDA_ALLOCATION_ALIGNMENT, Device};

use crate::interpreter::drop_detached::DropDetached;
use crate::interpreter::sizes::Bytes;
use crate::resource::budget::{Budget, MaximumSize};
use crate::resource::callbacks::require_callable;
use crate::resource::pressure::{Pressure, PressureCallback};
use crate::resource::reservation::Reservation;
use crate::resource::segments::{self, Segment, SegmentCallback};
use crate::resource::wrong_free;
use crate::resource::{Upstream, UpstreamResourceAdaptor, make};

/// A pool that serves requests from blocks of an upstream.
///
/// Parameters
/// ----------
/// upstream_mr : DeviceMemoryResource
///     Where the pool takes its memory from.
/// initial_pool_size : int or str, optional
///     Bytes to reserve at once; half of the device's free memory by default.
/// maximum_pool_size : int, str or Budget, optional
///     The most bytes to reserve. With a `Budget`, which is not in RMM, the pool reserves no more
///     than it says at once.
/// preset : str, optional
///     Not in RMM: what the pool puts first, "throughput", "low-latency", "compact" or
///     "deterministic".
/// release : int or str, optional
///     Not in RMM: returns idle memory above this many bytes by itself, as blocks are freed.
/// soft_maximum_size : int or str, optional
///     Not in RMM: above it the pool waits for other streams before it grows.
/// release_after : float, optional
///     Not in RMM: returns memory by itself that was not in use for this many seconds, as blocks
///     are freed.
/// clear_blocks : bool
///     Not in RMM: whether each block is filled with zeros before the caller gets it.
/// check_frees : bool
///     Not in RMM: whether a free of a wrong address or size raises `ValueError`, with the sizes
///     and the lines of the program that allocated and free the block. Such a free changes nothing,
///     or frees the block with its own size. Slow: for programs that are looked into.
/// for_graphs : bool
///     Not in RMM: whether the memory is that of CUDA graphs, which use it at each launch. Such a
///     pool serves streams under capture as any others, and grows meanwhile; what a stream has
///     freed serves that stream again, never another one, until `release_graph_memory`. It does
///     not check frees.
/// segment_size : int or str, optional
///     Not in RMM: takes memory from the upstream in segments of this size, a power of two.
/// single_handle : bool
///     Not in RMM: whether each block lies within one segment, which is one allocation of the
///     driver.
/// pinned_segments : bool
///     Not in RMM: whether segments stay until the pool's end. Such a pool cannot sleep.
/// name : str, optional
///     Not in RMM: what errors, remedies and descriptions call the pool; "pool" by default.
/// oom_report : str, optional
///     Not in RMM: a directory, for the log that a `RecorderResourceAdaptor` over the pool writes
///     when a request fails for lack of memory.
#[derive(Debug)]
#[pyclass(
    subclass,
    frozen,
    extends = UpstreamResourceAdaptor,
    module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
)]
pub(crate) struct PoolMemoryResource {
    engine: DropDetached<Pool>,
}

fn preset_of(name: &str) -> PyResult<PoolPreset> {
    match name {
        "throughput" => Ok(PoolPreset::Throughput),
        "low-latency" => Ok(PoolPreset::LowLatency),
        "compact" => Ok(PoolPreset::Compact),
        "deterministic" => Ok(PoolPreset::Deterministic),
        _ => Err(PyValueError::new_err(format!(
            "{name:?} is no preset of a pool: \"throughput\", \"low-latency\", \"compact\" and \
             \"deterministic\" are"
        ))),
    }
}

fn seconds(number: f64) -> PyResult<Duration> {
    let text = "`release_after` is a number of seconds from 0 on";
    Duration::try_from_secs_f64(number).map_err(|_| PyValueError::new_err(text))
}

fn contents_of(name: &str) -> PyResult<Contents> {
    match name {
        "discard" => Ok(Contents::Discard),
        "host" => Ok(Contents::ToHost),
        _ => {
            let text = format!("the contents are \"discard\" or \"host\", not {name:?}");
            Err(PyValueError::new_err(text))
        }
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
        ("failed_allocations", figures.failed_allocations),
        ("frees", figures.frees),
        ("unknown_frees", figures.unknown_frees),
        ("wrong_frees", figures.wrong_frees),
        ("lock_waits", figures.lock_waits),
        ("flushes", figures.flushes),
        ("flushed_blocks", figures.flushed_blocks),
        ("spans", figures.spans),
        ("live_bytes", figures.live_bytes),
        ("cached_bytes", figures.cached_bytes),
        ("peak_live_bytes", figures.peak_live_bytes),
        ("reserved_bytes", figures.reserved_bytes),
        ("peak_reserved_bytes", figures.peak_reserved_bytes),
        ("largest_free_bytes", figures.largest_free_bytes),
        ("graph_bytes", figures.graph_bytes),
        ("asleep_bytes", figures.asleep_bytes),
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
        soft_maximum_size=None, release_after=None, clear_blocks=false, check_frees=false,
        for_graphs=false, segment_size=None, single_handle=false, pinned_segments=false, name=None,
        oom_report=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python has them by name")]
    #[expect(clippy::fn_params_excessive_bools, reason = "Python has them by name")]
    fn py_new(
        py: Python<'_>,
        upstream_mr: Upstream<'_>,
        initial_pool_size: Option<Bytes>,
        maximum_pool_size: Option<MaximumSize>,
        preset: Option<&str>,
        release: Option<Bytes>,
        soft_maximum_size: Option<Bytes>,
        release_after: Option<f64>,
        clear_blocks: bool,
        check_frees: bool,
        for_graphs: bool,
        segment_size: Option<Bytes>,
        single_handle: bool,
        pinned_segments: bool,
        name: Option<&str>,
        oom_report: Option<PathBuf>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let initial = initial_pool_size.map(|size| size.0);
        let (maximum, of_budget) = match maximum_pool_size {
            Some(MaximumSize::Bytes(size)) => (Some(size), u64::MAX),
            Some(MaximumSize::Budget(budget)) => {
                let size = budget.resolve(py)?;
                (Some(size), size)
            }
            None => (None, u64::MAX),
        };
        check_sizes(initial, maximum)?;
        if for_graphs && check_frees {
            let text = "a pool for graphs does not check frees: leave out one of the two";
            return Err(PyValueError::new_err(text));
        }
        let release_after = release_after.map(seconds).transpose()?;
        let preset = preset.map(preset_of).transpose()?;
        let upstream = upstream_mr.engine()?;
        let initial = match initial {
            Some(initial) => initial,
            None => make(py, || Device::percent_of_free_memory(50))?.min(of_budget),
        };
        check_sizes(Some(initial), maximum)?;
        let build = || {
            let mut builder = Pool::builder(upstream).initial_size(initial);
            builder = builder.clear_blocks(clear_blocks).for_graphs(for_graphs);
            builder = builder.single_handle(single_handle).pinned_segments(pinned_segments);
            if let Some(Bytes(bytes)) = segment_size {
                builder = builder.segment_size(bytes);
            }
            if check_frees {
                builder = builder.on_wrong_free(wrong_free::note);
            }
            if let Some(name) = name {
                builder = builder.name(name);
            }
            if let Some(unused) = release_after {
                builder = builder.release_after(unused);
            }
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
        let mut resource = AnyResource::new(engine.clone());
        if let Some(directory) = oom_report {
            let recorder = RecorderResourceAdaptor::builder(resource).sites(true);
            resource = AnyResource::new(recorder.oom_report(directory).build());
        }
        let base = UpstreamResourceAdaptor::over(upstream_mr, resource);
        Ok(base.add_subclass(Self { engine: DropDetached::new(engine) }))
    }

    /// The bytes that the pool has taken from its upstream.
    fn pool_size(&self, py: Python<'_>) -> PyResult<u64> {
        let engine = self.engine.get()?;
        Ok(py.detach(|| engine.reserved_bytes()))
    }

    /// Changes the most bytes that the pool may take from its upstream; `None` lifts the limit.
    /// What it holds beyond stays until it is trimmed. Not in RMM.
    fn set_maximum_pool_size(
        &self,
        py: Python<'_>,
        maximum_pool_size: Option<Bytes>,
    ) -> PyResult<()> {
        let maximum = maximum_pool_size.map(|size| size.0);
        check_sizes(None, maximum)?;
        let engine = self.engine.get()?;
        make(py, || engine.set_maximum_size(maximum))
    }

    /// The identity of the pool in the `remedies` of a `MemoryError`. Not in RMM.
    #[getter]
    fn limit_id(&self) -> u64 {
        self.engine.peek().limit_id().get()
    }

    /// Returns what `release` and `release_after` do not keep, as far as it is known to be unused:
    /// for programs that free nothing for a while. Returns the bytes. Not in RMM.
    fn release_unused(&self, py: Python<'_>) -> PyResult<u64> {
        let engine = self.engine.get()?;
        make(py, || Ok(engine.release_unused()))
    }

    /// Makes memory that was freed on streams under capture, and all of a pool that is
    /// `for_graphs`, available to any stream once the work before is complete. Not in RMM.
    ///
    /// The caller promises that no graph that was captured with the pool's memory is launched any
    /// more, and that all launches are complete.
    fn release_graph_memory(&self, py: Python<'_>) -> PyResult<()> {
        let engine = self.engine.get()?;
        make(py, || {
            // SAFETY: the caller's promise, as the documentation says.
            unsafe { engine.release_graph_memory() };
            Ok(())
        })
    }

    /// Returns all of the pool's physical memory to the device, and keeps all of its addresses:
    /// `wake` makes them usable again. Returns the bytes. Needs a pool over a
    /// `VirtualMemoryResource`. Not in RMM.
    ///
    /// The caller promises that until the pool is awake no work uses its memory: neither kernels
    /// and copies that are enqueued meanwhile, nor pointers that the host dereferences. They fault.
    ///
    /// While the pool sleeps, allocating raises, and buffers may be dropped.
    ///
    /// Parameters
    /// ----------
    /// contents : str
    ///     "discard": what the buffers hold afterwards is undefined; "host": it is copied to the
    ///     host, and back by `wake`.
    /// wait : bool
    ///     Whether to wait for pending work.
    /// host_mr : DeviceMemoryResource, optional
    ///     Host memory for the contents; by default it is pinned when the pool falls asleep, which
    ///     takes 422 ms for each GiB.
    ///
    /// Raises
    /// ------
    /// RuntimeError
    ///     If work is pending and `wait` is false, if the pool is not awake, or if it cannot sleep.
    /// MemoryError
    ///     If the host has too little memory. In all cases the pool is as before.
    #[pyo3(signature = (contents="discard", *, wait=false, host_mr=None))]
    fn sleep(
        &self,
        py: Python<'_>,
        contents: &str,
        wait: bool,
        host_mr: Option<Upstream<'_>>,
    ) -> PyResult<u64> {
        let contents = contents_of(contents)?;
        let host = match host_mr {
            Some(mr) => {
                let memory = AnySynchronousResource::<()>::from(mr.engine()?).try_widen();
                let text = "the host cannot use the memory of `host_mr`";
                Some(memory.map_err(|_| PyValueError::new_err(text))?)
            }
            None => None,
        };
        let engine = self.engine.get()?;
        make(py, || {
            let options = SleepOptions::new(contents).wait_for_work(wait);
            let options = match host {
                Some(memory) => options.host_memory(memory),
                None => options,
            };
            // SAFETY: the contract of this method, which its documentation states.
            unsafe { engine.sleep_with(options) }
        })
    }

    /// Wakes the pool: maps memory at all of its addresses, and copies contents back that were
    /// kept. Returns the bytes: 0 if the pool was awake. Not in RMM.
    ///
    /// Raises
    /// ------
    /// MemoryError
    ///     If the device has too little memory by now. The pool sleeps as before.
    fn wake(&self, py: Python<'_>) -> PyResult<u64> {
        let engine = self.engine.get()?;
        make(py, || engine.wake())
    }

    /// Whether the pool sleeps, or a thread is putting it to sleep or waking it. Not in RMM.
    #[getter]
    fn is_asleep(&self, py: Python<'_>) -> PyResult<bool> {
        let engine = self.engine.get()?;
        Ok(py.detach(|| engine.is_asleep()))
    }

    /// Sets memory aside, from which allocations cannot fail. Not in RMM.
    fn reserve(slf: &Bound<'_, Self>, nbytes: Bytes) -> PyResult<Py<Reservation>> {
        let (py, pool) = (slf.py(), slf.get().engine.get()?);
        let reserved = make(py, || pool.reserve(nbytes.0))?;
        let base = slf.clone().into_super().into_super();
        Reservation::over(py, Upstream(base), reserved)
    }

    /// Calls `callback` with a `Pressure` when a request is about to fail for lack of memory, after
    /// everything else was tried: by other means, such as a spill to the host, it may free some. If
    /// it returns true the request is tried again. Keep the object that is returned. Not in RMM.
    fn on_pressure(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<Py<PressureCallback>> {
        require_callable(callback.bind(py))?;
        PressureCallback::register(py, self.engine.get()?, callback)
    }

    /// Calls `callback` with "added" and a `Segment` for each that the pool has and for a new one,
    /// before a block in it is handed out, and with "removing" before one is unmapped, freed or put
    /// to sleep: so that NCCL, cuFile, UCX and NIXL register whole segments, once. Keep the object
    /// that is returned; it, or its `remove`, calls it with "removing" for each. Not in RMM.
    ///
    /// If it raises on "added" the memory goes back, and the request fails by the exception; if it
    /// raises on "removing" the segment stays, and `sys.unraisablehook` is called. It is called on
    /// the thread that makes the pool change, by several at once. It may allocate what the pool
    /// holds, but not make it grow. It is not called while the interpreter ends.
    ///
    /// Raises
    /// ------
    /// RuntimeError, MemoryError
    ///     If the callback raises for a segment that there is: then it is not registered.
    fn on_segment(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<Py<SegmentCallback>> {
        require_callable(callback.bind(py))?;
        SegmentCallback::register(py, self.engine.get()?, callback)
    }

    /// The segments that the pool has now, by address; none while it sleeps. Not in RMM.
    fn segments(&self, py: Python<'_>) -> PyResult<Vec<Segment>> {
        segments::of_pool(py, self.engine.get()?)
    }

    /// The pool's counters as a dictionary. Not in RMM.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let engine = self.engine.get()?;
        let figures = make(py, || Ok(engine.statistics()))?;
        dictionary(py, &figures)
    }
}

/// Adds the classes.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PoolMemoryResource>()?;
    module.add_class::<Reservation>()?;
    module.add_class::<Budget>()?;
    module.add_class::<Pressure>()?;
    module.add_class::<PressureCallback>()?;
    module.add_class::<Segment>()?;
    module.add_class::<SegmentCallback>()
}
