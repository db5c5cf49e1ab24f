//! Command lines of the compiler: objects, shared libraries and programs of one checkout.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cache::{Cache, digest_of};
use super::compile::{Call, Made, make_all};
use crate::error::{Context as _, Result};

/// The compiler, and what all calls of it have in common.
#[derive(Debug)]
pub(super) struct Builder {
    program: OsString,
    /// What the compiler says of itself: another version makes other objects.
    version: String,
    pub(super) includes: Vec<PathBuf>,
    /// Where objects go.
    pub(super) objects: PathBuf,
    pub(super) jobs: usize,
    pub(super) cache: Cache,
}

/// Checks that there is a compiler.
///
/// # Errors
///
/// How to install it.
pub(super) fn compiler() -> Result<OsString> {
    let program = env::var_os("CXX").unwrap_or_else(|| "g++".into());
    let named = program.display();
    ask(&program, &["--version"])
        .context(format_args!("no C++ compiler `{named}`: install g++ 12 or newer, or set CXX"))?;
    Ok(program)
}

/// Checks that there is a compiler and gtest.
///
/// # Errors
///
/// What is missing, and how to install it.
pub(super) fn compiler_with_gtest() -> Result<OsString> {
    let program = compiler()?;
    for library in ["libgtest.a", "libgmock.a", "libgmock_main.a"] {
        // The name itself is the answer of a compiler that does not find it.
        let found = ask(&program, &[&format!("-print-file-name={library}")]);
        if !found.is_some_and(|path| Path::new(path.trim()).is_absolute()) {
            return Err(format!("GoogleTest is missing ({library}): on Debian and Ubuntu, `apt-get install libgtest-dev libgmock-dev`").into());
        }
    }
    Ok(program)
}

fn ask(program: &OsString, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Builder {
    /// A builder without includes.
    pub(super) fn new(program: OsString, objects: PathBuf, jobs: usize) -> Self {
        let version = ask(&program, &["--version"]).unwrap_or_default();
        let (includes, cache) = (Vec::new(), Cache::default());
        Self { program, version, includes, objects, jobs, cache }
    }

    /// The call that compiles a source. `includes` come before those of all.
    pub(super) fn compile(
        &self,
        what: &str,
        source: &Path,
        includes: &[PathBuf],
        defines: &[String],
    ) -> Call {
        let mut command: Vec<OsString> = vec![self.program.clone()];
        // Warnings are for those who can mend them.
        command.extend(["-std=c++20", "-O0", "-fPIC", "-w", "-MD"].map(OsString::from));
        for define in defines {
            command.push(format!("-D{define}").into());
        }
        for folder in includes.iter().chain(&self.includes) {
            command.push("-I".into());
            command.push(folder.into());
        }
        if source.extension().is_some_and(|end| end == "cu") {
            // Otherwise g++ takes it for a script of the linker.
            command.extend(["-x", "c++"].map(OsString::from));
        }
        command.push("-c".into());
        command.push(source.into());
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let digest = digest_of(&(&command, &self.version));
        let output = self.objects.join(format!("{name}-{digest:016x}.o"));
        command.extend(["-o".into(), output.clone().into()]);
        Call {
            what: format!("compile {what}"),
            command,
            output,
            inputs: vec![source.to_path_buf()],
        }
    }

    /// The call that links objects to a program, or to a shared library with this name.
    pub(super) fn link(
        &self,
        output: &Path,
        soname: Option<&str>,
        objects: &[PathBuf],
        libraries: &Linked<'_>,
    ) -> Call {
        let mut command: Vec<OsString> = vec![self.program.clone()];
        if let Some(soname) = soname {
            command.extend(
                [
                    "-shared".to_owned(),
                    format!("-Wl,-soname,{soname}"),
                    // As NVIDIA's: a library without versions is warned of where one has them.
                    "-Wl,--default-symver".to_owned(),
                ]
                .map(OsString::from),
            );
        }
        command.extend(objects.iter().map(OsString::from));
        for folder in libraries.folders {
            command.push(format!("-L{}", folder.display()).into());
            command.push(format!("-Wl,-rpath-link,{}", folder.display()).into());
        }
        command.extend(libraries.names.iter().map(|name| OsString::from(format!("-l{name}"))));
        command.extend(["-lpthread", "-ldl", "-o"].map(OsString::from));
        command.push(output.into());
        let found = libraries.names.iter().flat_map(|name| {
            libraries.folders.iter().map(move |folder| folder.join(format!("lib{name}.so")))
        });
        // Where a library is one of ours, a new one means a new link.
        let inputs = objects.iter().cloned().chain(found.filter(|path| path.is_file())).collect();
        let name = output.file_name().unwrap_or_default().display();
        Call { what: format!("link {name}"), command, output: output.to_path_buf(), inputs }
    }

    /// Makes the outputs of all calls.
    pub(super) fn make(&self, calls: &[Call]) -> Vec<Made> {
        make_all(calls, self.jobs, &self.cache)
    }
}

/// Libraries to link with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Linked<'a> {
    pub(super) folders: &'a [PathBuf],
    pub(super) names: &'a [&'a str],
}

#[cfg(test)]
mod tests {
    //! Command lines.

    use super::*;

    #[test]
    fn other_flags_make_another_object() {
        let mut builder = Builder::new("g++".into(), "/objects".into(), 1);
        builder.includes.push("/all".into());
        let source = Path::new("/src/a.cpp");
        let plain = builder.compile("a.cpp", source, &["/own".into()], &[]);
        let defined = builder.compile("a.cpp", source, &["/own".into()], &["X=1".to_owned()]);
        assert_ne!(plain.output, defined.output);
        assert!(plain.output.starts_with("/objects"));
        let line: Vec<_> = plain.command.iter().map(|word| word.to_string_lossy()).collect();
        let line = line.join(" ");
        assert!(line.contains("-I /own -I /all -c /src/a.cpp"), "{line}");
        assert!(defined.command.contains(&"-DX=1".into()));
    }

    #[test]
    fn a_shared_library_has_its_name() {
        let builder = Builder::new("g++".into(), "/objects".into(), 1);
        let linked = Linked { folders: &["/lib".into()], names: &["cuda"] };
        let call =
            builder.link(Path::new("/lib/libx.so.1"), Some("libx.so.1"), &["a.o".into()], &linked);
        for word in ["-shared", "-Wl,-soname,libx.so.1", "-lcuda", "-L/lib"] {
            assert!(call.command.contains(&word.into()), "{word}");
        }
        assert_eq!(call.inputs, [PathBuf::from("a.o")]);
    }
}
