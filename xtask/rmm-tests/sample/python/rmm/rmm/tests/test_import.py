"""A file that cannot be imported."""

import rmm.no_such_module
