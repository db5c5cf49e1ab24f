//! Leak, fragmentation or neither, and what a failed request would have taken.

use super::*;

fn loss(program: &Program) -> String {
    say(&program.answers())[3].short.clone()
}

fn remedy(program: &Program) -> String {
    say(&program.answers())[1].short.clone()
}

/// 32 blocks of 1 MiB with 32 MiB free between them, when `asked` fails at a limit.
fn refused(asked: u64, most: u64, used: u64) -> Program {
    let mut program = fragmented();
    program.view.failures[0].size = asked;
    program.view.failures[0].limit = Some(ViewLimit { most, used, is_device: false });
    program
}

#[test]
fn what_would_not_fit_even_packed_is_no_fragmentation() {
    // 32 live and 72 asked for make 104.
    let program = refused(72 * MIB, 100 * MIB, 64 * MIB);
    let expected = "Not fragmentation: 4.0 MiB short of the limit of 100.0 MiB even if packed \
                    perfectly. What is free, 32.0 MiB in pieces of at most 1.0 MiB, adds 32.0 MiB to \
                    what it would take.";
    assert!(loss(&program).starts_with(expected), "{}", loss(&program));
    let expected = "It would have fitted with a limit of 136.0 MiB, 36.0 MiB more: 4.0 MiB for what \
                    is live and this, and 32.0 MiB since what is free is in pieces of at most 1.0 MiB.";
    assert!(remedy(&program).ends_with(expected), "{}", remedy(&program));

    // 68 fit, if they were in one piece.
    let program = refused(68 * MIB, 100 * MIB, 64 * MIB);
    let expected = "Fragmentation: 32.0 MiB are free, but in pieces of at most 1.0 MiB when 68.0 MiB \
                    were asked for.";
    assert!(loss(&program).starts_with(expected), "{}", loss(&program));
}

#[test]
fn a_limit_of_what_is_allocated_counts_no_free_memory_below_it() {
    let program = refused(72 * MIB, 100 * MIB, 32 * MIB);
    let expected = "It would have fitted with a limit of 104.0 MiB, 4.0 MiB more, or with as much \
                    less that is live: this limit counts what is allocated. Below it 136.0 MiB would \
                    be held.";
    assert!(remedy(&program).ends_with(expected), "{}", remedy(&program));
    let expected = "Not fragmentation: 4.0 MiB short of the limit of 100.0 MiB even if packed \
                    perfectly. The 32.0 MiB that are free in the memory below this limit do not \
                    count in it.";
    assert!(loss(&program).starts_with(expected), "{}", loss(&program));
}

#[test]
fn what_the_device_has_is_a_limit_too() {
    let mut program = refused(72 * MIB, 100 * MIB, 64 * MIB);
    program.view.failures[0].limit =
        Some(ViewLimit { most: 90 * MIB, used: 64 * MIB, is_device: true });
    let expected = "Not fragmentation: 14.0 MiB short of the 90.0 MiB that the device had for it even \
                    if packed perfectly. 32.0 MiB are free, in pieces of at most 1.0 MiB.";
    assert!(loss(&program).starts_with(expected), "{}", loss(&program));
    program.view.failures[0].limit = None;
    let expected = "Not fragmentation: 40.0 MiB short of what was held even if packed perfectly.";
    assert!(loss(&program).starts_with(expected), "{}", loss(&program));
    let expected = "It lacked 40.0 MiB even if all that is free were joined; with 72.0 MiB more \
                    memory it would have fitted.";
    assert!(remedy(&program).ends_with(expected), "{}", remedy(&program));
}

/// A resource that holds this much, of which every second block of `piece` is free.
fn holding(held: u64, piece: u64) -> Program {
    let mut program = Program::new();
    let base = program.next;
    let blocks: Vec<usize> = (0..20).map(|_| program.allocate(piece, 1)).collect();
    program.view.reserved = Some(vec![(0, 0), (20, held)]);
    program.view.segments = vec![ViewSegment { address: base, size: held, start: 1, end: NEVER }];
    // Most is held when every second block is free.
    for block in blocks.iter().step_by(2) {
        program.view.blocks[*block].end = 20;
    }
    program.view.ending = crate::page::view::Ending::Open;
    program
}

#[test]
fn without_a_failure_one_rule_is_for_all_resources() {
    // Much more is free in whole pages, and yet a tenth is in pieces.
    let expected = "Fragmentation, harmless here: nothing failed. 10.0 MiB (10 %) are free parts of \
                    pages in use; from 10 % on they are called so. 80.0 MiB (80 %) are whole free \
                    pages, which the pool keeps for later. Of 100.0 MiB held, 10 % were live, at \
                    event 20.";
    let said = loss(&holding(100 * MIB, MIB));
    assert!(said.starts_with(expected), "{said}");
    let expected = "No fragmentation: 10.0 MiB (9.8 %) are free parts of pages in use, less than \
                    10 %. 82.0 MiB (80 %) are whole free pages";
    let said = loss(&holding(102 * MIB, MIB));
    assert!(said.starts_with(expected), "{said}");
    let said = loss(&holding(20 * MIB, MIB));
    assert!(
        said.starts_with("Fragmentation, harmless here: nothing failed. 10.0 MiB (50 %)"),
        "{said}"
    );
}

#[test]
fn a_hole_with_whole_pages_in_it_says_so() {
    let rows = say(&holding(100 * MIB, MIB).answers())[3].rows.clone();
    let row = |what: &str| {
        let row = rows.iter().find(|row| row.what == what).expect("a row");
        (row.value.as_str(), row.note.as_str())
    };
    assert_eq!(row("holes"), ("10.0 MiB", "10 %, free parts of pages in use"));
    assert_eq!(
        row("longest free range"),
        ("80.0 MiB", "of 11 ranges, the whole pages in it counted")
    );
}

