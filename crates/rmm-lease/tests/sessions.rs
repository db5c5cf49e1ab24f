//! Who may write and read, and what happens to the memory.

use std::rc::Rc;

use proptest::prelude::*;
use rmm_lease::protocol::{Content, Granted, Lock, LockHolder, MAX_CONTENT};
use rmm_lease::{Refusal, SessionId, State};

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const C: SessionId = SessionId(3);

fn process(session: SessionId) -> u32 {
    u32::try_from(session.0).expect("a small number") + 100
}

/// An owner, and a token of which each allocation has a clone.
struct Fixture {
    state: State<Rc<()>>,
    token: Rc<()>,
}

impl Fixture {
    fn new() -> Self {
        Self { state: State::new(100), token: Rc::new(()) }
    }

    fn ask(&mut self, session: SessionId, lock: Lock) -> Vec<(SessionId, Granted)> {
        self.state.request(session, process(session), lock);
        self.state.admit()
    }

    fn close(&mut self, session: SessionId) -> Vec<(SessionId, Granted)> {
        self.state.close(session);
        self.state.admit()
    }

    fn allocate(&mut self, session: SessionId, id: &str, bytes: u64) -> Result<(), Refusal> {
        self.state.allocate(session, id, bytes, || Ok(Rc::clone(&self.token)))
    }

    fn live(&self) -> usize {
        Rc::strong_count(&self.token) - 1
    }

    /// A committed allocation, with `A` as its reader.
    fn committed() -> Self {
        let mut fixture = Self::new();
        assert_eq!(fixture.ask(A, Lock::Write), [(A, Granted::Write)]);
        fixture.allocate(A, "x", 60).expect("within the limit");
        fixture.state.commit(A).expect("it writes");
        fixture
    }
}

#[test]
fn a_writer_is_alone_and_the_others_wait() {
    let mut owner = Fixture::new();
    assert_eq!(owner.ask(A, Lock::Read), [], "nothing is committed");
    assert_eq!(owner.ask(B, Lock::Write), [(B, Granted::Write)]);
    assert_eq!(owner.ask(C, Lock::WriteOrRead), []);
    assert_eq!(owner.state.holders(), [LockHolder { process: process(B), lock: Granted::Write }]);
    owner.state.commit(B).expect("it writes");
    assert_eq!(owner.state.admit(), [(A, Granted::Read), (C, Granted::Read)]);
    assert_eq!(owner.state.holders().len(), 3);
}

#[test]
fn a_writer_that_ends_loses_what_it_did_not_commit() {
    let mut owner = Fixture::new();
    owner.ask(A, Lock::Write);
    owner.allocate(A, "x", 60).expect("within the limit");
    owner.ask(B, Lock::WriteOrRead);
    assert_eq!(owner.close(A), [(B, Granted::Write)], "nothing was committed");
    assert_eq!((owner.live(), owner.state.bytes()), (0, 0));
    owner.allocate(B, "x", 100).expect("all of it is free");
    owner.state.abort(B).expect("it writes");
    assert_eq!((owner.live(), owner.state.holders()), (0, vec![]));
    owner.allocate(B, "y", 1).expect_err("its session is over");
}

#[test]
fn what_is_committed_outlives_every_session() {
    let mut owner = Fixture::committed();
    owner.close(A);
    assert_eq!((owner.live(), owner.state.is_committed()), (1, true));
    assert_eq!(owner.ask(B, Lock::WriteOrRead), [(B, Granted::Read)]);
    assert_eq!(owner.state.list(B).expect("it reads")[0].aligned_size, 60);
    owner.state.export(B, "x").expect("it reads");
}

#[test]
fn a_waiting_writer_comes_before_later_readers_and_replaces() {
    let mut owner = Fixture::committed();
    assert_eq!(owner.ask(B, Lock::Write), [], "A reads");
    assert_eq!(owner.ask(C, Lock::Read), [], "B waits");
    assert_eq!(owner.live(), 1, "not freed before the writer has the lock");
    assert_eq!(owner.close(A), [(B, Granted::Write)]);
    assert_eq!((owner.live(), owner.state.is_committed()), (0, false));
    assert_eq!(owner.close(B), [], "nothing is committed, and C only reads");
    assert_eq!(owner.ask(A, Lock::WriteOrRead), [(A, Granted::Write)]);
}

#[test]
fn a_waiting_session_that_ends_holds_no_one_up() {
    let mut owner = Fixture::committed();
    owner.ask(B, Lock::Write);
    owner.ask(C, Lock::Read);
    assert_eq!(owner.close(B), [(C, Granted::Read)]);
    assert_eq!(owner.live(), 1);
}

