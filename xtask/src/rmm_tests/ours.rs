//! The typed suites over our resources: sources that are generated, one program for each place
//! in a stack (alone, below two of RMM's resources, above one), and a run of it for each of ours.

use std::fs;
use std::path::{Path, PathBuf};

use self::stacks::{ADAPTORS, RESOURCES, VARIANTS};
use super::args::{Args, Place};
use super::compile::Call;
use super::result::{Over, Row};
use super::session::{Job, Session, broken, not_run};
use super::typed::{TypedSuite, instantiation, suites};
use crate::error::{Context as _, Result};

#[expect(dead_code, unreachable_pub, reason = "only the list is needed here")]
#[path = "../../../crates/rmm-spec/src/stacks.rs"]
mod stacks;

/// What of ours is tested above RMM's resources: the fixture makes each of them.
const UPPER: [&str; 9] = [
    "pool",
    "arena",
    "fixed-size",
    "binning",
    "aligned",
    "limiting",
    "statistics",
    "tracking",
    "thread-safe",
];

/// The values of placeholders in the list of stacks.
const VALUES: [(&str, &str); 2] = [("max", "4GiB"), ("bins", "18..22")];

/// RMM's suites ask for up to 5 MiB, which a resource of small blocks refuses.
const FIXED_SIZE: (&str, &str) = ("fixed-size", "fixed-size(cuda, block=8MiB, blocks=32)");

/// A variable of the environment.
type Variable = (&'static str, String);

/// The stack that lies behind a table of C functions.
const CALLBACK: &str = "callback";

/// The resources that are tested: a name and a specification.
fn resources() -> impl Iterator<Item = (&'static str, String)> {
    let specs = [RESOURCES, VARIANTS, ADAPTORS].into_iter().flatten();
    specs.map(|stack| match stack.name {
        name if name == FIXED_SIZE.0 => (name, FIXED_SIZE.1.to_owned()),
        name => (name, stack.spec_with(&VALUES)),
    })
}

/// Builds the programs.
///
/// # Errors
///
/// If a file cannot be read or written, or there is no suite.
pub(super) fn build(session: &Session, args: &Args) -> Result<(Vec<Job>, Vec<Row>)> {
    let Some(headers) = &session.libraries.headers else {
        let reason = "there is no C interface (rmm-capi)".to_owned();
        return Ok((Vec::new(), vec![not_run("typed suites over ours", reason)]));
    };
    let groups = suites_by_header(session)?;
    if groups.is_empty() {
        return Err("no header of the checkout's tests registers a typed suite".into());
    }
    let ours = session.sources.join("ours");
    let fixture = args.fixtures.as_deref();
    let fixture = fixture.map_or_else(|| ours.join("fixtures.hpp"), Path::to_path_buf);
    let fixture = fs::canonicalize(&fixture).context(fixture.display())?;
    let generated = session.folder.join("generated");
    fs::create_dir_all(&generated).context(generated.display())?;
    let mut includes = vec![headers.clone(), ours.clone()];
    includes.extend(session.checkout.include_folders());
    includes.push(session.checkout.tests());

    let mut calls = vec![session.builder.compile(
        "main of ours",
        &ours.join("main.cpp"),
        &includes,
        &session.defines,
    )];
    for place in args.places() {
        for group in &groups {
            let name = group[0].header.with_extension("").to_string_lossy().replace('/', "_");
            let source = generated.join(format!("{}_{name}.cpp", place.name()));
            write_if_changed(&source, &instantiation(group, &fixture, place.fixture()))?;
            let what = format!("{} over ours, {}", group[0].header.display(), place.name());
            calls.push(session.builder.compile(&what, &source, &includes, &session.defines));
        }
    }
    let results = session.builder.make(&calls);
    if let Err(error) = &results[0] {
        return Ok((Vec::new(), vec![broken(over(Place::Alone, "main"), "ours/main.cpp", error)]));
    }

    let (mut rows, mut programs) = (Vec::new(), Vec::new());
    let main = calls[0].output.clone();
    let parts = calls[1..].chunks(groups.len()).zip(results[1..].chunks(groups.len()));
    for (&place, (calls, results)) in args.places().iter().zip(parts) {
        let mut objects = vec![main.clone()];
        let mut tests = 0;
        for ((call, result), group) in calls.iter().zip(results).zip(&groups) {
            match result {
                Ok(()) => {
                    objects.push(call.output.clone());
                    tests += group.iter().map(|suite| suite.tests).sum::<usize>();
                }
                Err(error) => {
                    let name = format!("ours/{}/{}", place.name(), group[0].header.display());
                    rows.push(broken(over(place, &name), &name, error));
                }
            }
        }
        if objects.len() > 1 {
            programs.push((place, tests, program(session, place, &objects)));
        }
    }
    let links: Vec<Call> = programs.iter().map(|(_, _, link)| link.clone()).collect();
    let mut jobs = Vec::new();
    for ((place, tests, link), result) in programs.into_iter().zip(session.builder.make(&links)) {
        match result {
            Err(error) => {
                let name = format!("ours/{}", place.name());
                rows.push(broken(over(place, "program"), &name, &error));
            }
            Ok(()) => jobs.extend(jobs_of(place, tests, &link.output)),
        }
    }
    Ok((jobs, rows))
}

fn program(session: &Session, place: Place, objects: &[PathBuf]) -> Call {
    let output = session.folder.join("programs").join(format!("ours_{}", place.name()));
    let mut call = session.link_program(&output, objects, &["rmm_rs"]);
    // Each header is in a source of its own, and may define a function that is not inline.
    call.command.push("-Wl,--allow-multiple-definition".into());
    call
}

/// The resources that are tested in a place, and the variables that say so to the program.
fn tested_in(place: Place) -> Vec<(&'static str, Vec<Variable>)> {
    if place == Place::OverRmm {
        let variable = |name: &'static str| ("RMM_RS_TESTED_OVER", name.to_owned());
        return UPPER.into_iter().map(|name| (name, vec![variable(name)])).collect();
    }
    let variables = |(name, spec)| {
        let mut variables = vec![("RMM_RS_TESTED_RESOURCE", spec)];
        if name == CALLBACK {
            variables.push(("RMM_RS_TESTED_CALLBACK", "1".to_owned()));
        }
        (name, variables)
    };
    resources().map(variables).collect()
}

/// A run for each resource.
fn jobs_of(place: Place, tests: usize, program: &Path) -> impl Iterator<Item = Job> {
    tested_in(place).into_iter().map(move |(name, environment)| Job {
        over: over(place, name),
        name: name.to_owned(),
        program: program.to_path_buf(),
        is_plain: false,
        environment,
        devices: 1,
        tests,
    })
}

fn over(place: Place, resource: &str) -> Over {
    Over::Ours { stack: place.name(), resource: resource.to_owned() }
}

/// The typed suites of the checkout, those of one header together.
fn suites_by_header(session: &Session) -> Result<Vec<Vec<TypedSuite>>> {
    let tests = session.checkout.tests();
    let mut groups = Vec::new();
    for header in session.checkout.test_headers()? {
        let path = tests.join(&header);
        let found = suites(&header, &fs::read_to_string(&path).context(path.display())?);
        if !found.is_empty() {
            groups.push(found);
        }
    }
    Ok(groups)
}

fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|now| now == text) {
        return Ok(());
    }
    fs::write(path, text).context(path.display())
}

