//! The frames of a call site.

/// One frame of a site, `file:line function`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frame<'a> {
    /// Empty if unknown.
    pub(super) file: &'a str,
    /// 0 if unknown.
    pub(super) line: u32,
    pub(super) function: &'a str,
}

/// The frames of a site, innermost first. A part of another form is a function without a file.
pub(super) fn frames(site: &str) -> impl Iterator<Item = Frame<'_>> {
    site.split(" < ").filter(|part| !part.is_empty()).map(frame)
}

fn frame(part: &str) -> Frame<'_> {
    // The file may have a colon, and the function too: the line ends at a space or at the end.
    let ends = part.match_indices(':').map(|(at, _)| at);
    let split = ends.into_iter().find_map(|at| {
        let behind = &part[at + 1..];
        let (number, function) = behind.split_once(' ').unwrap_or((behind, ""));
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let line = number.parse().ok().filter(|_| is_number)?;
        Some((&part[..at], line, function))
    });
    match split {
        Some((file, line, "")) => Frame { file, line, function: file },
        Some((file, line, function)) => Frame { file, line, function },
        None => Frame { file: "", line: 0, function: part },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_cut_into_frames() {
        let site = r"C:\a b.py:12 step < train.cpp:3 std::f<a, 4>(int) < main.py:7 < run";
        let found: Vec<_> =
            frames(site).map(|frame| (frame.file, frame.line, frame.function)).collect();
        assert_eq!(
            found,
            [
                (r"C:\a b.py", 12, "step"),
                ("train.cpp", 3, "std::f<a, 4>(int)"),
                ("main.py", 7, "main.py"),
                ("", 0, "run"),
            ]
        );
        assert_eq!(frames("").count(), 0);
    }
}
