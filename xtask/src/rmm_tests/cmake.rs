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
        let name = words.next().unwrap_or_default().to_owned();
        let sources: Vec<PathBuf> =
            words.filter(|word| is_source(word)).map(PathBuf::from).collect();
        if !sources.is_empty() {
            programs.push(TestProgram { name, sources });
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
    fn names_and_files_are_read_and_options_are_not() {
        let text = "\
function(ConfigureTestInternal TEST_NAME)
  add_executable(${TEST_NAME} ${ARGN}) # the files
endfunction()
# ConfigureTest(OLD_TEST old.cpp)
ConfigureTest(POOL_MR_TEST mr/pool_mr_tests.cpp GPUS 1 PERCENT 60)
configuretest(
  TWO_TEST
  one.cpp # first
  two.cu)
if(BUILD_MORE)
  ConfigureTest(MORE_TEST more.cpp CUDART SHARED)
endif()
";
        let found: Vec<String> = programs(text)
            .into_iter()
            .map(|program| format!("{} {:?}", program.name, program.sources))
            .collect();
        assert_eq!(
            found,
            [
                r#"POOL_MR_TEST ["mr/pool_mr_tests.cpp"]"#,
                r#"TWO_TEST ["one.cpp", "two.cu"]"#,
                r#"MORE_TEST ["more.cpp"]"#,
            ]
        );
    }

    #[test]
    fn a_list_that_breaks_off_does_not_hang() {
        assert_eq!(programs("ConfigureTest(A a.cpp").len(), 1);
        assert_eq!(programs("").len(), 0);
    }
}
