"""Memory resources, and the current one of each device."""

from rmm_rs.pylibrmm.memory_resource._beyond_rmm import *  # noqa: F403
from rmm_rs.pylibrmm.memory_resource._memory_resource import *  # noqa: F403
from rmm_rs.pylibrmm.memory_resource._memory_resource import __all__ as __all__

# The import sets `mr.experimental` to this package's own, not to that of the package above.
import rmm_rs.mr.experimental as _experimental  # noqa: E402, F401  isort: skip
