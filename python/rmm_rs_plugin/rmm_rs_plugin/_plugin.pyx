# cython: language_level=3
"""Resources of rmm_rs as resources of RMM's. `rmm_rs_plugin` exports them."""

from cpython.ref cimport PyObject
from cython.operator cimport dereference as deref
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp.memory cimport unique_ptr
from libcpp.optional cimport optional
from libcpp.string cimport string
from rmm.librmm.memory_resource cimport device_async_resource_ref
from rmm.pylibrmm.memory_resource cimport DeviceMemoryResource

import atexit
import operator
import weakref

import rmm_rs.mr
from rmm_rs.pylibrmm.helper import parse_bytes
from rmm_rs_plugin._pressure import Pressure


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

    cppclass deferred_resource "rmm_rs_plugin::deferred_resource":
        deferred_resource(string spec, uint32_t policy) except +
        const device_resource* made()

    optional[device_async_resource_ref] reference_to_deferred \
        "rmm_rs_plugin::reference_to<cython_device_async_resource_ref>" (
            deferred_resource& resource) except +

    cppclass pressure_callback "rmm_rs::pressure_callback":
        pass

    void passed "rmm_rs_plugin::entrance::passed" () noexcept

cdef extern from "plugin.hpp":
    int load "rmm_rs_plugin::load" () except -1
    const rmm_rs_resource* resource_of "rmm_rs_plugin::resource_of" (object) except NULL
    device_resource* upstream_of "rmm_rs_plugin::upstream_of" (
        device_async_resource_ref resource, object owner) except +
    void drain "rmm_rs_plugin::drain" () noexcept
    void close_entrance "rmm_rs_plugin::entrance::close" () noexcept
    ctypedef int (*pressure_function "rmm_rs_plugin::pressure_function")(
        PyObject* weak, uint64_t requested, uint64_t missing) noexcept
    pressure_callback* on_pressure "rmm_rs_plugin::on_pressure" (
        const device_resource& resource, PyObject* weak, pressure_function function) except +


load()


def _close_entrance():
    """From now on no callback begins."""
    close_entrance()


_PRESETS = {"throughput": 0, "compact": 1, "deterministic": 2, "low-latency": 3}
_POLICIES = {"checked": 0, "kept": 1}


def _number_of(str option, str kind, dict known, name):
    """The number of an option's value."""
    if not isinstance(name, str):
        raise TypeError(f"{option}: {name!r} is no {kind}, which is text")
    number = known.get(name)
    if number is None:
        names = ", ".join(map(repr, known))
        raise ValueError(f"{option}: {name!r} is no {kind}: {names} are")
    return number


def _preset_of(preset):
    """The number of the option `preset`."""
    return _number_of("preset", "preset of a pool", _PRESETS, preset)


def _policy_of(stream_policy):
    """The number of the option `stream_policy`."""
    return _number_of("stream_policy", "policy of streams", _POLICIES, stream_policy)


def _size_of(str which, size):
    """A size of a pool in bytes, refused as RMM refuses it."""
    size = parse_bytes(size)
    if size < 0 or size >= 2 ** 64:
        raise OverflowError(f"a pool of {size} bytes")
    if size % 256:
        raise RuntimeError(f"Error, {which} pool size required to be a multiple of 256 bytes")
    return size


