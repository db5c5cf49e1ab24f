"""Every module, class, function, signature and default that RMM has."""

from __future__ import annotations

import importlib
import inspect

import pytest

import rmm_rs
from rmm_rs import lease

MODULES = {
    "rmm_rs": """DeviceBuffer RMMError disable_logging enable_logging flush_logger get_flush_level
        get_log_filenames get_logging_level is_initialized level_enum mr register_reinitialize_hook
        reinitialize set_flush_level set_logging_level should_log unregister_reinitialize_hook""",
    "rmm_rs.mr": """ArenaMemoryResource BinningMemoryResource CallbackMemoryResource
        CudaAsyncMemoryResource CudaAsyncViewMemoryResource CudaMemoryResource DeviceMemoryResource
        FailureCallbackResourceAdaptor FixedSizeMemoryResource LimitingResourceAdaptor
        LoggingResourceAdaptor ManagedMemoryResource PinnedHostMemoryResource PoolMemoryResource
        PrefetchResourceAdaptor SamHeadroomMemoryResource StatisticsResourceAdaptor
        SystemMemoryResource TrackingResourceAdaptor UpstreamResourceAdaptor
        available_device_memory disable_logging enable_logging experimental
        get_current_device_resource get_log_filenames get_per_device_resource is_initialized
        set_current_device_resource set_per_device_resource""",
    "rmm_rs.mr.experimental": "CudaAsyncManagedMemoryResource",
    "rmm_rs.pylibrmm": "CudaStreamFlags CudaStreamPool DeviceBuffer memory_resource",
}

ATTRIBUTES = {
    "rmm_rs": "pylibrmm librmm statistics _cuda rmm __version__ __git_commit__",
    "rmm_rs.rmm": """RMMError is_initialized register_reinitialize_hook reinitialize
        unregister_reinitialize_hook""",
    "rmm_rs.pylibrmm": "stream cuda_stream_pool device_buffer logger helper utils",
    "rmm_rs.pylibrmm.memory_resource": "experimental _memory_resource",
    "rmm_rs.pylibrmm.memory_resource._memory_resource": "_initialize _flush_logs _append_id",
    "rmm_rs.pylibrmm.memory_resource.experimental": "CudaAsyncManagedMemoryResource",
    "rmm_rs.pylibrmm.stream": """CudaStreamFlags DEFAULT_STREAM LEGACY_DEFAULT_STREAM
        PER_THREAD_DEFAULT_STREAM Stream _OwningStream""",
    "rmm_rs.pylibrmm.cuda_stream_pool": "CudaStreamPool",
    "rmm_rs.pylibrmm.device_buffer": """DeviceBuffer copy_device_to_ptr copy_host_to_ptr
        copy_ptr_to_host to_device""",
    "rmm_rs.pylibrmm.helper": "parse_bytes",
    "rmm_rs.pylibrmm.utils": "as_stream",
    "rmm_rs.pylibrmm.logger": """flush_logger get_flush_level get_logging_level set_flush_level
        set_logging_level should_log level_enum""",
    "rmm_rs.librmm._logger": "level_enum",
    "rmm_rs.statistics": """ProfilerContext ProfilerRecords Statistics
        _get_descriptive_name_of_object default_profiler_records enable_statistics get_statistics
        pop_statistics profiler push_statistics statistics""",
    "rmm_rs._cuda.gpu": """CUDADriverError CUDARuntimeError deviceGetName driverGetVersion getDevice
        getDeviceAttribute getDeviceCount getDeviceProperties runtimeGetVersion setDevice""",
    "rmm_rs.allocators.cupy": "rmm_cupy_allocator",
    "rmm_rs.allocators.numba": "RMMNumbaManager _numba_memory_manager",
    "rmm_rs.allocators.torch": "rmm_torch_allocator",
}