#[cfg(test)]
mod tests {
    //! What is tested.

    use super::*;

    #[test]
    fn every_resource_has_a_whole_specification() {
        let all: Vec<(&str, String)> = resources().collect();
        assert!(all.iter().all(|(_, spec)| !spec.contains('{')), "{all:?}");
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        for name in ["pool", "arena", "fixed-size", "binning", CALLBACK, "system"] {
            assert!(names.contains(&name), "{name}");
        }
    }

    #[test]
    fn the_callback_is_asked_for_by_the_environment() {
        let jobs: Vec<Job> = jobs_of(Place::Alone, 29, Path::new("/p")).collect();
        let with = |variable: &str| -> Vec<&str> {
            let has = |job: &&Job| job.environment.iter().any(|(name, _)| *name == variable);
            jobs.iter().filter(has).map(|job| job.name.as_str()).collect()
        };
        assert_eq!(with("RMM_RS_TESTED_CALLBACK"), [CALLBACK]);
    }

    #[test]
    fn what_is_above_rmm_is_in_the_list_of_stacks() {
        let names: Vec<&str> = resources().map(|(name, _)| name).collect();
        assert!(UPPER.iter().all(|name| names.contains(name)));
        let jobs: Vec<Job> = jobs_of(Place::OverRmm, 29, Path::new("/p")).collect();
        assert_eq!(jobs.len(), UPPER.len());
        assert_eq!(jobs[1].environment, [("RMM_RS_TESTED_OVER", "arena".to_owned())]);
    }
}
