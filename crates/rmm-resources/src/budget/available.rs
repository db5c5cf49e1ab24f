//! The host memory that the process could have: what the system has left, and what the memory
//! limits of its control groups leave.

#![forbid(unsafe_code)]

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// The bytes, by the files below `root`; `None` if the system does not say.
pub(super) fn available(root: &Path) -> Option<u64> {
    let of_system = available_of_system(root)?;
    Some(limits(root).map(|group| group.left()).fold(of_system, u64::min))
}

/// `MemAvailable` of `/proc/meminfo`: what is free, and what the system would free at once.
fn available_of_system(root: &Path) -> Option<u64> {
    let text = read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The files of a control group: version 2 or 1.
#[derive(Clone, Copy)]
struct Names {
    limit: &'static str,
    used: &'static str,
    inactive: &'static str,
}

const VERSION_2: Names =
    Names { limit: "memory.max", used: "memory.current", inactive: "inactive_file" };
const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    inactive: "total_inactive_file",
};

/// A control group with a limit.
struct Group {
    limit: u64,
    used: u64,
    /// Page cache that has not been used lately, which is freed before the limit is reached.
    inactive: u64,
}

impl Group {
    fn read(folder: &Path, names: Names) -> Option<Self> {
        let number = |name| read_to_string(folder.join(name)).ok()?.trim().parse().ok();
        // Without a limit it says `max`, or nearly all that the number holds.
        let (limit, used) = (number(names.limit)?, number(names.used)?);
        let figures = read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let inactive = figures.lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            (name == names.inactive).then(|| value.trim().parse().ok()).flatten()
        });
        Some(Self { limit, used, inactive: inactive.unwrap_or(0) })
    }

    fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used.saturating_sub(self.inactive))
    }
}

/// The control groups of the process that have a limit, with those that contain them.
fn limits(root: &Path) -> impl Iterator<Item = Group> {
    let text = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut folders: Vec<(PathBuf, Names)> = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (mount, names) = if controllers.is_empty() {
            (root.join("sys/fs/cgroup"), VERSION_2)
        } else if controllers.split(',').any(|name| name == "memory") {
            (root.join("sys/fs/cgroup/memory"), VERSION_1)
        } else {
            continue;
        };
        // In a container the path may be the host's, which is not there: then the group is that of
        // the mount.
        let group = Path::new(path.trim_start_matches('/'));
        folders.extend(group.ancestors().map(|group| (mount.join(group), names)));
    }
    folders.into_iter().filter_map(|(folder, names)| Group::read(&folder, names))
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A machine of which 600 MiB are available.
    pub(in super::super) const MACHINE: &str =
        "MemTotal:        2097152 kB\nMemFree:          102400 kB\nMemAvailable:     614400 kB\n";

    static NEXT: AtomicU32 = AtomicU32::new(0);

    /// A folder with files, which is removed at the end.
    pub(in super::super) struct Root(PathBuf);

    impl Root {
        pub(in super::super) fn new(files: &[(&str, &str)]) -> Self {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("rmm-budget-{}-{number}", std::process::id());
            let root = Self(std::env::temp_dir().join(name));
            for (file, text) in files {
                let file = root.0.join(file);
                fs::create_dir_all(file.parent().expect("it has a folder")).expect("a folder");
                fs::write(file, text).expect("a file");
            }
            root
        }

        pub(in super::super) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ignored = fs::remove_dir_all(&self.0);
        }
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn without_limits_it_is_what_the_system_has() {
        let root = Root::new(&[("proc/meminfo", MACHINE), ("proc/self/cgroup", "0::/\n")]);
        assert_eq!(available(root.path()), Some(600 * MIB));
        let unlimited = Root::new(&[
            ("proc/meminfo", MACHINE),
            ("proc/self/cgroup", "0::/job\n"),
            ("sys/fs/cgroup/job/memory.max", "max\n"),
            ("sys/fs/cgroup/job/memory.current", "1048576\n"),
        ]);
        assert_eq!(available(unlimited.path()), Some(600 * MIB));
        assert_eq!(available(Root::new(&[]).path()), None);
    }

    #[test]
    fn the_tightest_group_counts_and_its_idle_page_cache_is_free() {
        let root = Root::new(&[
            ("proc/meminfo", MACHINE),
            ("proc/self/cgroup", "0::/slice/job\n"),
            // 400 MiB, of which 300 are used, 50 of them idle page cache.
            ("sys/fs/cgroup/slice/memory.max", "419430400\n"),
            ("sys/fs/cgroup/slice/memory.current", "314572800\n"),
            ("sys/fs/cgroup/slice/memory.stat", "anon 1\ninactive_file 52428800\n"),
            ("sys/fs/cgroup/slice/job/memory.max", "838860800\n"),
            ("sys/fs/cgroup/slice/job/memory.current", "0\n"),
        ]);
        assert_eq!(available(root.path()), Some(150 * MIB));
    }

    #[test]
    fn groups_of_the_first_version_count_too() {
        let root = Root::new(&[
            ("proc/meminfo", MACHINE),
            ("proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/docker/of-the-host\n"),
            // As in a container: the group is where the mount is.
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "209715200\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n"),
            ("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 1048576\n"),
        ]);
        assert_eq!(available(root.path()), Some(101 * MIB));
    }

    #[test]
    fn a_group_beyond_its_limit_has_nothing_left() {
        let group = Group { limit: 10, used: 30, inactive: 5 };
        assert_eq!(group.left(), 0);
    }
}