# `...` stands for the default stream.
SIGNATURES = {
    "rmm.reinitialize": """(pool_allocator=False, managed_memory=False, initial_pool_size=None,
        maximum_pool_size=None, devices=0, logging=False, log_file_name=None)""",
    "rmm.register_reinitialize_hook": "(func, *args, **kwargs)",
    "rmm.unregister_reinitialize_hook": "(func)",
    "rmm.is_initialized": "()",
    "mr.get_per_device_resource": "(device)",
    "mr.set_per_device_resource": "(device, mr)",
    "mr.get_current_device_resource": "()",
    "mr.set_current_device_resource": "(mr)",
    "mr.enable_logging": "(log_file_name=None)",
    "mr.disable_logging": "()",
    "mr.get_log_filenames": "()",
    "mr.available_device_memory": "()",
    "mr.DeviceMemoryResource.allocate": "(self, nbytes, stream=...)",
    "mr.DeviceMemoryResource.deallocate": "(self, ptr, nbytes, stream=...)",
    "mr.UpstreamResourceAdaptor.get_upstream": "(self)",
    "mr.CudaMemoryResource": "()",
    "mr.ManagedMemoryResource": "()",
    "mr.SystemMemoryResource": "()",
    "mr.PinnedHostMemoryResource": "()",
    "mr.CudaAsyncMemoryResource": """(initial_pool_size=None, release_threshold=None,
        enable_ipc=False, enable_fabric=False)""",
    "mr.CudaAsyncViewMemoryResource": "(pool_handle)",
    "mr.experimental.CudaAsyncManagedMemoryResource": "()",
    "mr.SamHeadroomMemoryResource": "(headroom)",
    "mr.PoolMemoryResource": """(upstream_mr, initial_pool_size=None, maximum_pool_size=None, *,
        preset=None, release=None, soft_maximum_size=None, release_after=None,
        clear_blocks=False, check_frees=False, for_graphs=False, segment_size=None,
        single_handle=False, pinned_segments=False, name=None, oom_report=None)""",
    "mr.PoolMemoryResource.pool_size": "(self)",
    "mr.ArenaMemoryResource": "(upstream_mr, arena_size=None, dump_log_on_failure=False)",
    "mr.FixedSizeMemoryResource": """(upstream_mr, block_size=1048576,
        blocks_to_preallocate=128)""",
    "mr.BinningMemoryResource": "(upstream_mr, min_size_exponent=-1, max_size_exponent=-1)",
    "mr.BinningMemoryResource.add_bin": "(self, allocation_size, bin_resource=None)",
    "mr.CallbackMemoryResource": "(allocate_func, deallocate_func)",
    "mr.LimitingResourceAdaptor": "(upstream_mr, allocation_limit)",
    "mr.LoggingResourceAdaptor": "(upstream_mr, log_file_name=None, *, columns=())",
    "mr.StatisticsResourceAdaptor": "(upstream_mr)",
    "mr.TrackingResourceAdaptor": "(upstream_mr, capture_stacks=False)",
    "mr.FailureCallbackResourceAdaptor": "(upstream_mr, callback)",
    "mr.PrefetchResourceAdaptor": "(upstream_mr)",
    "DeviceBuffer": "(*, ptr=0, size=0, stream=..., mr=None)",
    "DeviceBuffer.reserve": "(self, new_capacity, stream=...)",
    "DeviceBuffer.resize": "(self, new_size, stream=...)",
    "DeviceBuffer.capacity": "(self)",
    "DeviceBuffer.tobytes": "(self, stream=...)",
    "DeviceBuffer.copy_to_host": "(self, ary=None, stream=...)",
    "DeviceBuffer.copy_from_host": "(self, ary, stream=...)",
    "DeviceBuffer.copy_from_device": "(self, cuda_ary, stream=...)",
    "DeviceBuffer.to_device": "(b, stream=...)",
    "DeviceBuffer.copy": "(self)",
    "DeviceBuffer.prefetch": "(self, device=None, stream=None)",
    "pylibrmm.device_buffer.to_device": "(b, stream=...)",
    "pylibrmm.device_buffer.copy_ptr_to_host": "(db, hb, stream=...)",
    "pylibrmm.device_buffer.copy_host_to_ptr": "(hb, db, stream=...)",
    "pylibrmm.device_buffer.copy_device_to_ptr": "(d_src, d_dst, count, stream=...)",
    "pylibrmm.stream.Stream": "(obj=None, flags=None)",
    "pylibrmm.stream.Stream.synchronize": "(self)",
    "pylibrmm.stream.Stream.is_default": "(self)",
    "pylibrmm.CudaStreamPool.get_stream": "(self, stream_id=None)",
    "pylibrmm.CudaStreamPool.get_pool_size": "(self)",
    "pylibrmm.helper.parse_bytes": "(s)",
    "pylibrmm.memory_resource._memory_resource._append_id": "(filename, id)",
    "statistics.profiler": None,
    "statistics.ProfilerRecords.report": "(self, ordered_by='memory_peak')",
    "_cuda.gpu.getDeviceAttribute": "(attr, device)",
    "_cuda.gpu.setDevice": "(device)",
}