/// Weights that stay, and a list that grows by a block a step; nothing is freed at the end.
fn leak() -> Program {
    let mut program = Program::new();
    program.allocate(320 * MIB, 2);
    program.view.names.tags[2] = "params".to_owned();
    for _ in 0..200 {
        let work: Vec<usize> = (1..=4).map(|_| program.allocate(MIB, 0)).collect();
        program.allocate(MIB, 1);
        for block in work {
            program.free(block);
        }
    }
    program
}

#[test]
fn a_leak_is_what_grows_and_not_what_is_made_at_the_start() {
    let said = say(&leak().answers());
    let same = "cache grows steadily, 200.0 MiB never freed";
    let stays = " params (320.0 MiB) is made at the start and stays.";
    assert!(said[2].short.starts_with(&format!("Yes: {same} (")), "{}", said[2].short);
    assert!(said[2].short.ends_with(stays), "{}", said[2].short);
    assert!(said[3].short.starts_with(&format!("Leak: {same}.{stays}")), "{}", said[3].short);
    assert!(said[3].short.ends_with("In all 201 blocks (520.0 MiB) are never freed."));
}

#[test]
fn what_one_group_has_from_the_start_is_no_growth_either() {
    let mut program = leak();
    for block in &mut program.view.blocks {
        block.tag = block.tag.min(1);
        block.site = 0;
    }
    program.view.blocks[0].tag = 1;
    program.view.names.sites.truncate(1);
    let said = say(&program.answers());
    // Of 200 blocks those after the first of eight windows.
    assert!(
        said[3].short.starts_with("Leak: cache grows steadily, 175.0 MiB never freed."),
        "{}",
        said[3].short
    );
    assert!(
        said[3].short.contains("cache (345.0 MiB) is made at the start and stays."),
        "{}",
        said[3].short
    );
}

/// A pool with a limit that refused 72 MiB, on the page of a replay.
fn replayed_with_limit(name: &str, used: u64) -> Answers {
    let mut program = refused(72 * MIB, 100 * MIB, used);
    program.view.resource = Some(name.to_owned());
    program.view.reserved = Some(vec![(0, 0), (1, used.max(64 * MIB))]);
    let replay =
        ViewReplay { failures: 1, driver_calls: Some(used / MIB), ..ViewReplay::default() };
    program.view.replay = Some(replay);
    program.answers()
}

#[test]
fn where_nothing_runs_a_limit_is_advised() {
    let all = [replayed_with_limit("one", 80 * MIB), replayed_with_limit("other", 64 * MIB)];
    let said = |all: &[Answers]| words::say(&all[0], all)[4].short.clone();
    assert!(said(&all).contains("None of the 2 resources replayed here runs"), "{}", said(&all));
    let expected = "By these replays the least is other with a limit of 136.0 MiB instead of 100.0 \
                    MiB (not tried); never below 104.0 MiB: that much is live at once.";
    assert!(said(&all).contains(expected), "{}", said(&all));
    let expected = "By this replay it takes a limit of 152.0 MiB instead of 100.0 MiB (not tried); \
                    never below 104.0 MiB";
    assert!(said(&all[..1]).contains(expected), "{}", said(&all[..1]));
}

#[test]
fn all_resources_of_one_log_are_compared() {
    let all = [32, 64, 80].map(|used| replayed_with_limit(&format!("p{used}"), used * MIB));
    let titles: Vec<String> = all.iter().filter_map(|of| of.resource.clone()).collect();
    let said = words::say_resources(&all, &titles);
    let expected = "The same events on 3 resources. Live at most: 64.0 MiB in each. Held at most: p32 \
                    64.0 MiB, p64 64.0 MiB, p80 80.0 MiB. Driver calls: p32 32, p64 64, p80 80. Failures: 1 in each. Missing at \
                    the first failure: p32 4.0 MiB, p64 36.0 MiB, p80 52.0 MiB.";
    assert_eq!(said.short, expected);
    let last = said.rows.last().expect("rows");
    assert_eq!((last.group, last.what.as_str()), ("Missing at the first failure", "p80"));
}

#[test]
fn a_failed_request_that_would_be_the_peak_is_named_with_it() {
    let said = |program: &Program| say(&program.answers())[0].short.clone();
    let program = refused(72 * MIB, 100 * MIB, 64 * MIB);
    let end = "The request that failed is not in it; with it 104.0 MiB would be live.";
    assert!(said(&program).ends_with(end), "{}", said(&program));
}

#[test]
fn what_stopped_to_grow_is_said_first() {
    let steady = {
        let mut program = Program::new();
        program.allocate(64 * MIB, 1);
        (0..200).for_each(|_| program.step());
        program
    };
    let grown = leak_freed_at_exit(200);
    let answers = [grown.answers(), steady.answers()];
    let short = |one: usize, other: usize| {
        let view = |index| if index == 0 { &grown.view } else { &steady.view };
        let named = |index: usize| (["a", "b"][index], view(index), &answers[index]);
        say_compared(&Compared::of(named(one), named(other))).short
    };
    let by = crate::format::bytes(answers[0].growth.bytes);
    let expected = format!("cache no longer grows: by {by} in a, not in b. The peak is ");
    assert!(short(0, 1).starts_with(&expected), "{}", short(0, 1));
    let expected = format!("cache grows in a, by {by}, and did not in b. The peak is ");
    assert!(short(1, 0).starts_with(&expected), "{}", short(1, 0));
}
