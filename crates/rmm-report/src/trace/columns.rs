//! What is known about events beyond the calls, a column for each kind; a column of which nothing
//! is known takes no memory.

/// Columns with one value an event, or with none at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    /// Nanoseconds since the first event; empty if a time could not be read.
    times: Vec<u64>,
    addresses: Vec<u64>,
    tags: Indices,
    sites: Indices,
    devices: Indices,
}

/// What the columns hold for one event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) time: Option<u64>,
    pub(super) address: u64,
    pub(super) tag: u32,
    pub(super) site: u32,
    pub(super) device: u32,
}

impl Columns {
    /// Adds the cell of event `index`, the next one.
    pub(super) fn push(&mut self, index: usize, cell: Cell) {
        match cell.time {
            Some(time) if self.times.len() == index => self.times.push(time),
            _ => self.times = Vec::new(),
        }
        self.addresses.push(cell.address);
        self.tags.push(index, cell.tag);
        self.sites.push(index, cell.site);
        self.devices.push(index, cell.device);
    }

    /// Changes the tag of an event that has been added.
    pub(super) fn set_tag(&mut self, index: usize, tag: u32) {
        self.tags.set(index, tag);
    }

    pub(super) fn time(&self, index: usize) -> Option<u64> {
        self.times.get(index).copied()
    }

    pub(super) fn has_times(&self) -> bool {
        !self.times.is_empty()
    }

    pub(super) fn address(&self, index: usize) -> u64 {
        self.addresses.get(index).copied().unwrap_or(0)
    }

    pub(super) fn tag(&self, index: usize) -> u32 {
        self.tags.get(index)
    }

    pub(super) fn site(&self, index: usize) -> u32 {
        self.sites.get(index)
    }

    pub(super) fn device(&self, index: usize) -> u32 {
        self.devices.get(index)
    }
}

/// An index an event, 0 for "none"; what follows the last one that is not 0 is not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Indices(Vec<u32>);

impl Indices {
    fn push(&mut self, index: usize, value: u32) {
        if value != 0 {
            self.0.resize(index, 0);
            self.0.push(value);
        }
    }

    fn set(&mut self, index: usize, value: u32) {
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = value;
    }

    fn get(&self, index: usize) -> u32 {
        self.0.get(index).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: Cell = Cell { time: Some(5), address: 0x10, tag: 0, site: 0, device: 0 };

    #[test]
    fn indices_that_are_none_take_no_memory() {
        let mut columns = Columns::default();
        columns.push(0, CELL);
        columns.push(1, CELL);
        assert!(columns.tags.0.is_empty());
        columns.push(2, Cell { tag: 7, ..CELL });
        columns.push(3, CELL);
        let tags: Vec<u32> = (0..5).map(|index| columns.tag(index)).collect();
        assert_eq!((tags, columns.tags.0.len()), (vec![0, 0, 7, 0, 0], 3));
    }

    #[test]
    fn one_unknown_time_makes_all_unknown() {
        let mut columns = Columns::default();
        columns.push(0, CELL);
        columns.push(1, Cell { time: None, ..CELL });
        columns.push(2, CELL);
        assert_eq!((columns.time(0), columns.time(2), columns.has_times()), (None, None, false));
    }
}