#[test]
fn refusals_change_nothing() {
    let mut owner = Fixture::new();
    assert_eq!(
        owner.state.export(A, "x").expect_err("no session").message,
        "the session has no lock"
    );
    owner.ask(A, Lock::Write);
    owner.allocate(A, "x", 60).expect("within the limit");
    assert!(owner.allocate(A, "", 1).expect_err("no name").message.contains("empty"));
    assert!(owner.allocate(A, "x", 1).expect_err("twice").message.contains("already"));
    for bytes in [41, u64::MAX] {
        assert!(owner.allocate(A, "y", bytes).expect_err("the limit is 100").out_of_memory);
    }
    let refused = owner.state.allocate(A, "y", 1, || Err(Refusal::out_of_memory("the device")));
    assert!(refused.expect_err("the device refuses").out_of_memory);
    owner.state.free(A, "y").expect_err("not allocated");
    assert_eq!((owner.live(), owner.state.bytes()), (1, 60));
    owner.state.commit(A).expect("it writes");
    owner.allocate(A, "y", 1).expect_err("a reader");
    owner.state.free(A, "x").expect_err("a reader");
    owner.state.commit(A).expect_err("a reader");
    owner.state.abort(A).expect_err("a reader");
    assert_eq!(owner.live(), 1);
}

#[test]
fn all_allocations_fit_into_one_list() {
    use rmm_lease::protocol::{Message, encode};

    let mut owner: State<()> = State::new(u64::MAX);
    owner.request(A, 1, Lock::Write);
    owner.admit();
    let long = "x".repeat(1000);
    let add = |index: u64| owner.allocate(A, &format!("{index}{long}"), 1 << 40, || Ok(()));
    let count = (0..100_000).map(add).take_while(Result::is_ok).count();
    assert!((950..1010).contains(&count), "{count}");
    let allocations = owner.list(A).expect("it writes");
    encode(&Message::ListAllocationsResponse { allocations }).expect("it fits");
}

fn part(id: &str, offset: u64, size: u64, bytes: usize) -> Content {
    Content { allocation_id: id.into(), offset, size, bytes: vec![7; bytes] }
}

#[test]
fn names_go_with_their_allocations() {
    let mut owner = Fixture::new();
    owner.ask(A, Lock::Write);
    owner.allocate(A, "x", 60).expect("within the limit");
    owner.allocate(A, "y", 40).expect("within the limit");
    owner.state.put(A, "whole", part("x", 0, 60, 3)).expect("a part");
    owner.state.put(A, "end", part("x", 60, 0, MAX_CONTENT)).expect("a part");
    owner.state.put(A, "other", part("x", 0, 1, 0)).expect("a part");
    owner.state.put(A, "other", part("y", 39, 1, 0)).expect("a name may be used again");
    for (name, content, why) in [
        ("", part("x", 0, 1, 0), "empty"),
        ("n", part("z", 0, 1, 0), "no allocation \"z\""),
        ("n", part("x", 1, 60, 0), "60 bytes from 1 on are no part of \"x\", of 60 bytes"),
        ("n", part("x", u64::MAX, 1, 0), "no part"),
        ("n", part("x", 0, 1, MAX_CONTENT + 1), "more than 4096 bytes about \"n\""),
        (&*"n".repeat(1025), part("x", 0, 1, 0), "at most 1024 bytes"),
    ] {
        let refusal = owner.state.put(A, name, content).expect_err(why);
        assert!(refusal.message.contains(why), "{refusal}");
    }
    owner.state.commit(A).expect("it writes");
    owner.state.put(A, "n", part("x", 0, 1, 0)).expect_err("it reads");
    owner.ask(B, Lock::Read);
    assert_eq!(owner.state.names(B).expect("it reads"), ["end", "other", "whole"]);
    assert_eq!(owner.state.get(B, "other").expect("it reads"), &part("y", 39, 1, 0));
    assert!(owner.state.get(B, "n").expect_err("no name").message.contains("no name \"n\""));
    owner.state.get(C, "end").expect_err("no lock");
    owner.state.names(C).expect_err("no lock");
    owner.close(A);
    owner.close(B);
    owner.ask(A, Lock::Write);
    assert!(owner.state.names(A).expect("it writes").is_empty(), "they went with the memory");
    owner.allocate(A, "x", 60).expect("within the limit");
    owner.allocate(A, "y", 40).expect("within the limit");
    owner.state.put(A, "a", part("x", 0, 1, 0)).expect("a part");
    owner.state.put(A, "b", part("y", 0, 1, 0)).expect("a part");
    owner.state.free(A, "x").expect("it is allocated");
    assert_eq!(owner.state.names(A).expect("it writes"), ["b"]);
    owner.close(A);
    owner.ask(A, Lock::Write);
    assert!(owner.state.names(A).expect("it writes").is_empty(), "it had not committed");
}

