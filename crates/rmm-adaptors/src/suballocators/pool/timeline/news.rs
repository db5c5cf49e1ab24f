//! Which lists a request has to look at: those of which more is complete than at the last look, and
//! those that its stream has waited for. All others hold nothing for it, so a request does not walk
//! over the lists of all streams.
//!
//! ```text
//!   event of A complete --> news: A       a request looks at A, whose complete blocks become idle
//!   event of B complete --> news: A, B
//! ```

#![forbid(unsafe_code)]

use super::Timeline;
use crate::suballocators::pool::values::units::{ListId, Point};

impl Timeline {
    /// Queues a list: some of its blocks may be complete that were not when it was last looked at.
    pub(crate) fn note_news(&mut self, list: ListId) {
        if let Some(slot) = self.slots.get_mut(list.index())
            && !slot.has_news
        {
            slot.has_news = true;
            self.news.push_back(list);
        }
    }

    /// Takes the list out of the queue that has been in it for longest.
    pub(crate) fn next_news(&mut self) -> Option<ListId> {
        let list = self.news.pop_front()?;
        self.slots[list.index()].has_news = false;
        Some(list)
    }

    /// The lists that the stream of `list` has waited for, and not all of what it has waited for is
    /// known to be complete.
    pub(crate) fn waited_for(&self, list: ListId) -> impl Iterator<Item = ListId> + '_ {
        let is_needed = |&(other, point): &(ListId, Point)| {
            self.slots.get(other.index()).is_some_and(|slot| slot.done < point)
        };
        self.slots[list.index()].frontier.iter().filter(is_needed).map(|(other, _)| other)
    }
}
