"""GPU memory for Python: RMM's interface on the engine of rmm-rs.

`import rmm_rs` needs no driver, no GPU and no CUDA package; asking for memory does.

========================  =========================================================
`rmm_rs.mr`               memory resources, and the current one of each device
`rmm_rs.DeviceBuffer`     memory of the device
`rmm_rs.ElasticBuffer`    memory that grows and shrinks in place
`rmm_rs.lease`            memory of an owner outside the process, which outlives it
`rmm_rs.statistics`       counters and a profiler
`rmm_rs.allocators`       for CuPy, Numba and PyTorch
`rmm_rs.as_rmm`           importing it makes `import rmm` mean this package
========================  =========================================================

Programs that were compiled against RMM, such as cuDF, need the real RMM: see `docs/python.md`.
"""

import atexit

from rmm_rs import _rmm, mr
from rmm_rs._version import __git_commit__ as __git_commit__, __version__ as __version__
from rmm_rs.mr import disable_logging, enable_logging, get_log_filenames
from rmm_rs.pylibrmm.device_buffer import DeviceBuffer
from rmm_rs.pylibrmm.logger import (
    flush_logger,
    get_flush_level,
    get_logging_level,
    level_enum,
    set_flush_level,
    set_logging_level,
    should_log,
)
from rmm_rs.rmm import (
    RMMError,
    is_initialized,
    register_reinitialize_hook,
    reinitialize,
    unregister_reinitialize_hook,
)

# RMM has these as attributes too once it is imported.
from rmm_rs import (  # isort: skip
    _cuda as _cuda,
    librmm as librmm,
    pylibrmm as pylibrmm,
    rmm as rmm,
    statistics as statistics,
)

# Not in RMM.
from rmm_rs._asleep import asleep as asleep  # isort: skip
from rmm_rs._default_pool import default_pool as default_pool  # isort: skip
from rmm_rs._report import report as report  # isort: skip
from rmm_rs._summary import memory_summary as memory_summary  # isort: skip
from rmm_rs._watch import _watch_if_asked, watch as watch  # isort: skip
from rmm_rs import _sharing as _sharing  # isort: skip
from rmm_rs._rmm import (  # isort: skip
    ElasticBuffer as ElasticBuffer,
    ImportedMemory as ImportedMemory,
    Piece as Piece,
    Pressure as Pressure,
    PressureCallback as PressureCallback,
    Remedy as Remedy,
    Segment as Segment,
    SegmentCallback as SegmentCallback,
    capture_scope as capture_scope,
    effort as effort,
    export as export,
    import_memory as import_memory,
    parse_bytes as parse_bytes,
    tag as tag,
    trim as trim,
)

__all__ = [
    "DeviceBuffer",
    "RMMError",
    "disable_logging",
    "enable_logging",
    "flush_logger",
    "get_flush_level",
    "get_log_filenames",
    "get_logging_level",
    "is_initialized",
    "level_enum",
    "mr",
    "register_reinitialize_hook",
    "reinitialize",
    "set_flush_level",
    "set_logging_level",
    "should_log",
    "unregister_reinitialize_hook",
]

# Logs are complete before the interpreter drops what modules hold.
atexit.register(_rmm._flush_all_logs)
_watch_if_asked()