def _bytes_of(str option, size):
    """A number of bytes or its text, as a file of settings has it; errors name the option."""
    if isinstance(size, str):
        try:
            number = parse_bytes(size)
        except ValueError as error:
            raise ValueError(f"{option}: {error}") from None
    elif isinstance(size, bool) or not hasattr(size, "__index__"):
        raise TypeError(f'{option}: a number of bytes or a text such as "60GiB", not {size!r}')
    else:
        number = operator.index(size)
    if number < 0 or number >= 2 ** 64:
        raise ValueError(f"{option}: {size!r} is no number of bytes")
    if number % 256:
        raise ValueError(f"{option}: {size!r} is no multiple of 256 bytes")
    return number


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

    cdef const device_resource* used(self) noexcept:
        """What counts, trims and describes: as long as this object."""
        return self.c_obj.get()

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
        cdef const device_resource* used = self.used()
        with nogil:
            figures = deref(used).get_pool_statistics()
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
        cdef const device_resource* used = self.used()
        with nogil:
            released = deref(used).trim(keep)
        drain()
        return released

    def describe(self):
        """The resource and those below it as text, with their sizes and counters."""
        cdef string text
        cdef const device_resource* used = self.used()
        with nogil:
            text = deref(used).describe()
        return text.decode()

    def on_pressure(self, callback):
        """Calls `callback` with a `Pressure` when a request of the pool, or of the first one below
        the resource, is about to fail for lack of memory, after everything else was tried. If it
        returns true the request is tried again. Keep the object that is returned.

        It is called on the thread of the request, which holds no lock of the pool. What it raises
        goes to ``sys.unraisablehook``, and counts as false.

        Raises
        ------
        RuntimeError
            If there is no pool.
        """
        return PressureCallback(self, callback)

    def __repr__(self):
        first = self.describe().partition("\n")[0]
        return f"<{type(self).__name__}: {first or 'no memory'}>"


cdef class PressureCallback:
    """Keeps a callback of `RustMemoryResource.on_pressure` registered: until `remove` is called, the
    end of a `with` block, or until this object is gone."""

    cdef unique_ptr[pressure_callback] c_obj
    cdef object callback
    cdef object __weakref__

    def __cinit__(self, RustMemoryResource mr, callback):
        if mr is None or not callable(callback):
            raise TypeError(f"{type(callback).__name__} is no function")
        self.callback = callback
        # The engine has a weak reference alone, which the garbage collector clears first.
        weak = weakref.ref(self)
        self.c_obj.reset(on_pressure(deref(mr.used()), <PyObject*>weak, &_call_on_pressure))

    def __dealloc__(self):
        with nogil:
            self.c_obj.reset()
        drain()

    def remove(self):
        """Removes the callback. A call that another thread has begun may go on."""
        cdef unique_ptr[pressure_callback] taken
        taken.swap(self.c_obj)
        with nogil:
            taken.reset()
        drain()

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.remove()


cdef int _call_on_pressure(PyObject* weak, uint64_t requested, uint64_t missing) noexcept with gil:
    """What the engine calls, on any thread, with Python's lock or without."""
    passed()
    cdef PressureCallback owner = (<object>weak)()
    if owner is None:
        return 0
    return 1 if owner.callback(Pressure(requested, missing)) else 0


# Before the threads of the interpreter end.
atexit.register(_close_entrance)


cdef class WrappedMemoryResource(RustMemoryResource):
    """A resource of rmm_rs as one of RMM's. `wrap` makes it."""

    cdef readonly object wrapped

    def __cinit__(self, mr, *, stream_policy="checked"):
        cdef uint32_t policy = _policy_of(stream_policy)
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
        cdef uint32_t preset_number = _preset_of(preset)
        cdef uint32_t policy = _policy_of(stream_policy)
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


cdef class DefaultPoolMemoryResource(RustMemoryResource):
    """The pool to begin with, for programs that name a class and its options in a file or a
    variable: over virtual memory where the current device has it, and else over ``cudaMalloc``.

    Parameters
    ----------
    initial_pool_size : int or str
        Bytes to reserve at once, such as "8GiB"; none by default.
    maximum_pool_size : int or str, optional
        The most bytes to reserve; no limit by default.
    preset : str
        What the pool puts first: "throughput", "low-latency", "compact" or "deterministic".
    stream_policy : str
        As for `PoolMemoryResource`. "checked", the default, is right for engines, whose streams end
        with their contexts.

    Raises
    ------
    TypeError, ValueError
        If an option is unknown or wrong: the text names it.
    MemoryError
        If the initial size cannot be reserved.
    """

    cdef readonly object wrapped
    cdef tuple _arguments

    def __cinit__(
        self,
        initial_pool_size=0,
        maximum_pool_size=None,
        *,
        preset="throughput",
        stream_policy="checked",
    ):
        cdef uint32_t policy = _policy_of(stream_policy)
        _preset_of(preset)
        initial = _bytes_of("initial_pool_size", initial_pool_size)
        maximum = None
        if maximum_pool_size is not None:
            maximum = _bytes_of("maximum_pool_size", maximum_pool_size)
            if maximum == 0:
                raise ValueError("maximum_pool_size: a pool of 0 bytes")
            if initial > maximum:
                raise ValueError("initial_pool_size: more than maximum_pool_size")
        base = rmm_rs.mr.BackingMemoryResource()
        self.wrapped = rmm_rs.mr.PoolMemoryResource(base, initial, maximum, preset=preset)
        self.hold(taken_from(resource_of(self.wrapped)))
        set_policy(deref(self.c_obj), policy)
        self._arguments = (initial, maximum, preset, stream_policy)

    def __reduce__(self):
        # Another pool with these options, of the device that is current where it is loaded.
        return _default_pool, (type(self), *self._arguments)


