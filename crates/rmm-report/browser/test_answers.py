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
    assert text.startswith("Yes: cache grows steadily by ") and ", though all of it is freed at the end (" in text
    # Five of eight windows lie between the first and the last that are compared.
    shown_growth = text.split("by ")[1].split(", though")[0]
    grown = float(shown_growth.split(" MiB")[0]) * MIB
    assert abs(grown - 200 * 5 / 8 * aligned(100_000)) < 3 * aligned(100_000)
    # One figure, wherever it stands.
    assert answer(page, LOST).startswith(f"Growth: cache grows steadily by {shown_growth}, though all of it is freed at the end. No fragm")
    rows = page.locator("table.who tbody tr")
    assert rows.first.locator("td").last.inner_text() == f"+{shown_growth}"
    assert rows.filter(has_text="cache").first.locator("td").last.inner_text() == f"+{shown_growth}"
    card = page.locator(".card", has_text=GROWS)
    card.locator("summary").click()
    assert card.locator("tr", has_text="cache").locator("td").first.inner_text() == f"+{shown_growth}"
    assert answer(page, FAILED) == "None failed."
    assert "Nothing is left at the end." in answer(page, LOST)


def test_what_grows_in_turns_is_all_that_grows(tmp_path, report, show) -> None:
    program = programs.Program(tmp_path / "turns.csv")
    for step in range(300):
        program.steps(1)
        program.allocate(MIB, "cache", f"a.py:{step // 50} keep")
    page = show(report(program.written()))
    assert answer(page, GROWS).startswith("Yes: cache grows steadily, 300.0 MiB never freed (")
    card = page.locator(".card", has_text=GROWS)
    card.locator("summary").click()
    grown = card.locator("tr", has_text="cache").locator("td").first.inner_text()[1:]
    for row in ("all", "cache"):
        assert page.locator("table.who tbody tr", has_text=row).first.locator("td").last.inner_text() == f"+{grown}"


def test_fragmentation_is_told(tmp_path, report, rmm, show) -> None:
    program = programs.fragmented(tmp_path / "fragmented.csv")
    page = show(report(program.path))
    # The peak is with the large block: 364 MiB live, and every second of 128 pieces is a hole.
    assert f"{shown(program.peak)} in 65 blocks" in answer(page, PEAK)
    assert answer(page, LOST).startswith("Fragmentation, harmless here: nothing failed. 64.0 MiB (15 %) are free parts of pages in use")
    replayed = tmp_path / "replayed.html"
    rmm("replay", program.path, "--device", "sim", "--repeat", "1", "--resource", "pool-cuda", "--html", replayed)
    page = show(replayed)
    assert answer(page, LOST).startswith("Fragmentation, harmless here: nothing failed. ")


def test_one_short_spike_is_a_spike(tmp_path, report, show) -> None:
    program = programs.spike(tmp_path / "spike.csv")
    text = answer(show(report(program.path)), PEAK)
    assert text.startswith(f"{shown(program.peak)} in 1 block, at event {program.peak_event:,}")
    assert "short spike: within 10 % of it at only 1 event, and at most 10.0 MiB at 95 % of the events" in text
    assert "held by spike (100 %)" in text


def test_two_tags_have_their_shares(tmp_path, report, show) -> None:
    program = programs.failure(tmp_path / "two.csv")
    page = show(report(program.path))
    card = page.locator(".card", has_text=PEAK)
    card.locator("summary").click()
    assert card.locator("th.group").all_inner_texts() == ["By tag", "By call site", "The largest blocks"]
    rows = {row.locator("th").inner_text(): row.locator("td").first.inner_text() for row in card.locator("tr:has(td)").all()}
    assert rows["weights"] == shown(80 * MIB) and rows["steps"] == shown(10 * MIB)


def test_the_first_failure_is_named_with_what_there_was(tmp_path, report, show) -> None:
    program = programs.failure(tmp_path / "failure.csv")
    event, size = program.failures[0]
    page = show(report(program.path))
    text = answer(page, FAILED)
    assert text.startswith(f"The first was {shown(size)}, at event {event:,}")
    assert "by batch, from c.py:3 more; 2 failed in all." in text
    assert f"it makes {shown(80 * MIB + size)}" in text
    assert text.endswith("The later one would have made no more.")
    assert "only what was reached" in answer(page, SETTINGS)
    assert page.locator("#moment-place").inner_text().startswith(f"Event {event:,}")


def test_a_failure_in_a_replay_says_what_would_have_let_it_succeed(tmp_path, rmm, show) -> None:
    program = programs.fragmented(tmp_path / "fragmented.csv")
    path = tmp_path / "replayed.html"
    resource = "pool(cuda, max=400MiB)"
    rmm("replay", program.path, "--device", "sim", "--repeat", "1", "--resource", resource, "--html", path)
    page = show(path)
    text = answer(page, FAILED)
    assert text.startswith("The first was 300.0 MiB")
    assert text.endswith("with a limit of 430.0 MiB, 30.0 MiB more, since what is free is in pieces of at most 2.0 MiB.")
    # 64 MiB live and 300 asked for fit into 400, and 64 are free in pieces.
    assert answer(page, LOST).startswith("Fragmentation: ")
    # The cursor is at the failure, where the pool was asked for what addresses do not tell.
    counted = page.locator(".moment tr", has_text="waits for stream 0x7")
    assert "64.0 MiB" in counted.inner_text()
    page.locator("#cursor").press("p")
    assert counted.count() == 0


