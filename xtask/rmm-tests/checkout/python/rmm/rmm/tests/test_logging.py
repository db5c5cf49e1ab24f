"""The log of allocations, and the debug log."""

import csv
import warnings

import pytest

import rmm

from .support import DTYPES, SIZES, round_trip

COLUMNS = ["Thread", "Time", "Action", "Pointer", "Size", "Stream"]
LEVELS = [level for level in rmm.level_enum if level != rmm.level_enum.n_levels]


@pytest.fixture
def levels_again():
    before = rmm.get_logging_level(), rmm.get_flush_level()
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rmm.set_logging_level(before[0])
        rmm.set_flush_level(before[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_a_log_of_every_device(dtype, size, tmp_path):
    path = tmp_path / "rmm.csv"
    rmm.reinitialize(devices=0, logging=True, log_file_name=str(path))
    round_trip(dtype, size)
    rmm.mr.get_current_device_resource().flush()
    (name,) = rmm.get_log_filenames().values()
    assert name == str(tmp_path / "rmm.dev0.csv")
    with open(name, encoding="utf-8") as file:
        lines = list(csv.reader(file))
    assert lines[0] == COLUMNS
    actions = [line[2] for line in lines[1:]]
    assert actions.count("allocate") == 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_logging_is_switched_on_and_off(dtype, size, tmp_path):
    path = str(tmp_path / "rmm.csv")
    rmm.enable_logging(log_file_name=path)
    assert type(rmm.mr.get_current_device_resource()) is rmm.mr.LoggingResourceAdaptor
    round_trip(dtype, size)
    rmm.disable_logging()
    assert set(rmm.get_log_filenames().values()) == {None}
    round_trip(dtype, size)
    with open(tmp_path / "rmm.dev0.csv", encoding="utf-8") as file:
        assert len(file.read().splitlines()) >= 3


def test_the_file_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("RMM_LOG_FILE", str(tmp_path / "rmm.log.txt"))
    rmm.enable_logging()
    assert rmm.get_log_filenames()[0] == str(tmp_path / "rmm.log.dev0.txt")
    rmm.disable_logging()


def test_no_file(monkeypatch):
    monkeypatch.delenv("RMM_LOG_FILE", raising=False)
    with pytest.raises(ValueError):
        rmm.mr.LoggingResourceAdaptor(rmm.mr.CudaMemoryResource())


@pytest.mark.parametrize("level", LEVELS)
def test_levels(level, levels_again):
    rmm.set_logging_level(rmm.level_enum.trace)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        rmm.set_logging_level(level)
    assert rmm.get_logging_level() == level
    assert rmm.should_log(level)
    for other in LEVELS:
        assert rmm.should_log(other) == (other >= level)


@pytest.mark.parametrize("level", [rmm.level_enum.trace, rmm.level_enum.debug])
def test_a_flush_level_that_is_not_logged(level, levels_again):
    with pytest.warns(UserWarning, match=f"RMM will not log level_enum.{level.name}"):
        rmm.set_flush_level(level)
    assert rmm.get_flush_level() == level
    rmm.flush_logger()


@pytest.mark.parametrize("wrong", [3, "INFO", None])
@pytest.mark.parametrize("call", [rmm.set_logging_level, rmm.set_flush_level, rmm.should_log])
def test_levels_are_of_the_enumeration(call, wrong, levels_again):
    with pytest.raises(TypeError):
        call(wrong)