def _default_pool(cls, initial, maximum, preset, stream_policy):
    """The pool of a pickle."""
    return cls(initial, maximum, preset=preset, stream_policy=stream_policy)


cdef class SpecMemoryResource(RustMemoryResource):
    """A stack of resources from a line of text, such as ``"statistics(pool(max=8GiB))"``.

    Parameters
    ----------
    spec : str
        The text, as for `rmm_rs.mr.SpecMemoryResource`.
    stream_policy : str
        As for `PoolMemoryResource`.

    Raises
    ------
    ValueError
        If the text is no specification: the error shows the place.
    """

    cdef readonly object wrapped
    cdef readonly str spec
    cdef str _stream_policy

    def __cinit__(self, spec, *, stream_policy="checked"):
        cdef uint32_t policy = _policy_of(stream_policy)
        self.wrapped = rmm_rs.mr.SpecMemoryResource(_spec_of(spec))
        self.hold(taken_from(resource_of(self.wrapped)))
        set_policy(deref(self.c_obj), policy)
        self.spec = spec
        self._stream_policy = stream_policy

    def __reduce__(self):
        return _spec, (type(self), self.spec, self._stream_policy)


def _spec(cls, spec, stream_policy):
    """The resource of a pickle."""
    return cls(spec, stream_policy=stream_policy)


def _spec_of(spec):
    """A specification that can be read; errors name the option."""
    if not isinstance(spec, str):
        raise TypeError(f'spec: a text such as "pool(max=8GiB)", not {spec!r}')
    try:
        rmm_rs._rmm._check_spec(spec)
    except ValueError as error:
        raise ValueError(f"spec: {error}") from None
    return spec


cdef class DeferredMemoryResource(RustMemoryResource):
    """A stack of resources from a line of text that is made at the first request, of the device that
    is current then: for processes whose device is not known yet. `install_deferred` sets it.

    Until then it asks no driver, and has no memory. If it cannot be made the request fails, and the
    next one tries again. The parameters are those of `SpecMemoryResource`.
    """

    cdef unique_ptr[deferred_resource] deferred
    cdef readonly str spec

    def __cinit__(self, spec, *, stream_policy="checked"):
        cdef uint32_t policy = _policy_of(stream_policy)
        self.spec = _spec_of(spec)
        self.deferred.reset(new deferred_resource(self.spec.encode(), policy))
        self.c_ref.reset()
        self.c_ref = reference_to_deferred(deref(self.deferred))

    cdef const device_resource* used(self) noexcept:
        cdef const device_resource* made = deref(self.deferred).made()
        if made == NULL:
            return self.c_obj.get()
        return made

    def __dealloc__(self):
        with nogil:
            self.c_ref.reset()
            self.deferred.reset()

    def __repr__(self):
        if deref(self.deferred).made() == NULL:
            return f"<{type(self).__name__}: {self.spec}, not made yet>"
        return RustMemoryResource.__repr__(self)


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
    """The resource of rmm_rs that `wrap` was given, or that a `DefaultPoolMemoryResource` or
    `SpecMemoryResource` is.

    Raises
    ------
    TypeError
        If `mr` is none of these.
    """
    if not isinstance(mr, (WrappedMemoryResource, DefaultPoolMemoryResource, SpecMemoryResource)):
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
