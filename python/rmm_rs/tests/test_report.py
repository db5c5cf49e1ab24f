"""Pages that show memory."""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

import pytest

import rmm_rs
from rmm_rs import DeviceBuffer, mr


def visible(page: Path) -> str:
    """The text of a page, without its markup, script and data."""
    text = re.sub(r"(?s)<(script|style)\b.*?</\1>", " ", page.read_text())
    return re.sub(r"<[^>]*>", " ", text)


def test_a_page_shows_a_stack_and_its_pools_heap(tmp_path: Path) -> None:
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "4MiB")
    top = mr.StatisticsResourceAdaptor(pool)
    kept = [DeviceBuffer(size=1 << 20, mr=top) for _ in range(3)]
    page = rmm_rs.report(top, tmp_path / "page.html")
    assert page == tmp_path / "page.html"
    text = visible(page)
    assert "StatisticsResourceAdaptor" in text and "statistics" in text and "cuda" in text
    assert "Of 4.0 MiB held, 75 % were live" in text
    assert "script-src 'sha256-" in page.read_text()
    del kept


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = DeviceBuffer(size=1000)
    page = rmm_rs.report(path=tmp_path / "page.html")
    shown = page._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"')
    assert "<script" not in shown and "&lt;script" in shown

    class Shell:
        kernel = object()

    class IPython:
        @staticmethod
        def get_ipython() -> Shell:
            return Shell()

    monkeypatch.setitem(sys.modules, "IPython", IPython)
    monkeypatch.setattr("webbrowser.open", lambda _: pytest.fail("a browser in a notebook"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert rmm_rs.report().parent == tmp_path
    del kept


def test_without_a_path_a_browser_opens_the_current_resources_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mr.set_current_device_resource(mr.ManagedMemoryResource())
    page = rmm_rs.report()
    assert opened == [page.as_uri()] and page.parent == tmp_path
    assert "ManagedMemoryResource" in visible(page)


def test_a_recorded_log_is_replayed(tmp_path: Path) -> None:
    rmm_rs.enable_logging(tmp_path / "log.csv")
    kept = [DeviceBuffer(size=size) for size in (1000, 5000, 100_000)]
    del kept
    rmm_rs.disable_logging()
    (log,) = tmp_path.glob("*.csv")
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    for source in (log, str(packed)):
        page = rmm_rs.report(source, tmp_path / "page.html", resources=["pool", "cuda"])
        text = visible(page)
        assert "6 events, 1 thread, 1 stream" in text
        assert "pool" in text and "cuda" in text and "Does memory grow" in text
    text = visible(rmm_rs.report(log, tmp_path / "page.html", resources=()))
    assert "Read from allocation logs" in text and "103.8 KiB in 3 blocks, at event 3" in text


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with pytest.raises(OSError, match="nowhere"):
        rmm_rs.report(tmp_path / "nowhere.csv", page)
    log = tmp_path / "log.csv"
    log.write_text("no log\n")
    with pytest.raises(ValueError, match="log.csv"):
        rmm_rs.report(log, page)
    log.write_text("Thread,Time,Action,Pointer,Size,Stream\n")
    with pytest.raises(ValueError, match="pol"):
        rmm_rs.report(log, page, resources="pol")
    with pytest.raises(ValueError, match="at least once"):
        rmm_rs.report(log, page, repeat=0)
    assert not page.exists()


def test_a_resource_shows_itself_as_text_and_html() -> None:
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB", "64MiB")
    top = mr.StatisticsResourceAdaptor(pool)
    kept = DeviceBuffer(size=1000, mr=top)
    assert "live 1.0 KiB" in repr(pool) and "reserved 1.0 MiB" in repr(pool)
    assert [line.split(":")[0].strip(" └─") for line in top.describe().splitlines()] == [
        "statistics", "pool", "cuda"
    ]
    page = top._repr_html_()
    assert page.startswith("<table>") and page.count("<tr>") == 3
    assert "reserved: <b>1.0 MiB</b>" in page

    class Odd(mr.CudaMemoryResource):
        pass

    Odd.__name__ = "<b>&"
    assert "&lt;b&gt;&amp;" in Odd()._repr_html_()
    del kept
