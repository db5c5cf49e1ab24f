"""Memory resources whose interface may change."""

from rmm_rs.pylibrmm.memory_resource.experimental import *  # noqa: F403
from rmm_rs.pylibrmm.memory_resource.experimental import __all__ as __all__
