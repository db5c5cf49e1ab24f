//! The names and files of test programs in a `CMakeLists.txt`, as far as they are plain text.
//!
//! RMM's list calls a function for each program: `ConfigureTest(NAME file.. [OPTION value]..)`.

use std::path::PathBuf;

use super::test_program::TestProgram;

/// The commands that name a program and its files.
const COMMANDS: [&str; 3] = ["configuretest", "configuretestinternal", "add_executable"];

/// The programs that the text names, with their sources; those without sources are functions'
/// bodies.
pub(super) fn programs(text: &str) -> Vec<TestProgram> {
    let plain: String = text.lines().map(without_comment).collect();
    let mut programs = Vec::new();
    let mut rest = plain.as_str();
    while let Some((before, after)) = rest.split_once('(') {
        let command = before.split_whitespace().last().unwrap_or_default().to_lowercase();
        let (arguments, tail) = if COMMANDS.contains(&command.as_str()) {
            after.split_once(')').unwrap_or((after, ""))
        } else {
            ("", after)
        };
        let mut words = arguments.split_whitespace();
        let mut program = TestProgram::new(words.next().unwrap_or_default(), Vec::new());
        while let Some(word) = words.next() {
            match word {
                "LINK_DRIVER" => program.links_driver = true,
                "GPUS" => {
                    program.gpus = words.next().and_then(|number| number.parse().ok()).unwrap_or(1);
                }
                word if is_source(word) => program.sources.push(PathBuf::from(word)),
                _ => {}
            }
        }
        if !program.sources.is_empty() {
            programs.push(program);
        }
        rest = tail;
    }
    programs
}

fn without_comment(line: &str) -> String {
    let code = line.split_once('#').map_or(line, |(code, _)| code);
    format!("{code}\n")
}

fn is_source(word: &str) -> bool {
    !word.contains('$') && [".cpp", ".cu"].iter().any(|end| word.ends_with(end))
}

#[cfg(test)]
mod tests {
    //! Lists as they are written.

    use super::*;

    #[test]
    fn names_files_and_needs_are_read() {
        let text = "\
function(ConfigureTestInternal TEST_NAME)
  add_executable(${TEST_NAME} ${ARGN}) # the files
endfunction()
# ConfigureTest(OLD_TEST old.cpp)
ConfigureTest(POOL_MR_TEST mr/pool_mr_tests.cpp GPUS 2 PERCENT 60)
configuretest(
  TWO_TEST
  one.cpp # first
  two.cu)
if(BUILD_MORE)
  ConfigureTest(MORE_TEST more.cpp CUDART SHARED LINK_DRIVER)
endif()
";
        let found: Vec<String> = programs(text)
            .into_iter()
            .map(|TestProgram { name, sources, gpus, links_driver }| {
                format!("{name} {sources:?} {gpus} {links_driver}")
            })
            .collect();
        assert_eq!(
            found,
            [
                r#"POOL_MR_TEST ["mr/pool_mr_tests.cpp"] 2 false"#,
                r#"TWO_TEST ["one.cpp", "two.cu"] 1 false"#,
                r#"MORE_TEST ["more.cpp"] 1 true"#,
            ]
        );
    }

    #[test]
    fn a_list_that_breaks_off_does_not_hang() {
        assert_eq!(programs("ConfigureTest(A a.cpp").len(), 1);
        assert_eq!(programs("").len(), 0);
    }
}
