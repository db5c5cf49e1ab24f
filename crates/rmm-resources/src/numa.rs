//! NUMA nodes and huge pages, where the system has them. All of it is advice: without it, memory is
//! farther away, not wrong.

#[cfg(target_os = "linux")]
mod on_linux {
    use std::fs::read_to_string;
    use std::path::Path;

    use rustix::mm::{Advice, madvise};
    use rustix::thread::{CpuSet, sched_setaffinity};

    /// The processors of a node.
    pub(crate) struct Processors(CpuSet);

    /// Reads a list of processors: `0-3,8`.
    fn parse(list: &str) -> Option<CpuSet> {
        let mut set = CpuSet::new();
        for range in list.trim().split(',').filter(|range| !range.is_empty()) {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
            for processor in from..=to.min(CpuSet::MAX_CPU - 1) {
                set.set(processor);
            }
        }
        (set.count() > 0).then_some(set)
    }

    /// The processors of a node; `None` if the system does not say, or the node has none.
    pub(crate) fn processors_of(node: u32) -> Option<Processors> {
        let file = format!("/sys/devices/system/node/node{node}/cpulist");
        parse(&read_to_string(Path::new(&file)).ok()?).map(Processors)
    }

    /// Keeps the calling thread on these processors, as far as the program may use them.
    pub(crate) fn run_on(processors: &Processors) {
        // If that fails, the thread runs on any processor.
        let _ignored = sched_setaffinity(None, &processors.0);
    }

    /// Asks for huge pages: 512 times fewer to touch and to pin.
    pub(crate) fn prefer_huge_pages(start: *mut u8, bytes: usize) {
        // SAFETY: the advice changes no contents, and does not concern what is not mapped. If the
        // system refuses, the pages are small.
        let _ignored = unsafe { madvise(start.cast(), bytes, Advice::LinuxHugepage) };
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn lists_of_processors_have_ranges() {
            let of = |list| {
                let set = parse(list)?;
                Some((0..CpuSet::MAX_CPU).filter(|&it| set.is_set(it)).collect::<Vec<_>>())
            };
            assert_eq!(of("0-2,5\n"), Some(vec![0, 1, 2, 5]));
            assert_eq!(of("7"), Some(vec![7]));
            assert_eq!((of(""), of("\n"), of("a-b")), (None, None, None));
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    /// The processors of a node.
    pub(crate) struct Processors;

    pub(crate) fn processors_of(_node: u32) -> Option<Processors> {
        None
    }

    pub(crate) fn run_on(_processors: &Processors) {}

    pub(crate) fn prefer_huge_pages(_start: *mut u8, _bytes: usize) {}
}

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{prefer_huge_pages, processors_of, run_on};
#[cfg(target_os = "linux")]
pub(crate) use on_linux::{prefer_huge_pages, processors_of, run_on};
