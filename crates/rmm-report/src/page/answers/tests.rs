//! The answers about planted programs.

use super::compare::Compared;
use super::failed::WhatItTakes;
use super::share::Grouping;
use super::words::say_compared;
use super::*;
use crate::page::view::{Names, ViewBlock, ViewFailure, ViewLimit, ViewReplay, ViewSegment};

#[path = "tests/verdicts.rs"]
mod verdicts;

/// The answers about one view alone.
fn say(answers: &Answers) -> Vec<words::Answer> {
    words::say(answers, &[])
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A program under construction: each call is an event.
#[derive(Default)]
struct Program {
    view: View,
    next: u64,
}

impl Program {
    fn new() -> Self {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let names = Names {
            streams: names(&["0x1"]),
            threads: names(&["1"]),
            tags: names(&["", "cache", "steps"]),
            sites: names(&["", "a.py:1 load < main.py:9 run", "a.py:2 step < main.py:9 run"]),
        };
        let log = "planted.csv".to_owned();
        Self { view: View { log, names, ..View::default() }, next: 0x7f00_0000_0000 }
    }

    /// Allocates at the next address.
    fn allocate(&mut self, size: u64, tag: u32) -> usize {
        let address = self.next;
        self.next += size.next_multiple_of(256);
        self.allocate_at(address, size, tag)
    }

    fn allocate_at(&mut self, address: u64, size: u64, tag: u32) -> usize {
        self.view.events += 1;
        let start = self.view.events;
        self.view.blocks.push(ViewBlock {
            start,
            end: NEVER,
            size,
            address,
            tag,
            site: tag,
            ..ViewBlock::default()
        });
        self.view.blocks.len() - 1
    }

    fn free(&mut self, block: usize) {
        self.view.events += 1;
        self.view.blocks[block].end = self.view.events;
    }

    fn fail(&mut self, size: u64, tag: u32) {
        self.view.events += 1;
        self.view.failed += 1;
        let position = self.view.events;
        self.view.failures.push(ViewFailure {
            position,
            size,
            tag,
            site: tag,
            ..ViewFailure::default()
        });
    }

    /// Steps that allocate and free again, so that memory rises and falls.
    fn step(&mut self) {
        let place = |i: u64| 0x7e00_0000_0000 + i * 4 * MIB;
        let blocks: Vec<usize> = (1..=4).map(|i| self.allocate_at(place(i), i * MIB, 2)).collect();
        for block in blocks {
            self.free(block);
        }
    }

    fn answers(&self) -> Answers {
        Answers::of(&self.view)
    }
}

/// A cache that gets one block a step, and is freed at the end.
fn leak_freed_at_exit(steps: u64) -> Program {
    let mut program = Program::new();
    let weights = program.allocate(64 * MIB, 2);
    let mut kept = Vec::new();
    for _ in 0..steps {
        program.step();
        kept.push(program.allocate(100_000, 1));
    }
    for block in kept {
        program.free(block);
    }
    program.free(weights);
    program
}

#[test]
fn a_leak_that_is_freed_at_exit_is_named() {
    let answers = leak_freed_at_exit(200).answers();
    assert!(answers.growth.grows && answers.leaked_blocks == 0);
    // 8 of 10 windows' floors: from the third to the last, 5 of 8 parts of 200 blocks.
    let expected = 200 * 5 / 8 * 100_096;
    assert!(answers.growth.bytes.abs_diff(expected) <= 2 * 100_096, "{:?}", answers.growth);
    let growers: Vec<(Grouping, &str)> =
        answers.growth.growers.iter().map(|grower| (grower.kind, grower.name.as_str())).collect();
    let site = "a.py:1 load < main.py:9 run";
    assert_eq!(
        growers,
        [(Grouping::Tag, "cache"), (Grouping::Site, site), (Grouping::Size, "blocks of 97.7 KiB")]
    );
    assert!(answers.growth.growers.iter().all(|grower| grower.left_bytes == 0));
    let short = &say(&answers)[2].short;
    assert!(
        short.starts_with("Yes: cache grows steadily by ")
            && short.contains(", though all of it is"),
        "{short}"
    );
    assert!(
        say(&answers)[3].short.starts_with("Growth: cache grows "),
        "{}",
        say(&answers)[3].short
    );
}

#[test]
fn a_program_that_repeats_its_steps_does_not_grow() {
    let mut program = Program::new();
    let weights = program.allocate(64 * MIB, 2);
    (0..200).for_each(|_| program.step());
    program.free(weights);
    let answers = program.answers();
    assert!(!answers.growth.grows && answers.growth.is_known, "{:?}", answers.growth);
    assert!(
        answers.growth.growers.is_empty()
            && answers.growth.floors
                == [0, 64 * MIB, 64 * MIB, 64 * MIB, 64 * MIB, 64 * MIB, 64 * MIB, 64 * MIB]
    );
    assert!(say(&answers)[2].short.starts_with("No: "));
}

#[test]
fn one_step_up_is_no_growth_and_few_events_are_not_judged() {
    let mut program = Program::new();
    (0..100).for_each(|_| program.step());
    program.allocate(64 * MIB, 1);
    (0..100).for_each(|_| program.step());
    assert!(!program.answers().growth.grows);
    let mut short = Program::new();
    short.step();
    assert!(!short.answers().growth.is_known);
}

#[test]
fn what_is_never_freed_is_a_leak_unless_the_program_runs() {
    let mut program = Program::new();
    (0..50).for_each(|_| program.step());
    program.allocate(96 * MIB, 1);
    let answers = program.answers();
    assert_eq!((answers.leaked_blocks, answers.leaked_bytes), (1, 96 * MIB));
    let short = &say(&answers)[3].short;
    assert!(short.starts_with("Never freed, but not growing: 96.0 MiB."), "{short}");
    program.view.ending = crate::page::view::Ending::Open;
    assert_eq!(program.answers().leaked_blocks, 0);
}

#[test]
fn one_short_spike_is_found_with_its_holders() {
    let mut program = Program::new();
    let weights = program.allocate(10 * MIB, 1);
    (0..200).for_each(|_| program.step());
    let spike = program.allocate(GIB, 2);
    let position = program.view.events;
    program.free(spike);
    (0..200).for_each(|_| program.step());
    program.free(weights);
    let answers = program.answers();
    assert_eq!((answers.peak.bytes, answers.peak.position), (GIB + 10 * MIB, position));
    assert_eq!((answers.peak.blocks, answers.peak.near), (2, 1));
    assert_eq!(answers.peak.usual_bytes, 20 * MIB);
    assert!(answers.peak.is_spike(answers.events));
    assert_eq!(answers.peak.largest[0].bytes, GIB);
    let tags: Vec<(&str, u64)> = answers
        .peak
        .shares
        .iter()
        .filter(|share| share.kind == Grouping::Tag)
        .map(|share| (share.name.as_str(), share.bytes))
        .collect();
    assert_eq!(tags, [("steps", GIB), ("cache", 10 * MIB)]);
    let short = &say(&answers)[0].short;
    let spike = "short spike: within 10 % of it at only 1 event, and at most 20.0 MiB at 95 %";
    assert!(short.contains(spike) && short.contains("held by steps (99 %)"), "{short}");
}

#[test]
fn who_held_the_peak_is_said_without_names_too() {
    let mut program = Program::new();
    program.view.names.tags = vec![String::new()];
    program.view.names.sites = vec![String::new()];
    for size in [MIB, 4 * MIB, MIB] {
        program.allocate(size, 0);
    }
    let short = |program: &Program| say(&program.answers())[0].short.clone();
    assert!(short(&program).ends_with("Most was held by blocks of 4.0 MiB (67 %)."));
    program.allocate(3 * MIB, 0);
    assert!(short(&program).ends_with("The largest share was held by blocks of 4.0 MiB (44 %)."));
}

/// Every second block of a held range is freed, then a large one fails.
fn fragmented() -> Program {
    let mut program = Program::new();
    let base = program.next;
    let blocks: Vec<usize> = (0..64).map(|_| program.allocate(MIB, 1)).collect();
    for block in blocks.into_iter().step_by(2) {
        program.free(block);
    }
    program.fail(8 * MIB, 2);
    program.view.reserved = Some(vec![(0, 0), (1, 64 * MIB)]);
    program.view.segments =
        vec![ViewSegment { address: base, size: 64 * MIB, start: 1, end: NEVER }];
    program
}

#[test]
fn fragmentation_is_told_from_what_is_free_as_a_whole() {
    let answers = fragmented().answers();
    let split = &answers.split;
    assert!(split.is_known && split.position == answers.events);
    assert_eq!((split.held_bytes, split.asked_bytes), (64 * MIB, 32 * MIB));
    assert_eq!((split.hole_bytes, split.whole_free_bytes, split.holes), (32 * MIB, 0, 32));
    assert_eq!((split.largest_hole_bytes, split.other_bytes), (MIB, 0));
    let short = &say(&Answers { leaked_bytes: 0, leaked_blocks: 0, ..answers })[3].short;
    assert!(short.starts_with("Fragmentation: 32.0 MiB"), "{short}");

    let mut program = Program::new();
    let base = program.next;
    let block = program.allocate(MIB, 1);
    program.view.reserved = Some(vec![(1, 64 * MIB)]);
    program.view.segments =
        vec![ViewSegment { address: base, size: 64 * MIB, start: 1, end: NEVER }];
    let split = program.answers().split;
    assert_eq!((split.hole_bytes, split.whole_free_bytes), (MIB, 62 * MIB));
    program.free(block);
}

#[test]
fn of_a_log_alone_the_pages_of_live_blocks_stand_for_what_is_held() {
    let mut program = Program::new();
    let base = program.next;
    program.allocate_at(base + 100 * 256, MIB, 0);
    program.allocate_at(base + 100 * MIB, 256, 0);
    let split = program.answers().split;
    assert!(!split.is_known);
    assert_eq!((split.held_bytes, split.hole_bytes), (4 * MIB, 3 * MIB - 256));
    assert_eq!((split.holes, split.largest_hole_bytes), (3, 2 * MIB - 256));
}

#[test]
fn a_failure_says_what_would_have_let_it_succeed() {
    let answers = fragmented().answers();
    let failed = answers.failed.as_ref().expect("a failure");
    assert_eq!((failed.count, failed.bytes, failed.tag.as_str()), (1, 8 * MIB, "steps"));
    let expected = WhatItTakes::Join {
        free_bytes: 32 * MIB,
        whole_free_bytes: 0,
        pages_are_enough: false,
        limit_bytes: None,
    };
    assert_eq!(failed.remedy, expected);
    let said = &say(&answers)[1].short;
    assert!(
        said.ends_with(
            "32.0 MiB were free, but in pieces of at most 1.0 MiB. No page of 2 MiB was free as a \
             whole, so none could be joined. It would have fitted with 8.0 MiB more memory."
        ),
        "{said}"
    );

    let mut program = fragmented();
    program.view.failures[0].size = 40 * MIB;
    let failed = program.answers().failed.expect("a failure");
    assert_eq!(failed.remedy, WhatItTakes::More { missing_bytes: 8 * MIB });

    // 36 MiB could still be held: as one more block it takes 4 MiB beyond them.
    program.view.failures[0].limit =
        Some(ViewLimit { most: 100 * MIB, used: 64 * MIB, ..ViewLimit::default() });
    let answers = program.answers();
    let remedy = answers.failed.as_ref().expect("a failure").remedy;
    let expected =
        WhatItTakes::Limit { missing_bytes: 4 * MIB, limit_bytes: 104 * MIB, is_of_live: false };
    assert_eq!((remedy, answers.settings.least_bytes), (expected, 72 * MIB));
    let said = say(&answers);
    assert!(said[1].short.contains("a limit of 104.0 MiB, 4.0 MiB more"), "{said:?}");
    let least = "At least 72.0 MiB: that much would be live at once with a request that failed. \
                 Requests failed when this was recorded, so this is only what was reached";
    assert!(said[4].short.contains(least), "{said:?}");

    program.view.failures[0].size = MIB / 2;
    let failed = program.answers().failed.expect("a failure");
    assert_eq!(failed.remedy, WhatItTakes::Wait { hole_bytes: MIB });

    program.view.reserved = None;
    program.view.segments.clear();
    let answers = program.answers();
    assert_eq!(
        answers.failed.as_ref().map(|failed| failed.remedy),
        Some(WhatItTakes::Total { bytes: 32 * MIB + MIB / 2 })
    );
    let short = &say(&answers)[1].short;
    assert!(
        short.starts_with("The first was 512.0 KiB, at event 97, by steps, from a.py:2 step"),
        "{short}"
    );
    assert!(say(&leak_freed_at_exit(3).answers())[1].short.starts_with("None failed"));
}

#[test]
fn pages_that_are_free_as_a_whole_are_fragmentation_where_a_request_fails() {
    let mut program = Program::new();
    let base = program.next;
    let blocks: Vec<usize> = (0..8).map(|_| program.allocate(6 * MIB, 1)).collect();
    for block in blocks.into_iter().step_by(2) {
        program.free(block);
    }
    program.fail(8 * MIB, 2);
    program.fail(9 * MIB, 2);
    program.view.failures[0].limit =
        Some(ViewLimit { most: 48 * MIB, used: 48 * MIB, ..ViewLimit::default() });
    program.view.reserved = Some(vec![(1, 48 * MIB)]);
    program.view.segments =
        vec![ViewSegment { address: base, size: 48 * MIB, start: 1, end: NEVER }];
    let said = |program: &Program| say(&Answers { leaked_bytes: 0, ..program.answers() });
    let found = said(&program);
    let failure = "24.0 MiB were free, but in pieces of at most 6.0 MiB. 24.0 MiB of that were whole \
                   pages, which a pool over virtual memory (pool-virtual) joins. It would have \
                   fitted with a limit of 56.0 MiB. That is for the first alone: the later one may \
                   take more.";
    assert!(found[1].short.ends_with(failure), "{}", found[1].short);
    let loss = "Fragmentation: 24.0 MiB are free, but in pieces of at most 6.0 MiB when 8.0 MiB \
                were asked for.";
    assert!(found[3].short.starts_with(loss), "{}", found[3].short);

    // Such a pool is not advised to be one.
    program.view.replay = Some(ViewReplay { joins_pages: true, ..ViewReplay::default() });
    let found = said(&program);
    assert!(!found[1].short.contains("pool-virtual"), "{}", found[1].short);
    assert!(found[0].short.ends_with("The 2 requests that failed are not in it."));
}

/// A program that keeps two blocks, on a resource that held this much or refused one of them.
fn replayed(resource: &str, held: u64, failures: u64) -> Answers {
    let mut program = Program::new();
    program.allocate(10 * MIB, 1);
    match failures {
        0 => drop(program.allocate(30 * MIB, 2)),
        _ => (0..failures).for_each(|_| program.fail(30 * MIB, 2)),
    }
    program.view.resource = Some(resource.to_owned());
    program.view.reserved = Some(vec![(0, 0), (1, 10 * MIB), (2, held)]);
    program.view.replay = Some(ViewReplay {
        recorded_peak: 40 * MIB,
        failures,
        driver_calls: Some(7),
        ..ViewReplay::default()
    });
    program.answers()
}

#[test]
fn the_resource_that_held_least_is_named_and_those_that_failed() {
    let all = [
        replayed("pool-cuda", 64 * MIB, 0),
        replayed("pool-virtual", 42 * MIB, 0),
        replayed("pool(max=20MiB)", 20 * MIB, 2),
    ];
    let short = |answers: &Answers, all: &[Answers]| words::say(answers, all)[4].short.clone();
    let expected = "Of the 3 resources replayed here pool-virtual held least: 42.0 MiB at most. It \
                    grew 2 times, with 7 driver calls, and no stream waited for another. pool-cuda \
                    held 64.0 MiB, with 7 driver calls. One does not run: 2 requests failed in pool(max=20MiB). At least \
                    40.0 MiB: that much is live at once. Other pools and settings were not tried here.";
    for answers in &all {
        let found = short(answers, &all);
        assert!(found.starts_with(expected), "{found}");
    }
    let found = short(&all[0], &all[..1]);
    assert!(found.starts_with("pool-cuda runs, and held 64.0 MiB at most."), "{found}");
    let found = short(&all[2], &all[2..]);
    let expected = "It does not run: 2 requests failed in pool(max=20MiB). By this replay it takes \
                    50.0 MiB (not tried, and for the first failure); never below 40.0 MiB";
    assert!(found.starts_with(expected), "{found}");
    let none = [all[2].clone(), replayed("pool(max=15MiB)", 15 * MIB, 1)];
    let found = short(&none[0], &none);
    let expected = "None of the 2 resources replayed here runs: 2 requests failed in \
                    pool(max=20MiB), 1 request failed in pool(max=15MiB). By these replays the \
                    least is pool(max=15MiB) with 45.0 MiB (not tried); never below 40.0 MiB";
    assert!(found.starts_with(expected), "{found}");
    let mut unknown = all[0].clone();
    unknown.settings.used_bytes = None;
    let found = short(&unknown, &[]);
    assert!(found.starts_with("pool-cuda runs; what it would hold on a GPU is not known."));
}

#[test]
fn a_growth_is_that_of_what_grows() {
    let mut program = Program::new();
    // What ends meanwhile does not grow, and makes the whole rise by less.
    let ends = program.allocate(2 * MIB, 2);
    let mut kept = Vec::new();
    for step in 0..403 {
        if step == 200 {
            program.free(ends);
        }
        let work: Vec<usize> = (0..6).map(|_| program.allocate(MIB, 2)).collect();
        if step % 4 == 0 {
            kept.push(program.allocate(MIB, 1));
        }
        for block in work {
            program.free(block);
        }
    }
    let growth = program.answers().growth;
    assert!(growth.grows);
    let all: Vec<(Grouping, u64)> =
        growth.growers.iter().map(|grower| (grower.kind, grower.bytes)).collect();
    let expected = [Grouping::Tag, Grouping::Site, Grouping::Size].map(|kind| (kind, growth.bytes));
    assert_eq!(all, expected, "the same by whatever it is named");
    // As much as was kept between the two positions.
    let between = kept.iter().map(|&block| program.view.blocks[block].start);
    let between = between.filter(|&start| start > growth.from && start <= growth.to);
    assert_eq!(between.count() as u64 * MIB, growth.bytes);
}

#[test]
fn two_versions_are_told_apart() {
    let (before, after) = (leak_freed_at_exit(200), leak_freed_at_exit(260));
    let answers = [before.answers(), after.answers()];
    let compared = Compared::of(("a", &before.view, &answers[0]), ("b", &after.view, &answers[1]));
    assert_eq!((compared.kind, compared.shares.len()), (Grouping::Tag, 1));
    assert_eq!(compared.shares[0].name, "cache");
    assert_eq!(compared.shares[0].after - compared.shares[0].before, 60 * 100_096);
    let short = say_compared(&compared).short;
    assert!(
        short.starts_with("The peak is 5.7 MiB higher in b (98.7 MiB) than in a (93.0 MiB).")
            && short.contains("cache (+5.7 MiB)"),
        "{short}"
    );
    let same = Compared::of(("a", &before.view, &answers[0]), ("a", &before.view, &answers[0]));
    assert!(same.is_same() && say_compared(&same).short.starts_with("Nothing"));
}

#[test]
fn what_changed_most_comes_first() {
    let program = |cache: u64, steps: u64| {
        let mut program = Program::new();
        program.allocate(cache * MIB, 1);
        program.allocate(steps * MIB, 2);
        program
    };
    let (before, after) = (program(5, 50), program(8, 20));
    let answers = [before.answers(), after.answers()];
    let compared = Compared::of(("a", &before.view, &answers[0]), ("b", &after.view, &answers[1]));
    let changed: Vec<(&str, u64, u64)> =
        compared.shares.iter().map(|one| (one.name.as_str(), one.before, one.after)).collect();
    assert_eq!(changed, [("steps", 50 * MIB, 20 * MIB), ("cache", 5 * MIB, 8 * MIB)]);
    let short = say_compared(&compared).short;
    assert!(short.starts_with("The peak is 27.0 MiB lower in b (28.0 MiB)"), "{short}");
    assert!(short.contains("steps (\u{2212}30.0 MiB)"), "{short}");
    let said = say_compared(&compared);
    assert_eq!(said.caption, "Differences: b less a");
    let rows: Vec<(&str, &str, &str, &str)> = said
        .rows
        .iter()
        .map(|row| (row.group, row.what.as_str(), row.value.as_str(), row.note.as_str()))
        .collect();
    let expected = [
        ("", "peak live", "\u{2212}27.0 MiB", "28.0 MiB, was 55.0 MiB"),
        ("", "never freed", "\u{2212}27.0 MiB", "28.0 MiB, was 55.0 MiB"),
        ("At the peaks, by tag", "steps", "\u{2212}30.0 MiB", "20.0 MiB, was 50.0 MiB"),
        ("At the peaks, by tag", "cache", "+3.0 MiB", "8.0 MiB, was 5.0 MiB"),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_view_without_anything_has_answers() {
    let answers = Answers::of(&View::default());
    assert_eq!((answers.peak.bytes, answers.leaked_blocks), (0, 0));
    assert_eq!(say(&answers).len(), 5);
}

#[test]
fn the_command_can_be_copied_into_a_shell() {
    let mut program = Program::new();
    program.view.log = "my log's.csv".to_owned();
    let said = say(&program.answers());
    assert_eq!(said[4].rows[0].what, "rmm tune 'my log'\\''s.csv'");
    assert!(said[4].short.contains("A log alone does not say which pool"), "{}", said[4].short);
}

#[test]
fn shares_are_rounded_to_nearest() {
    let shares = [(0, 9), (2, 3), (1, 3), (995, 1000), (996, 10_000), (9_949, 100_000)];
    let shown = shares.map(|(part, whole)| words::percent(part, whole));
    assert_eq!(shown, ["0.0 %", "67 %", "33 %", "100 %", "10 %", "9.9 %"]);
}