@pytest.mark.parametrize("resource", ["pool(cuda, max={})", "pool(max={})", "limiting(pool(cuda), limit={})"])
def test_with_the_limit_that_is_advised_the_request_succeeds(tmp_path, rmm, show, resource) -> None:
    program = programs.fragmented(tmp_path / "fragmented.csv")

    def failed(limit: int) -> tuple[str, str]:
        page = show(replayed(rmm, tmp_path / f"{limit}.html", program.path, resource.format(f"{limit}MiB")))
        return answer(page, FAILED), answer(page, LOST)

    text, lost = failed(340)
    # 64 MiB live, and 300 asked for.
    assert lost.startswith("Not fragmentation: 24.0 MiB short of the limit of 340.0 MiB even if packed perfectly.")
    limit = int(float(text.split("fitted with a limit of ")[1].split(" MiB")[0]))
    assert failed(limit)[0] == "None failed."
    # A pool over virtual memory can join pages with less.
    assert resource == "pool(max={})" or failed(limit - 2)[0].startswith("The first was 300.0 MiB")


def test_two_versions_are_compared(tmp_path, report, show) -> None:
    before = programs.leak_freed_at_exit(tmp_path / "before.csv")
    after = programs.leak_freed_at_exit(tmp_path / "after.csv", kept=200_000)
    page = show(report(before.path, after.path))
    text = answer(page, CHANGED)
    assert text.startswith(f"The peak is {shown(after.peak - before.peak)} higher in after.csv (")
    assert f"Most of the difference: cache (+{shown(after.peak - before.peak)})" in text


def test_what_stopped_to_grow_is_named_before_the_peak(tmp_path, report, show) -> None:
    before = programs.leak_freed_at_exit(tmp_path / "before.csv")
    after = programs.Program(tmp_path / "after.csv")
    after.allocate(64 * MIB, "weights")
    after.steps(220)
    page = show(report(before.path, after.written()))
    assert answer(page, CHANGED).startswith("cache no longer grows: by ")
    assert " in before.csv, not in after.csv. The peak is " in answer(page, CHANGED)
    page.locator("#two-select").select_option("1")
    grown = answer(page, GROWS).split("by ")[1].split(", though")[0]
    row = page.locator(".two tbody tr", has=page.locator("th", has_text="growth"))
    assert row.locator("td").all_inner_texts() == [grown, "0 B", f"\u2212{grown}"]


def test_differences_have_one_sign_and_name_their_direction(tmp_path, report, show) -> None:
    before = programs.leak_freed_at_exit(tmp_path / "before.csv")
    after = programs.leak_freed_at_exit(tmp_path / "after.csv", kept=200_000)
    page = show(report(before.path, after.path))
    grown = f"+{shown(after.peak - before.peak)}"
    card = page.locator(".card", has_text=CHANGED)
    assert card.locator("summary").inner_text() == "Differences: after.csv less before.csv"
    card.locator("summary").click()
    assert card.locator("tr", has_text="peak live").locator("td").first.inner_text() == grown
    # Also where the later one is shown, and compared with the earlier.
    for shown_first, other in (("0", "1"), ("1", "0")):
        page.locator("#view").select_option(shown_first)
        page.locator("#two-select").select_option(other)
        assert page.locator(".two caption").inner_text() == "Differences: after.csv less before.csv"
        row = page.locator(".two tbody tr", has_text="live at the peak")
        assert row.locator("td").all_inner_texts() == [shown(before.peak), shown(after.peak), grown]


def test_each_run_has_its_answers_open(tmp_path, report, show) -> None:
    logs = [programs.leak_freed_at_exit(tmp_path / f"{name}.csv", steps=50).path for name in "abcde"]
    page = show(report(*logs[:2]))
    assert page.locator(".card").count() == 11 and page.locator(".card").last.is_visible()
    page = show(report(*logs))
    assert page.locator(".card").first.is_visible() and not page.locator(".card").last.is_visible()


def replayed(rmm, path: Path, log: Path, *resources: str) -> Path:
    several = [word for resource in resources for word in ("--resource", resource)]
    rmm("replay", log, "--device", "sim", "--repeat", "1", *several, "--html", path)
    return path


