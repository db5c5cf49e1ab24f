# cython: language_level=3
"""Resources of rmm_rs as resources of RMM's. `rmm_rs_plugin` exports them."""

from cython.operator cimport dereference as deref
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp.memory cimport unique_ptr
from libcpp.optional cimport optional
from libcpp.string cimport string
from rmm.librmm.memory_resource cimport device_async_resource_ref
from rmm.pylibrmm.memory_resource cimport DeviceMemoryResource

import rmm_rs.mr
from rmm_rs.pylibrmm.helper import parse_bytes


cdef extern from "plugin.hpp" nogil:
    cppclass rmm_rs_resource:
        pass

    struct pool_statistics "rmm_rs_pool_statistics":
        uint64_t reserved_bytes
        uint64_t live_bytes
        uint64_t peak_reserved_bytes
        uint64_t peak_live_bytes
        uint64_t largest_free_bytes
        uint64_t allocations
        uint64_t deallocations
        uint64_t cached_allocations
        uint64_t lock_waits
        uint64_t flushes
        uint64_t flushed_blocks
        uint64_t spans
        uint64_t upstream_allocations
        uint64_t upstream_frees
        uint64_t events_recorded
        uint64_t event_queries
        uint64_t stream_waits
        uint64_t host_waits

    cppclass device_resource "rmm_rs_plugin::device_resource":
        device_resource(const device_resource& other)
        string describe() except +
        uint64_t trim(uint64_t keep) except +
        pool_statistics get_pool_statistics() except +

    device_resource* taken_from "rmm_rs_plugin::taken_from" (
        const rmm_rs_resource* owned) except +
    device_resource* null_resource "rmm_rs_plugin::null_resource" () except +
    device_resource* pool_over "rmm_rs_plugin::pool_over" (
        const device_resource& upstream,
        uint64_t initial_size,
        uint64_t maximum_size,
        uint32_t preset,
        uint32_t policy) except +
    void forget "rmm_rs_plugin::forget" (uintptr_t stream) except +
    void set_policy "rmm_rs_plugin::set_policy" (
        const device_resource& resource, uint32_t policy) except +
    # The type that RMM's declarations call `device_async_resource_ref`.
    optional[device_async_resource_ref] reference_to \
        "rmm_rs_plugin::reference_to<cython_device_async_resource_ref>" (
            device_resource& resource) except +

cdef extern from "plugin.hpp":
    int load "rmm_rs_plugin::load" () except -1
    const rmm_rs_resource* resource_of "rmm_rs_plugin::resource_of" (object) except NULL
    device_resource* upstream_of "rmm_rs_plugin::upstream_of" (
        device_async_resource_ref resource, object owner) except +
    void drain "rmm_rs_plugin::drain" () noexcept


load()

_PRESETS = {"throughput": 0, "compact": 1, "deterministic": 2, "low-latency": 3}
_POLICIES = {"checked": 0, "kept": 1}


def _number_of(str kind, dict known, name):
    """The number of an option's value."""
    number = known.get(name)
    if number is None:
        names = ", ".join(map(repr, known))
        raise ValueError(f"{name!r} is no {kind}: {names} are")
    return number


def _size_of(str which, size):
    """A size of a pool in bytes, refused as RMM refuses it."""
    size = parse_bytes(size)
    if size < 0 or size >= 2 ** 64:
        raise OverflowError(f"a pool of {size} bytes")
    if size % 256:
        raise RuntimeError(f"Error, {which} pool size required to be a multiple of 256 bytes")
    return size


cdef class RustMemoryResource(DeviceMemoryResource):
    """The base of the resources of this package. An instance of itself has no memory."""

    # Never null, so that RMM's reference to it is always valid, and never assigned to after
    # `__cinit__`: other threads may be using it.
    cdef unique_ptr[device_resource] c_obj
    cdef object _upstream_mr
    cdef object __weakref__

    def __cinit__(self, *args, **kwargs):
        self.c_obj.reset(null_resource())
        self.c_ref = reference_to(deref(self.c_obj))

    cdef hold(self, device_resource* resource):
        """Takes the resource over, in `__cinit__`."""
        self.c_ref.reset()
        self.c_obj.reset(resource)
        self.c_ref = reference_to(deref(self.c_obj))

    def __dealloc__(self):
        with nogil:
            self.c_ref.reset()
            self.c_obj.reset()
        drain()

    @property
    def upstream_mr(self):
        """The resource that this one takes its memory from. A resource without one has no such
        attribute, as in RMM."""
        if self._upstream_mr is None:
            raise AttributeError(f"{type(self).__name__} has no upstream_mr")
        return self._upstream_mr

    def get_upstream(self):
        """As the property `upstream_mr`."""
        return self.upstream_mr

    def statistics(self):
        """The counters of the pool, or of the first one below the resource, in bytes and numbers.

        Raises
        ------
        RuntimeError
            If there is no pool.
        """
        cdef pool_statistics figures
        with nogil:
            figures = deref(self.c_obj).get_pool_statistics()
        return {
            "allocations": figures.allocations,
            "frees": figures.deallocations,
            "live_bytes": figures.live_bytes,
            "peak_live_bytes": figures.peak_live_bytes,
            "reserved_bytes": figures.reserved_bytes,
            "peak_reserved_bytes": figures.peak_reserved_bytes,
            "largest_free_bytes": figures.largest_free_bytes,
            "cached_allocations": figures.cached_allocations,
            "lock_waits": figures.lock_waits,
            "flushes": figures.flushes,
            "flushed_blocks": figures.flushed_blocks,
            "spans": figures.spans,
            "upstream_allocations": figures.upstream_allocations,
            "upstream_frees": figures.upstream_frees,
            "events_recorded": figures.events_recorded,
            "event_queries": figures.event_queries,
            "stream_waits": figures.stream_waits,
            "host_waits": figures.host_waits,
        }

    def trim(self, uint64_t keep=0):
        """Returns memory that is not in use to the upstream, until no more than `keep` bytes are
        reserved, and returns how many bytes that were.

        Raises
        ------
        RuntimeError
            If nothing in the stack holds memory.
        """
        cdef uint64_t released
        with nogil:
            released = deref(self.c_obj).trim(keep)
        drain()
        return released

    def describe(self):
        """The resource and those below it as text, with their sizes and counters."""
        cdef string text
        with nogil:
            text = deref(self.c_obj).describe()
        return text.decode()

    def __repr__(self):
        first = self.describe().partition("\n")[0]
        return f"<{type(self).__name__}: {first or 'no memory'}>"


