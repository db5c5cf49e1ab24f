//! Runs a check in every cell of the matrix, or on every device.

use std::io::Write;
use std::sync::Once;

use rmm_conformance::{Cell, CheckResult, Environment, Failure, Place, is_supported};
use rmm_core::driver_in_context;
use rmm_spec::stacks;

/// Defines a test for each check of the suite, over every resource; pools take at most `$room`
/// bytes.
macro_rules! conformance {
    ($room:expr; $($check:ident),* $(,)?) => {$(
        #[test]
        fn $check() {
            crate::run::in_every_cell(|cell| cell.run($room, rmm_conformance::suite::$check));
        }
    )*};
}
pub(crate) use conformance;

/// Runs `check` in every cell that the environment chooses, and panics with all that is wrong.
#[track_caller]
pub(crate) fn in_every_cell(check: impl Fn(&Cell) -> CheckResult) {
    let cells = match Cell::selected() {
        Ok(cells) => cells,
        Err(failure) => panic!("{failure}"),
    };
    let mut failures = Vec::new();
    for cell in cells {
        announce(cell);
        if let Err(failure) = check(&cell) {
            failures.push(format!("{cell}: {failure}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs a check of something that is built on the resource once in every place where the resource
/// was chosen and is supported, and panics with what is wrong.
#[track_caller]
pub(crate) fn in_places_with(resource: &str, check: impl Fn(&Environment) -> CheckResult) {
    let resource =
        stacks::named(resource).unwrap_or_else(|| panic!("no resource is named {resource}"));
    let cells = Cell::selected().unwrap_or_else(|failure| panic!("{failure}"));
    let chosen =
        |place: &Place| cells.iter().any(|cell| cell.place == *place && cell.resource == resource);
    let places = Place::selected().unwrap_or_else(|failure| panic!("{failure}"));
    for place in places.into_iter().filter(chosen) {
        let checked = Environment::open(place).and_then(|environment| {
            if !is_supported(resource)? {
                return Ok(());
            }
            check(&environment)?;
            environment.verify()
        });
        if let Err(failure) = checked {
            panic!("{place:?}: {failure}");
        }
    }
}

/// Runs a check that is about no stream or resource in particular in every place that the
/// environment chooses, and panics with what is wrong.
#[track_caller]
pub(crate) fn in_every_place(check: impl Fn() -> CheckResult) {
    in_every_environment(|_| check());
}

/// Runs a check that needs the device itself in every place that the environment chooses, and
/// panics with what is wrong.
#[track_caller]
pub(crate) fn in_every_environment(check: impl Fn(&Environment) -> CheckResult) {
    open_every_place(Environment::open, check);
}

/// Runs a check that needs the device itself in every place; the software device does not check it
/// for misuse. Otherwise as [`in_every_environment`].
#[track_caller]
pub(crate) fn in_every_environment_unwatched(check: impl Fn(&Environment) -> CheckResult) {
    open_every_place(Environment::open_unwatched, check);
}

/// Runs a check in every place; the software device does not check it, since it asks what a driver
/// answers to misuse. Otherwise as [`in_every_place`].
#[track_caller]
pub(crate) fn in_every_place_unwatched(check: impl Fn() -> CheckResult) {
    open_every_place(Environment::open_unwatched, |_| check());
}

#[track_caller]
fn open_every_place(
    open: impl Fn(Place) -> Result<Environment, Failure>,
    check: impl Fn(&Environment) -> CheckResult,
) {
    let places = Place::selected().unwrap_or_else(|failure| panic!("{failure}"));
    for place in places {
        let checked = open(place).and_then(|environment| {
            driver_in_context()?;
            check(&environment)?;
            environment.verify()
        });
        if let Err(failure) = checked {
            panic!("{place:?}: {failure}");
        }
    }
}

/// Says once on which device this is. That it cannot be opened is for the check to say.
fn announce(cell: Cell) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Ok(environment) = Environment::open(cell.place)
            && let Ok(name) = environment.device_name()
        {
            // Not by `println!`, which the test runner keeps to itself.
            let _ignored = writeln!(std::io::stderr(), "conformance suite on: {name}");
        }
    });
}
