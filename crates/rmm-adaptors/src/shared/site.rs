//! Call sites: where in the program a call comes from, as a text that is kept once for each place.

mod native;
mod seen;
mod stack;
mod text;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{LazyLock, OnceLock, RwLock};

use rmm_core::fork;

use text::SiteText;

/// The most frames of a site.
const FRAMES: usize = 4;

/// The most sites of a process: what a [`Site`] has room for.
pub(crate) const MOST_SITES: usize = 1 << 14;

/// Passes a function the frames of the calling thread in the language of the program, the innermost
/// first, until it returns `false`: file, line and name of the function.
///
/// The first argument says whether it may wait for a lock of the language. Where it may not, it
/// passes nothing in a thread that came without that lock. It may run with the lock of an adaptor
/// held, so it must not call a resource, nor run code of the program.
pub type NameFrames = fn(bool, &mut dyn FnMut(&str, u32, &str) -> bool);

/// A number for the frames of the calling thread that [`NameFrames`] would pass, at most as many
/// as the argument says: other frames have another number as long as the process runs. `None` where
/// it cannot say, or would have to wait. The same restrictions hold.
pub type NumberFrames = fn(usize) -> Option<u64>;

static NAME_FRAMES: OnceLock<(NameFrames, NumberFrames)> = OnceLock::new();

/// Has call sites named and numbered by functions, for bindings to another language. The first call
/// counts.
#[doc(hidden)]
pub fn name_frames_by(name: NameFrames, number: NumberFrames) {
    // The first ones stay.
    let _ignored = NAME_FRAMES.set((name, number));
}

/// Whether sites take less than a microsecond: those of a program of another language.
pub(crate) fn are_cheap() -> bool {
    NAME_FRAMES.get().is_some()
}

/// The innermost `most` frames of the calling thread in the language of the program, for a person:
/// a line `file:line in function` for each. `None` if the thread runs no code of that language.
pub(crate) fn named_stack(most: usize) -> Option<String> {
    let (mut lines, mut frames) = (String::new(), 0);
    let (name, _) = NAME_FRAMES.get()?;
    name(true, &mut |file, line, function| {
        let end = if frames == 0 { "" } else { "\n" };
        // A string takes all.
        let _ignored = write!(lines, "{end}{file}:{line} in {function}");
        frames += 1;
        frames < most
    });
    (frames > 0).then_some(lines)
}

/// Where in the program a call comes from: a number for its text. Numbers are never removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Site(u16);

/// The texts of all sites, and the number of each.
#[derive(Default)]
struct Sites {
    texts: Vec<&'static str>,
    numbers: HashMap<&'static str, Site>,
}

static SITES: LazyLock<RwLock<Sites>> = LazyLock::new(RwLock::default);

impl Site {
    /// No place is known.
    pub(crate) const NONE: Self = Self(0);

    /// The place that the calling thread is at: `file:line function` for up to [`FRAMES`] frames of
    /// the program, the innermost first, with ` < ` between them.
    ///
    /// In a program of another language it takes less than a microsecond. Otherwise a few, and
    /// milliseconds for a stack that was not seen before, whose symbols are resolved.
    pub(crate) fn here() -> Self {
        match NAME_FRAMES.get() {
            Some((name, number)) => {
                let resolved = || {
                    let mut text = SiteText::default();
                    let mut frame = |file: &str, line, function: &str| {
                        text.frame(file, line, function) < FRAMES
                    };
                    name(false, &mut frame);
                    Self::named(text.as_str())
                };
                let site = number(FRAMES).and_then(|stack| seen::site(stack, resolved));
                site.unwrap_or_else(resolved)
            }
            None => native::here(),
        }
    }

    /// The site with this text; [`NONE`](Self::NONE) if it is empty, or if the process has
    /// [`MOST_SITES`].
    fn named(text: &str) -> Self {
        if text.is_empty() {
            return Self::NONE;
        }
        if let Some(&site) = fork::read(&SITES).numbers.get(text) {
            return site;
        }
        let mut sites = fork::write(&SITES);
        if let Some(&site) = sites.numbers.get(text) {
            return site;
        }
        let number = sites.texts.len() + 1;
        let Some(number) = u16::try_from(number).ok().filter(|_| number < MOST_SITES) else {
            return Self::NONE;
        };
        let text: &'static str = Box::leak(text.into());
        sites.texts.push(text);
        sites.numbers.insert(text, Self(number));
        Self(number)
    }

    /// `file:line function`, or several with ` < ` between them; empty if the place is unknown.
    pub(crate) fn text(self) -> &'static str {
        let Some(index) = usize::from(self.0).checked_sub(1) else { return "" };
        fork::read(&SITES).texts.get(index).copied().unwrap_or_default()
    }

    /// The site's number, below [`MOST_SITES`].
    pub(crate) fn number(self) -> u16 {
        self.0
    }

    /// The site with this [number](Self::number).
    pub(crate) fn numbered(number: u16) -> Self {
        Self(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number() {
        let site = Site::named("a.rs:1 f");
        assert_eq!(Site::named("a.rs:1 f"), site);
        assert_ne!(Site::named("a.rs:2 f"), site);
        assert_eq!((site.text(), Site::numbered(site.number())), ("a.rs:1 f", site));
        assert_eq!((Site::named(""), Site::NONE.text()), (Site::NONE, ""));
    }
}