cdef class WrappedMemoryResource(RustMemoryResource):
    """A resource of rmm_rs as one of RMM's. `wrap` makes it."""

    cdef readonly object wrapped

    def __cinit__(self, mr, *, stream_policy="checked"):
        cdef uint32_t policy = _number_of("policy of streams", _POLICIES, stream_policy)
        self.hold(taken_from(resource_of(mr)))
        set_policy(deref(self.c_obj), policy)
        self.wrapped = mr
        upstream = getattr(mr, "upstream_mr", None)
        if upstream is not None:
            self._upstream_mr = WrappedMemoryResource(upstream, stream_policy=stream_policy)


cdef class PoolMemoryResource(RustMemoryResource):
    """The pool of rmm_rs as a resource of RMM's.

    Parameters
    ----------
    upstream_mr : DeviceMemoryResource, optional
        The resource of RMM's that the pool takes its memory from; the driver's memory, as
        ``cudaMalloc`` has it, by default.
    initial_pool_size : int or str, optional
        Bytes to reserve at once; half of the device's free memory by default, as in RMM.
    maximum_pool_size : int or str, optional
        The most bytes to reserve; no limit by default.
    preset : str
        What the pool puts first: "throughput", "low-latency", "compact" or "deterministic".
    stream_policy : str
        "checked", if a stream may be destroyed at any time: the driver is asked for its id at each
        use. "kept", if every stream that the pool sees lives to the end of the process, or is given
        to `forget_stream` before it is destroyed: nothing is asked. The driver can crash the process
        if one is not, at the latest when the pool ends; so it is wrong for streams that are
        destroyed with their objects, as CuPy's are. The default streams are known in either case.

    Raises
    ------
    MemoryError
        If the initial size cannot be reserved.
    RuntimeError
        If a size is not a multiple of 256, or the initial one exceeds the maximum.
    """

    def __cinit__(
        self,
        DeviceMemoryResource upstream_mr=None,
        initial_pool_size=None,
        maximum_pool_size=None,
        *,
        preset="throughput",
        stream_policy="checked",
    ):
        cdef uint32_t preset_number = _number_of("preset of a pool", _PRESETS, preset)
        cdef uint32_t policy = _number_of("policy of streams", _POLICIES, stream_policy)
        cdef uint64_t initial = 0
        cdef uint64_t maximum = 0
        cdef unique_ptr[device_resource] upstream
        cdef device_resource* pool
        if maximum_pool_size is not None:
            maximum = _size_of("Maximum", maximum_pool_size)
        if initial_pool_size is not None:
            initial = _size_of("Initial", initial_pool_size)
        else:
            initial = rmm_rs.mr.available_device_memory()[0] // 2 // 256 * 256
        if maximum_pool_size is not None and initial > maximum:
            raise RuntimeError("Initial pool size exceeds the maximum pool size")
        if upstream_mr is None:
            upstream_mr = WrappedMemoryResource(rmm_rs.mr.CudaMemoryResource())
        if isinstance(upstream_mr, RustMemoryResource):
            # The engine's own: nothing of RMM's lies between.
            upstream.reset(new device_resource(deref((<RustMemoryResource>upstream_mr).c_obj)))
        elif upstream_mr.c_ref.has_value():
            upstream.reset(upstream_of(upstream_mr.get_mr(), upstream_mr))
        else:
            raise RuntimeError("an instance of a base class of resources has no memory")
        with nogil:
            pool = pool_over(deref(upstream), initial, maximum, preset_number, policy)
            upstream.reset()
        self.hold(pool)
        self._upstream_mr = upstream_mr


def wrap(mr, *, stream_policy="checked"):
    """A resource of rmm_rs as one of RMM's, for ``rmm.mr.set_current_device_resource``, RMM's
    adaptors, and libraries that were compiled against RMM.

    Parameters
    ----------
    mr : rmm_rs.mr.DeviceMemoryResource
        The resource, which stays as it is for users of rmm_rs.
    stream_policy : str
        As for `PoolMemoryResource`.
    """
    return WrappedMemoryResource(mr, stream_policy=stream_policy)


def unwrap(mr):
    """The resource of rmm_rs that `wrap` was given.

    Raises
    ------
    TypeError
        If `wrap` has not made `mr`.
    """
    if not isinstance(mr, WrappedMemoryResource):
        raise TypeError(f"wrap() has not made this {type(mr).__name__}")
    return mr.wrapped


def forget_stream(stream):
    """Says that a stream is about to be destroyed which a resource with the policy "kept" was used
    with.

    Parameters
    ----------
    stream : object
        A stream of RMM's, or another object with ``__cuda_stream__``. One that is not known is no
        error.
    """
    cdef uintptr_t handle = stream.__cuda_stream__()[1]
    with nogil:
        forget(handle)
