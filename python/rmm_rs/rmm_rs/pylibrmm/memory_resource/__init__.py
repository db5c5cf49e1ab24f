"""Memory resources, at the place where RMM has its compiled ones."""

from rmm_rs.pylibrmm.memory_resource._memory_resource import *  # noqa: F403
from rmm_rs.pylibrmm.memory_resource._memory_resource import __all__ as __all__
