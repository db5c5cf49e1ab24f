//! The meaning of a specification: which resources, over which, with which options.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use rmm_adaptors::{LogColumn, PoolPreset};
use rmm_resources::{Budget, Location, NamedExport};

use crate::arguments::{Arguments, same};
use crate::error::Fault;
use crate::plain::{Adaptor, Base};
use crate::syntax::Call;
use crate::value::{budget, columns, count, is_on, layout_size, number, powers, size};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    Base(Base),
    SamHeadroom {
        headroom: u64,
    },
    CudaAsync {
        initial: Option<u64>,
    },
    Virtual {
        export: Option<NamedExport>,
    },
    HostVirtual {
        location: Location,
        export: Option<NamedExport>,
    },
    /// Over device memory of either kind if no upstream is named.
    Pool {
        upstream: Option<Box<Self>>,
        options: PoolOptions,
    },
    Arena {
        upstream: Box<Self>,
        size: Option<u64>,
    },
    FixedSize {
        upstream: Box<Self>,
        block: Option<u64>,
        blocks: Option<usize>,
        max: Option<u64>,
    },
    Binning {
        upstream: Box<Self>,
        powers: RangeInclusive<u32>,
    },
    Limiting {
        upstream: Box<Self>,
        limit: u64,
    },
    Aligned {
        upstream: Box<Self>,
        alignment: usize,
        threshold: usize,
    },
    Logging {
        upstream: Box<Self>,
        file: Option<PathBuf>,
        per_device: bool,
        auto_flush: bool,
        columns: Vec<LogColumn>,
    },
    Recorder {
        upstream: Box<Self>,
        events: Option<usize>,
        sites: bool,
        oom_report: Option<PathBuf>,
    },
    Tracking {
        upstream: Box<Self>,
        stacks: bool,
    },
    FailureCallback {
        upstream: Box<Self>,
        retries: u32,
    },
    Plain {
        adaptor: Adaptor,
        upstream: Box<Self>,
    },
    Fallback {
        first: Box<Self>,
        second: Box<Self>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PoolOptions {
    pub(crate) initial: Option<u64>,
    pub(crate) max: Option<Budget>,
    pub(crate) soft_max: Option<u64>,
    pub(crate) preset: Option<PoolPreset>,
}

/// Resources with options.
const OTHERS: [&str; 15] = [
    "sam-headroom",
    "cuda-async",
    "virtual",
    "host-virtual",
    "pool",
    "arena",
    "fixed-size",
    "binning",
    "limiting",
    "aligned",
    "logging",
    "recorder",
    "tracking",
    "failure-callback",
    "fallback",
];

fn preset(text: &str) -> Result<PoolPreset, String> {
    match text {
        "throughput" => Ok(PoolPreset::Throughput),
        "low-latency" => Ok(PoolPreset::LowLatency),
        "compact" => Ok(PoolPreset::Compact),
        "deterministic" => Ok(PoolPreset::Deterministic),
        _ => Err("expected throughput, low-latency, compact or deterministic".to_owned()),
    }
}

fn export(text: &str) -> Result<NamedExport, String> {
    text.parse().map_err(str::to_owned)
}

fn numa_node(text: &str) -> Result<Location, String> {
    if same("device", text) {
        return Ok(Location::HostNumaOfDevice);
    }
    let node = text.parse().map_err(|_| "expected the number of a NUMA node, or device".to_owned());
    node.map(Location::HostNuma)
}

fn named<T: Copy>(all: &[(&str, T)], name: &str) -> Option<T> {
    all.iter().find(|(known, _)| same(known, name)).map(|&(_, value)| value)
}

impl Plan {
    pub(crate) fn new(call: Call<'_>) -> Result<Self, Fault> {
        let (name, offset) = (call.name, call.offset);
        let mut arguments = Arguments::of(call)?;
        let plan = if let Some(base) = named(Base::ALL, name) {
            Self::Base(base)
        } else if let Some(adaptor) = named(Adaptor::ALL, name) {
            Self::Plain { adaptor, upstream: upstream(&mut arguments)? }
        } else if let Some(known) = OTHERS.into_iter().find(|known| same(known, name)) {
            Self::with_options(known, &mut arguments)?
        } else {
            return Err(Fault::at(offset, unknown(name)));
        };
        arguments.end().map(|()| plan)
    }

    fn with_options(name: &str, arguments: &mut Arguments<'_>) -> Result<Self, Fault> {
        if name == "sam-headroom" {
            let headroom = arguments.needed("headroom", size)?;
            return Ok(Self::SamHeadroom { headroom });
        }
        if name == "cuda-async" {
            return Ok(Self::CudaAsync { initial: arguments.option("initial", size)? });
        }
        if name == "virtual" {
            return Ok(Self::Virtual { export: arguments.option("export", export)? });
        }
        if name == "host-virtual" {
            let location = arguments.option("numa-node", numa_node)?.unwrap_or_default();
            let export = arguments.option("export", export)?;
            return Ok(Self::HostVirtual { location, export });
        }
        if name == "pool" {
            let upstream = arguments.optional_upstream().map(Self::new).transpose()?.map(Box::new);
            let options = PoolOptions {
                initial: arguments.option("initial", size)?,
                max: arguments.option("max", budget)?,
                soft_max: arguments.option("soft-max", size)?,
                preset: arguments.option("preset", preset)?,
            };
            return Ok(Self::Pool { upstream, options });
        }
        let upstream = upstream(arguments)?;
        let on = |value: Option<bool>| value.unwrap_or(false);
        Ok(match name {
            "arena" => Self::Arena { upstream, size: arguments.option("size", size)? },
            "fixed-size" => Self::FixedSize {
                upstream,
                block: arguments.option("block", size)?,
                blocks: arguments.option("blocks", number)?,
                max: arguments.option("max", size)?,
            },
            "binning" => Self::Binning { upstream, powers: arguments.needed("bins", powers)? },
            "limiting" => Self::Limiting { upstream, limit: arguments.needed("limit", size)? },
            "aligned" => Self::Aligned {
                upstream,
                alignment: arguments.needed("alignment", layout_size)?,
                threshold: arguments.option("threshold", layout_size)?.unwrap_or(0),
            },
            "logging" => Self::Logging {
                upstream,
                file: arguments.option("file", |text| Ok(text.into()))?,
                per_device: on(arguments.option("per-device", is_on)?),
                auto_flush: on(arguments.option("auto-flush", is_on)?),
                columns: arguments.option("columns", columns)?.unwrap_or_default(),
            },
            "recorder" => Self::Recorder {
                upstream,
                events: arguments.option("events", number)?,
                sites: on(arguments.option("sites", is_on)?),
                oom_report: arguments.option("oom-report", |text| Ok(text.into()))?,
            },
            "tracking" => {
                Self::Tracking { upstream, stacks: on(arguments.option("stacks", is_on)?) }
            }
            "failure-callback" => {
                Self::FailureCallback { upstream, retries: arguments.needed("retries", count)? }
            }
            _ => Self::Fallback { first: upstream, second: self::upstream(arguments)? },
        })
    }
}

fn upstream(arguments: &mut Arguments<'_>) -> Result<Box<Plan>, Fault> {
    Plan::new(arguments.upstream()?).map(Box::new)
}

fn unknown(name: &str) -> String {
    let bases = Base::ALL.iter().map(|&(known, _)| known);
    let adaptors = Adaptor::ALL.iter().map(|&(known, _)| known);
    let mut all: Vec<&str> = bases.chain(adaptors).chain(OTHERS).collect();
    all.sort_unstable();
    format!("no resource is called `{name}`; there are {}", all.join(", "))
}
