"""A process whose end fails, when all tests have passed."""

import atexit
import os

atexit.register(os._exit, 3)


def test_passes():
    assert True