PLAIN = """CudaMemoryResource ManagedMemoryResource SystemMemoryResource PinnedHostMemoryResource
    CudaAsyncMemoryResource CudaAsyncViewMemoryResource SamHeadroomMemoryResource
    CallbackMemoryResource """
ADAPTORS = """PoolMemoryResource ArenaMemoryResource FixedSizeMemoryResource BinningMemoryResource
    LimitingResourceAdaptor LoggingResourceAdaptor StatisticsResourceAdaptor
    TrackingResourceAdaptor FailureCallbackResourceAdaptor PrefetchResourceAdaptor"""


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_rmms_names_as_its_all(module: str) -> None:
    found = importlib.import_module(module)
    assert sorted(found.__all__) == sorted(MODULES[module].split())
    assert all(hasattr(found, name) for name in found.__all__)


@pytest.mark.parametrize("module", ATTRIBUTES)
def test_a_module_has_rmms_attributes(module: str) -> None:
    found = importlib.import_module(module)
    missing = [name for name in ATTRIBUTES[module].split() if not hasattr(found, name)]
    assert missing == []


def _plain(signature: inspect.Signature) -> str:
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    bare = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return str(bare).replace("Ellipsis", "...").replace("/, ", "").replace(", /", "").replace("/", "")


@pytest.mark.parametrize("name", [name for name, text in SIGNATURES.items() if text])
def test_a_function_has_rmms_signature(name: str) -> None:
    found: object = rmm_rs
    for part in name.split("."):
        found = getattr(found, part)
    expected = " ".join((SIGNATURES[name] or "").split())
    assert _plain(inspect.signature(found)) == expected  # type: ignore[arg-type]


def test_classes_have_rmms_bases() -> None:
    mr = rmm_rs.mr
    for name in PLAIN.split():
        assert getattr(mr, name).__bases__ == (mr.DeviceMemoryResource,)
        assert not hasattr(getattr(mr, name), "upstream_mr")
    for name in ADAPTORS.split():
        assert getattr(mr, name).__bases__ == (mr.UpstreamResourceAdaptor,)
    assert mr.UpstreamResourceAdaptor.__bases__ == (mr.DeviceMemoryResource,)
    assert mr.experimental.CudaAsyncManagedMemoryResource.__bases__ == (mr.DeviceMemoryResource,)


def test_classes_say_the_module_that_rmm_has_them_in() -> None:
    inside = "rmm_rs.pylibrmm.memory_resource._memory_resource"
    assert {getattr(rmm_rs.mr, name).__module__ for name in (PLAIN + ADAPTORS).split()} == {inside}
    assert rmm_rs.DeviceBuffer.__module__ == "rmm_rs.pylibrmm.device_buffer"
    assert rmm_rs.pylibrmm.stream.Stream.__module__ == "rmm_rs.pylibrmm.stream"


def test_each_class_of_resources_is_where_programs_import_it_from(
    resource_classes: dict[str, type[rmm_rs.mr.DeviceMemoryResource]],
) -> None:
    for name in resource_classes:
        modules = (rmm_rs.mr, rmm_rs.mr.experimental, lease)
        assert any(hasattr(module, name) for module in modules), name


@pytest.mark.parametrize("name", (PLAIN + ADAPTORS).split())
def test_a_resource_class_can_be_derived_from(name: str) -> None:
    base = getattr(rmm_rs.mr, name)
    assert issubclass(type("Derived", (base,), {}), base)


def test_level_enum_has_rmms_numbers() -> None:
    names = "trace debug info warn error critical off n_levels".split()
    assert {level.name: level.value for level in rmm_rs.level_enum} == {
        name: number for number, name in enumerate(names)
    }
    assert rmm_rs.get_logging_level() is rmm_rs.level_enum.info
    assert rmm_rs.get_flush_level() is rmm_rs.level_enum.off


def test_an_rmm_error_has_a_code() -> None:
    error = rmm_rs.RMMError(3, "text")
    assert (error.errcode, str(error)) == (3, "text")