def test_of_replayed_resources_the_one_that_held_least_is_named(tmp_path, rmm, show) -> None:
    program = programs.fragmented(tmp_path / "fragmented.csv")
    page = show(replayed(rmm, tmp_path / "page.html", program.path, "pool-cuda", "pool-virtual", "pool(cuda, max=400MiB)"))
    table = {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in page.locator("main > .wide tbody tr").all()}
    text = answer(page, SETTINGS)
    held = float(table["pool-virtual"][0].replace(",", ""))
    assert text.startswith(f"Of the 3 resources replayed here pool-virtual held least: {held:,.1f} MiB at most. It grew ")
    assert f"{table['pool-virtual'][5]} driver calls" in text
    assert f"pool-cuda held {float(table['pool-cuda'][0]):,.1f} MiB, with {table['pool-cuda'][5]} driver calls." in text
    assert "One does not run: 1 request failed in pool(cuda, max=400MiB)." in text
    assert f"At least {shown(program.peak)}: that much is live at once." in text
    # All three are compared, and what is the same is said once.
    text = answer(page, CHANGED)
    assert text.startswith("The same events on 3 resources. Live at most: ") and "Held at most: " in text
    for name, cells in table.items():
        assert f"{name} {float(cells[0].replace(',', '')):,.1f} MiB" in text and f"{name} {cells[5]}" in text
    assert "Missing at the first failure: pool(cuda, max=400MiB) 30.0 MiB." in text
    assert page.locator(".card", has_text=SETTINGS).count() == 1
    same = page.locator(".same").all_inner_texts()
    assert same[0].startswith("As for pool-cuda: What was the peak") and SETTINGS in same[0] and LOST not in same[0]
    # What is live at most is not reached where a request failed: there is no ratio to it.
    assert table["pool(cuda, max=400MiB)"][1] == "-" and float(table["pool-cuda"][1]) > 1
    assert page.locator(".card", has_text=PEAK).nth(1).locator(".short").inner_text().endswith(
        f"is not in it; with it {shown(program.peak)} would be live.")
    assert "Leaks:" not in page.locator("body").inner_text()


def test_a_failure_is_described_once_with_the_numbers_of_the_log(tmp_path, rmm, show) -> None:
    program = programs.fragmented(tmp_path / "fragmented.csv")
    page = show(replayed(rmm, tmp_path / "page.html", program.path, "pool(cuda, max=300MiB)"))
    assert answer(page, FAILED).startswith("The first was 300.0 MiB, at event ")
    card = page.locator(".card", has_text=FAILED)
    card.locator("summary").click()
    assert card.locator("tr", has_text="asked for").inner_text().split("\t")[1:] == ["300.0 MiB", "stream 0x7"]
    assert "limit" in card.locator("tr", has_text="the error").inner_text()
    text = page.locator("body").inner_text()
    assert "stream #" not in text and "first failure:" not in text and "line " not in card.inner_text()
    text = answer(page, SETTINGS)
    assert "It does not run: 1 request failed in pool(cuda, max=300MiB). By this replay it takes a limit of 430.0 MiB instead of " in text
    assert f"300.0 MiB (not tried); never below {shown(program.peak)}: that much is live at once." in text


def test_free_pages_that_cannot_be_joined_are_fragmentation(tmp_path, rmm, show) -> None:
    program = programs.Program(tmp_path / "pages.csv")
    blocks = [program.allocate(16 * MIB, "pieces") for _ in range(16)]
    for block in blocks[::2]:
        program.free(block)
    program.allocate(64 * MIB, "large")
    log = program.written()
    page = show(replayed(rmm, tmp_path / "page.html", log, "pool(cuda, initial=256MiB, max=256MiB)", "pool(virtual, max=256MiB)"))
    text = answer(page, FAILED)
    assert "128.0 MiB were free, but in pieces of at most 16.0 MiB. 128.0 MiB of that were whole pages" in text
    assert "(pool-virtual) joins. It would have fitted with a limit of 320.0 MiB." in text
    assert answer(page, LOST).startswith("Fragmentation: 128.0 MiB are free, but in pieces of at most 16.0 MiB when 64.0 MiB")
    assert "1 request that failed" not in answer(page, PEAK) and "The request that failed is not in it." in answer(page, PEAK)
    # What the page advises is true here.
    assert answer(page, FAILED, 1) == "None failed."
    page = show(replayed(rmm, tmp_path / "more.html", log, "pool(cuda, initial=256MiB, max=320MiB)"))
    assert answer(page, FAILED) == "None failed."


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


def test_shares_are_rounded_alike_above_and_in_the_picture(tmp_path, report, show) -> None:
    program = programs.fragmented(tmp_path / "fragmented.csv")
    page = show(report(program.path))
    card = page.locator(".card", has_text=LOST)
    card.locator("summary").click()
    for part in ("live", "rounding", "holes"):
        above = card.locator("tr", has_text=part).first.locator("td").nth(1).inner_text()
        below = page.locator(".moment tr", has_text=part).first.locator("td").nth(1).inner_text()
        assert above.split(" %")[0] == below.split(" %")[0]
    # 64 of 428 MiB.
    assert "15 %" in page.locator(".moment tr", has_text="holes").inner_text()
    text = page.locator("body").inner_text()
    assert ", ," not in text and "slept" not in text
