//! The command line: what is accepted, what it means, and what help and errors say.

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use rmm_core::Introspect as _;

use super::*;

fn parse(line: &str) -> Result<Command, clap::Error> {
    Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command)
}

fn replay(line: &str) -> ReplayArgs {
    match parse(line).expect("valid") {
        Command::Replay(args) => args,
        _ => panic!("not a replay: {line}"),
    }
}

fn resource(text: &str) -> ReplayResource {
    text.parse().expect("a name or a specification")
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn defaults() {
    let args = replay("rmm replay a.csv b.csv");
    assert_eq!(
        args,
        ReplayArgs {
            files: vec!["a.csv".into(), "b.csv".into()],
            resources: vec![ResourceList(vec![resource("pool")])],
            device: DeviceChoice::Auto,
            threads: None,
            legacy_stream: false,
            repeat: 5,
            check: false,
            memory: None,
            perfetto: None,
            outputs: OutputArgs::default(),
        }
    );
}

#[test]
fn every_option() {
    let args = replay(
        "rmm replay a.csv --resource cuda,pool,cuda-async,pool --device 3 --threads as-recorded --repeat 1 \
         --json=o.json --report o.html",
    );
    assert_eq!(args.distinct_resources(), ["cuda", "pool", "cuda-async"].map(resource));
    assert_eq!(args.device, DeviceChoice::Gpu(3));
    assert_eq!(args.threads, Some(ThreadMode::AsRecorded));
    assert_eq!(args.repeat, 1);
    let (json, html) = (Some("o.json".into()), Some("o.html".into()));
    assert_eq!(args.outputs, OutputArgs { json, html });
    assert!(replay("rmm replay a.csv --legacy-stream").legacy_stream);
    assert_eq!(replay("rmm replay a.csv --device sim").device, DeviceChoice::Software);
    assert!(replay("rmm replay a.csv --check").check);
    let args = replay("rmm replay a.csv --check --memory 2GiB");
    assert_eq!(args.memory.map(MemorySize::bytes), Some(2 << 30));
}

#[test]
fn a_tuning_tries_ours_or_what_is_named() {
    let tune = |line: &str| match parse(line).expect("valid") {
        Command::Tune(args) => args,
        _ => panic!("not a tuning: {line}"),
    };
    let args = tune("rmm tune a.csv b.csv");
    assert_eq!((args.files.len(), args.memory, args.repeat), (2, None, 1));
    assert_eq!(args.device, DeviceChoice::Software);
    assert!(args.configurations().len() > 5);
    let args =
        tune("rmm tune - --memory 24GiB --resource pool(max={memory}) --resource arena(cuda)");
    assert_eq!(args.memory.map(MemorySize::bytes), Some(24 << 30));
    assert_eq!(args.configurations().len(), 2);
    assert_eq!(args.configurations()[0].text(1 << 30), "pool(max=1024MiB)");
}

#[test]
fn json_without_a_file_is_printed() {
    let json = |line: &str| replay(line).outputs.json;
    assert_eq!(json("rmm replay --json a.csv"), Some("-".into()));
    assert_eq!(json("rmm replay a.csv --json=-"), Some("-".into()));
    assert_eq!(json("rmm replay a.csv"), None);
    let doctor = parse("rmm doctor --json").expect("valid");
    let outputs = OutputArgs { json: Some("-".into()), html: None };
    assert_eq!(doctor, Command::Doctor(DoctorArgs { outputs }));
}

#[test]
fn resource_names_are_those_of_the_command_line() {
    for name in ReplayResource::names() {
        assert_eq!(resource(name).to_string(), *name);
        assert!(rmm_spec::stacks::named(name).is_some(), "{name} has no specification");
    }
}

#[test]
fn the_default_is_the_default_pool() {
    let attribute = rmm_sys::CuDeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    let args = replay("rmm replay a.csv");
    for (has_virtual, expected) in [(1, ["pool", "virtual"]), (0, ["pool", "cuda"])] {
        let _machine = rmm_sim::Machine::builder().attribute(attribute, has_virtual).enter();
        let [resource] = &args.distinct_resources()[..] else { panic!("one is the default") };
        let made = resource.build().expect("it can be made");
        assert!(made.stack().map(rmm_core::SynchronousResource::name).eq(expected));
        let over_cuda = "pool-cuda".parse::<ReplayResource>().expect("a name").build();
        assert!(
            over_cuda
                .expect("it can be made")
                .stack()
                .map(rmm_core::SynchronousResource::name)
                .eq(["pool", "cuda"])
        );
    }
}

#[test]
fn resources_are_named_or_described() {
    let args = replay("rmm replay a.csv --resource pool,statistics(pool(cuda,max=1GiB)),pool");
    let expected = ["pool", "statistics(pool(cuda,max=1GiB))"].map(resource);
    assert_eq!(args.distinct_resources(), expected);
    let error = parse("rmm replay a.csv --resource pool,limiting(cuda)").expect_err("no limit");
    let text = error.to_string();
    assert!(
        text.contains("`limiting` needs `limit=`\n  limiting(cuda)\n               ^"),
        "{text}"
    );
}

#[test]
fn bad_usage_is_refused() {
    for (line, kind) in [
        ("rmm", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
        ("rmm replay", ErrorKind::MissingRequiredArgument),
        ("rmm replay a.csv --resource arena", ErrorKind::ValueValidation),
        ("rmm replay a.csv --device gpu", ErrorKind::ValueValidation),
        ("rmm replay a.csv --device -1", ErrorKind::UnknownArgument),
        ("rmm replay a.csv --repeat 0", ErrorKind::ValueValidation),
        ("rmm replay a.csv --threads 4", ErrorKind::InvalidValue),
        ("rmm replay a.csv --memory 2GiB", ErrorKind::MissingRequiredArgument),
        ("rmm replay a.csv --check --memory 2XB", ErrorKind::ValueValidation),
        ("rmm record", ErrorKind::InvalidSubcommand),
        ("rmm check --typo -- prog", ErrorKind::UnknownArgument),
        ("rmm check -t -- prog", ErrorKind::UnknownArgument),
        ("rmm check", ErrorKind::MissingRequiredArgument),
        ("rmm completions sh", ErrorKind::InvalidValue),
        ("rmm doctor --color pink", ErrorKind::InvalidValue),
    ] {
        let error = parse(line).expect_err(line);
        assert_eq!(error.kind(), kind, "{line}: {error}");
        assert_eq!(error.exit_code(), 2, "{line}");
    }
    let error = parse("rmm replay a.csv --device gpu").expect_err("no such device").to_string();
    assert!(
        error.contains("invalid value 'gpu' for '--device <auto|sim|N>': expected auto, sim or"),
        "{error}"
    );
}

#[test]
fn help_has_examples_and_exit_statuses() {
    let help = parse("rmm replay --help").expect_err("help").to_string();
    for part in ["Examples:", "rmm replay train.csv.gz", "[default: pool]", "cuda-async"] {
        assert!(help.contains(part), "{part:?} is missing in\n{help}");
    }
}

/// The help of the program and of each command, short and long.
fn all_help() -> Vec<(String, String)> {
    let program = Cli::command();
    let names = program.get_subcommands().map(|command| format!("rmm {}", command.get_name()));
    let commands = std::iter::once("rmm".to_owned()).chain(names);
    let lines =
        commands.flat_map(|command| ["-h", "--help"].map(|help| format!("{command} {help}")));
    let help = |line: String| {
        let help = parse(&line).expect_err("help").to_string();
        (line, help)
    };
    lines.map(help).collect()
}

#[test]
fn help_fits_80_columns() {
    for (line, help) in all_help() {
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(wide, Vec::<&str>::new(), "{line}");
    }
}

#[test]
fn each_command_says_its_own_exit_statuses() {
    for (line, help) in all_help().into_iter().filter(|(line, _)| line.ends_with(" --help")) {
        let is_program = line == "rmm --help";
        assert_eq!(help.contains("\nExit statuses:\n  0  "), !is_program, "{line}: {help}");
    }
}

#[test]
fn what_follows_the_program_is_its_own() {
    let cli = Cli::try_parse_from(["rmm", "check", "--no-leaks", "--", "./a", "--report", "x"]);
    let Command::Check(args) = cli.expect("valid").command else { panic!("a check") };
    assert!(args.no_leaks && args.outputs == OutputArgs::default());
    assert_eq!(args.program, ["./a", "--report", "x"]);
}
