"""The answers on the pages of planted programs, compared with what the programs counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

import programs
from programs import MIB, aligned


def answer(page: Page, question: str, index: int = 0) -> str:
    return page.locator(".card", has_text=question).nth(index).locator(".short").inner_text()


def shown(size: int) -> str:
    """A size as the page has it."""
    for unit, name, places in ((1 << 30, "GiB", 2), (MIB, "MiB", 1), (1024, "KiB", 1)):
        if size >= unit:
            return f"{size / unit:,.{places}f} {name}"
    return f"{size} B"


PEAK, FAILED, GROWS = "What was the peak", "Which request failed", "Does memory grow"
LOST, SETTINGS, CHANGED = "Leak or fragmentation", "Which pool", "What changed"


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_the_answers_need_no_script(tmp_path, report, show, browser, script) -> None:
    program = programs.leak_freed_at_exit(tmp_path / "leak.csv")
    path = report(program.path)
    page = show(path) if script else browser.new_page(java_script_enabled=False)
    if not script:
        page.goto(path.as_uri())
    assert answer(page, PEAK).startswith(f"{shown(program.peak)} in ")
    assert f"at event {program.peak_event:,}" in answer(page, PEAK)
    assert page.locator(".card").count() == 6
    if not script:
        page.close()


def test_a_leak_that_is_freed_at_exit_grows(tmp_path, report, show) -> None:
    program = programs.leak_freed_at_exit(tmp_path / "leak.csv", steps=200)
    page = show(report(program.path))
    text = answer(page, GROWS)
    assert text.startswith("Yes, by ") and "cache, though all of it is freed at the end" in text
    # Five of eight windows lie between the first and the last that are compared.
    grown = float(text.split("by ")[1].split(" MiB")[0]) * MIB
    assert abs(grown - 200 * 5 / 8 * aligned(100_000)) < 3 * aligned(100_000)
    assert answer(page, FAILED) == "None failed."
    assert "Nothing is left at the end." in answer(page, LOST)


def test_fragmentation_is_told(tmp_path, report, rmm, show) -> None:
    program = programs.fragmented(tmp_path / "fragmented.csv")
    page = show(report(program.path))
    # The peak is with the large block: 364 MiB live, and every second of 128 pieces is a hole.
    assert f"{shown(program.peak)} in 65 blocks" in answer(page, PEAK)
    assert answer(page, LOST).startswith("Fragmentation: 64.0 MiB are free memory between live blocks")
    replayed = tmp_path / "replayed.html"
    rmm("replay", program.path, "--device", "sim", "--repeat", "1", "--resource", "pool-cuda", "--html", replayed)
    page = show(replayed)
    assert answer(page, LOST).startswith("Fragmentation: ")


def test_one_short_spike_is_a_spike(tmp_path, report, show) -> None:
    program = programs.spike(tmp_path / "spike.csv")
    text = answer(show(report(program.path)), PEAK)
    assert text.startswith(f"{shown(program.peak)} in 1 block, at event {program.peak_event:,}")
    assert "short spike: only 1 event comes within a tenth" in text
    assert "held by spike (100 %)" in text


def test_two_tags_have_their_shares(tmp_path, report, show) -> None:
    program = programs.failure(tmp_path / "two.csv")
    page = show(report(program.path))
    card = page.locator(".card", has_text=PEAK)
    card.locator("summary").click()
    rows = {row.locator("th").inner_text(): row.locator("td").first.inner_text() for row in card.locator("tr").all()}
    assert rows["weights"] == shown(80 * MIB) and rows["steps"] == shown(10 * MIB)


def test_the_first_failure_is_named_with_what_there_was(tmp_path, report, show) -> None:
    program = programs.failure(tmp_path / "failure.csv")
    event, size = program.failures[0]
    page = show(report(program.path))
    text = answer(page, FAILED)
    assert text.startswith(f"The first was {shown(size)}, at event {event:,}")
    assert "by batch, from c.py:3 more; 2 failed in all." in text
    assert f"it makes {shown(80 * MIB + size)}" in text
    assert page.locator("#moment-place").inner_text().startswith(f"Event {event:,}")


def test_a_failure_in_a_replay_says_what_would_have_let_it_succeed(tmp_path, rmm, show) -> None:
    program = programs.fragmented(tmp_path / "fragmented.csv")
    path = tmp_path / "replayed.html"
    resource = "pool(cuda, max=400MiB)"
    rmm("replay", program.path, "--device", "sim", "--repeat", "1", "--resource", resource, "--html", path)
    page = show(path)
    text = answer(page, FAILED)
    assert text.startswith("The first was 300.0 MiB") and "30.0 MiB more memory, a limit of 430.0 MiB" in text
    # The cursor is at the failure, where the pool was asked for what addresses do not tell.
    counted = page.locator(".moment tr", has_text="waits for stream 0x7")
    assert "64.0 MiB" in counted.inner_text()
    page.locator("#cursor").press("p")
    assert counted.count() == 0


def test_two_versions_are_compared(tmp_path, report, show) -> None:
    before = programs.leak_freed_at_exit(tmp_path / "before.csv")
    after = programs.leak_freed_at_exit(tmp_path / "after.csv", kept=200_000)
    page = show(report(before.path, after.path))
    text = answer(page, CHANGED)
    assert text.startswith(f"The peak is {shown(after.peak - before.peak)} higher")
    assert f"Most of the difference: cache (+{shown(after.peak - before.peak)})" in text


def test_the_command_for_settings_is_there(tmp_path, report, show) -> None:
    program = programs.spike(tmp_path / "a log.csv")
    page = show(report(program.path))
    assert answer(page, SETTINGS).startswith(f"At least {shown(program.peak)}")
    assert page.locator("code").first.inner_text() == f"rmm tune '{program.path}'"


def test_names_from_logs_are_text(tmp_path, report, show) -> None:
    program = programs.hostile(tmp_path / "<img src=x onerror=alert(1)>.csv")
    page = show(report(Path(program.path)))
    assert page.title() != "owned" and page.locator("img").count() == 0
    assert programs.HOSTILE.split(" <")[0] in page.locator("table.who").inner_text()
    page.locator("#find").fill("onerror")
    assert page.locator(".said").inner_text().startswith(f"{len(program.blocks)} blocks")
    page.locator("table.who button.fold").first.click()
    assert page.locator("img").count() == 0
