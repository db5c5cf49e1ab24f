"""What `import rmm` finds where this folder is in `PYTHONPATH`: it installs the alias."""

import sys

# This module gives its place to the package.
del sys.modules["rmm"]

import rmm_rs.as_rmm  # noqa: E402, F401