#[test]
fn names_are_short_and_what_is_refused_is_quoted_in_part() {
    let mut owner = Fixture::new();
    owner.ask(A, Lock::Write);
    let (most, more) = ("x".repeat(1024), "x".repeat(1025));
    owner.allocate(A, &most, 1).expect("as long as may be");
    owner.state.put(A, &most, part(&most, 0, 1, 0)).expect("as long as may be");
    let refused = owner.allocate(A, &more, 1).expect_err("too long");
    assert!(refused.message.contains("at most 1024 bytes"), "{refused}");
    let refused = owner.state.put(A, &more, part(&most, 0, 1, 0)).expect_err("too long");
    assert!(refused.message.contains("at most 1024 bytes"), "{refused}");
    assert_eq!((owner.live(), owner.state.names(A).expect("it writes").len()), (1, 1));
    let odd = "\u{1}".repeat(300_000);
    let refusals = [
        owner.allocate(A, &most, 1).expect_err("it is there"),
        owner.state.put(A, "n", part(&most, 0, 2, 0)).expect_err("it has 1 byte"),
        owner.state.put(A, "n", part(&odd, 0, 1, 0)).expect_err("no such name"),
        owner.state.put(A, &most, part(&most, 0, 1, MAX_CONTENT + 1)).expect_err("too much"),
        owner.state.free(A, &odd).expect_err("no such name"),
        owner.state.export(A, &odd).expect_err("no such name"),
        owner.state.get(A, &odd).expect_err("no such name").clone(),
    ];
    for refusal in refusals {
        assert!(refusal.message.len() < 1024, "{} bytes", refusal.message.len());
        assert!(refusal.message.contains("...\""), "{refusal}");
    }
}

#[test]
fn all_names_fit_into_one_list() {
    use rmm_lease::protocol::{Message, encode};

    let mut owner = Fixture::new();
    owner.ask(A, Lock::Write);
    owner.allocate(A, "x", 60).expect("within the limit");
    let long = "x".repeat(1000);
    let add = |index: u64| owner.state.put(A, &format!("{index}{long}"), part("x", 0, 1, 0));
    let count = (0..100_000).map(add).take_while(Result::is_ok).count();
    assert!((950..1010).contains(&count), "{count}");
    let names = owner.state.names(A).expect("it writes");
    encode(&Message::ListNamesResponse { names }).expect("it fits");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(u64, Lock),
    Close(u64),
    Allocate(u64),
    Commit(u64),
    Abort(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lock = prop_oneof![Just(Lock::Write), Just(Lock::Read), Just(Lock::WriteOrRead)];
    let step = prop_oneof![
        (0_u64..6, lock).prop_map(|(session, lock)| Step::Ask(session, lock)),
        (0_u64..6).prop_map(Step::Close),
        (0_u64..6).prop_map(Step::Allocate),
        (0_u64..6).prop_map(Step::Commit),
        (0_u64..6).prop_map(Step::Abort),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn one_writes_or_many_read(steps in steps()) {
        let mut owner = Fixture::new();
        for (name, step) in steps.into_iter().enumerate() {
            match step {
                // A connection asks once.
                Step::Ask(session, lock) => {
                    owner.state.close(SessionId(session));
                    owner.ask(SessionId(session), lock);
                }
                Step::Close(session) => { owner.close(SessionId(session)); }
                Step::Allocate(session) => {
                    let _outcome = owner.allocate(SessionId(session), &name.to_string(), 1);
                }
                Step::Commit(session) => { let _outcome = owner.state.commit(SessionId(session)); }
                Step::Abort(session) => { let _outcome = owner.state.abort(SessionId(session)); }
            }
            owner.state.admit();
            let holders = owner.state.holders();
            let writers = holders.iter().filter(|one| one.lock == Granted::Write).count();
            prop_assert!(writers == 0 || holders.len() == 1, "{holders:?}");
            prop_assert!(writers == 1 || holders.is_empty() || owner.state.is_committed());
            prop_assert_eq!(owner.live() as u64, owner.state.bytes());
            // Memory is a writer's or published; else it is freed.
            prop_assert!(owner.live() == 0 || writers == 1 || owner.state.is_committed());
        }
        for session in 0..6 { owner.close(SessionId(session)); }
        prop_assert!(owner.live() == 0 || owner.state.is_committed());
    }
}
