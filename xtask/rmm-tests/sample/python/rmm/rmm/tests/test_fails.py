"""Tests that fail, each in its way, and those after them."""

import os
from threading import Event

import pytest

import rmm


def test_passes():
    assert rmm.DeviceBuffer(size=1).size == 1


def test_assertion():
    assert rmm.DeviceBuffer(size=1).size == 2


def test_crash():
    os.abort()


@pytest.fixture
def broken_at_the_end():
    yield
    raise RuntimeError("at the end")


@pytest.mark.parametrize("text", ["a/b::c"])
def test_teardown(text, broken_at_the_end):
    assert text


def test_no_end():
    Event().wait()


def test_skipped():
    pytest.skip("for a reason")


@pytest.mark.xfail(reason="for another")
def test_known():
    raise RuntimeError


def test_passes_too():
    assert "a test after those" and __name__.endswith("test_fails")
