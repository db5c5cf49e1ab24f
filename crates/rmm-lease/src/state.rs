//! Who may write and read, and what is allocated.
//!
//! ```text
//! empty --writer--> writing --commit--> committed <--> read by one or more
//!   ^                  |                    |
//!   +---- its end -----+ <----- writer -----+   (frees what was committed)
//! ```
//!
//! Parts of allocations can have names, which go with them.
//!
//! A session is an open connection, so a process that dies gives its lock back.

use std::collections::{BTreeMap, VecDeque};

use crate::protocol::{
    AllocationRecord, Content, Granted, Lock, LockHolder, MAX_CONTENT, MAX_FRAME, MAX_NAME,
};

/// The number of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u64);

/// Why a request was not done. Nothing has changed, and the session goes on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// For the client.
    pub message: String,
    /// Whether there is not enough memory.
    pub out_of_memory: bool,
}

impl Refusal {
    /// A refusal for another reason than a lack of memory.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), out_of_memory: false }
    }

    /// A refusal for lack of memory.
    pub fn out_of_memory(message: impl Into<String>) -> Self {
        Self { message: message.into(), out_of_memory: true }
    }
}

/// What a list of all allocations may take in its frame, and what a record takes beside its name.
const LIST: usize = MAX_FRAME - 128;
const RECORD: usize = 48;

/// How many characters of a name are quoted.
const QUOTED: usize = 80;

/// A name as it is quoted in a refusal: the begin of a long one, so that each fits into a frame.
fn quoted(name: &str) -> String {
    match name.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("\"{}...\"", name[..end].escape_debug()),
        None => format!("{name:?}"),
    }
}

fn require_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::new("a name must not be empty"));
    }
    if name.len() > MAX_NAME {
        return Err(Refusal::new(format!("a name has at most {MAX_NAME} bytes")));
    }
    Ok(())
}

struct Waiting {
    session: SessionId,
    process: u32,
    lock: Lock,
}

struct Allocation<M> {
    id: String,
    bytes: u64,
    memory: M,
}

/// The rules of an owner: one writer or many readers, and the allocations. `M` is the memory, and
/// frees itself when dropped. Nothing here waits, reads or writes.
pub struct State<M> {
    limit: u64,
    waiting: VecDeque<Waiting>,
    /// # Invariant
    /// One writer, or only readers. If there are readers, `committed`.
    holders: BTreeMap<SessionId, LockHolder>,
    committed: bool,
    allocations: Vec<Allocation<M>>,
    /// # Invariant
    /// Each is a part of one of the allocations.
    names: BTreeMap<String, Content>,
}

impl<M> std::fmt::Debug for State<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("holders", &self.holders)
            .field("waiting", &self.waiting.len())
            .field("committed", &self.committed)
            .field("allocations", &self.allocations.len())
            .finish_non_exhaustive()
    }
}

impl<M> State<M> {
    /// Nothing is allocated; at most `limit` bytes will be.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            waiting: VecDeque::new(),
            holders: BTreeMap::new(),
            committed: false,
            allocations: Vec::new(),
            names: BTreeMap::new(),
        }
    }

    /// A session asks for a lock. It has it once [`admit`](Self::admit) returns it.
    pub fn request(&mut self, session: SessionId, process: u32, lock: Lock) {
        self.waiting.push_back(Waiting { session, process, lock });
    }

    /// The sessions that get their locks now, in the order in which they asked. A reader that asks
    /// while a writer waits comes after the writer. A writer's lock frees what was committed.
    pub fn admit(&mut self) -> Vec<(SessionId, Granted)> {
        let mut admitted = Vec::new();
        while let Some((position, lock)) = self.next() {
            let Some(waiting) = self.waiting.remove(position) else { break };
            if lock == Granted::Write {
                self.clear();
                self.committed = false;
            }
            let holder = LockHolder { process: waiting.process, lock };
            self.holders.insert(waiting.session, holder);
            admitted.push((waiting.session, lock));
        }
        admitted
    }

    /// The first session of the queue that can be admitted.
    fn next(&self) -> Option<(usize, Granted)> {
        let is_free = self.holders.is_empty();
        let writes = self.holders.values().any(|holder| holder.lock == Granted::Write);
        let writer_waits = self.waiting.iter().any(|waiting| waiting.lock == Lock::Write);
        let may_read = self.committed && !writes && !writer_waits;
        self.waiting.iter().enumerate().find_map(|(position, waiting)| {
            let granted = match waiting.lock {
                Lock::Write if is_free => Granted::Write,
                Lock::Read | Lock::WriteOrRead if may_read => Granted::Read,
                Lock::WriteOrRead if is_free && !self.committed && !writer_waits => Granted::Write,
                _ => return None,
            };
            Some((position, granted))
        })
    }

    /// The connection of a session has ended. What a writer had not committed is freed.
    pub fn close(&mut self, session: SessionId) {
        self.waiting.retain(|waiting| waiting.session != session);
        let holder = self.holders.remove(&session);
        if holder.is_some_and(|holder| holder.lock == Granted::Write) {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.names.clear();
        self.allocations.clear();
    }

    /// The processes that hold the lock.
    pub fn holders(&self) -> Vec<LockHolder> {
        self.holders.values().copied().collect()
    }

    /// Whether a writer's allocations are published.
    pub fn is_committed(&self) -> bool {
        self.committed
    }

    /// Adds memory under a name of the client's.
    ///
    /// # Errors
    /// If the session does not write, the name is empty, taken or longer than [`MAX_NAME`] bytes,
    /// the owner's limit would be exceeded, or `make` refuses.
    pub fn allocate(
        &mut self,
        session: SessionId,
        id: &str,
        bytes: u64,
        make: impl FnOnce() -> Result<M, Refusal>,
    ) -> Result<(), Refusal> {
        self.require_writer(session)?;
        require_name(id)?;
        if self.find(id).is_ok() {
            return Err(Refusal::new(format!("there is an allocation {} already", quoted(id))));
        }
        let listed: usize = self.allocations.iter().map(|one| one.id.len() + RECORD).sum();
        if listed + id.len() + RECORD > LIST {
            return Err(Refusal::new("more allocations than a list can name"));
        }
        let used = self.bytes();
        if used.checked_add(bytes).is_none_or(|sum| sum > self.limit) {
            return Err(Refusal::out_of_memory(format!(
                "{bytes} bytes: {used} of at most {} are allocated",
                self.limit
            )));
        }
        let memory = make()?;
        self.allocations.push(Allocation { id: id.to_owned(), bytes, memory });
        Ok(())
    }

    /// The memory of a name.
    ///
    /// # Errors
    /// If the session has no lock, or nothing has that name.
    pub fn export(&self, session: SessionId, id: &str) -> Result<&M, Refusal> {
        self.require_holder(session)?;
        Ok(&self.allocations[self.find(id)?].memory)
    }

    /// Frees the memory of a name.
    ///
    /// # Errors
    /// If the session does not write, or nothing has that name.
    pub fn free(&mut self, session: SessionId, id: &str) -> Result<(), Refusal> {
        self.require_writer(session)?;
        let position = self.find(id)?;
        self.names.retain(|_, content| content.allocation_id != id);
        self.allocations.remove(position);
        Ok(())
    }

    /// All allocations, in the order in which they were made.
    ///
    /// # Errors
    /// If the session has no lock.
    pub fn list(&self, session: SessionId) -> Result<Vec<AllocationRecord>, Refusal> {
        self.require_holder(session)?;
        let record = |one: &Allocation<M>| AllocationRecord {
            allocation_id: one.id.clone(),
            aligned_size: one.bytes,
        };
        Ok(self.allocations.iter().map(record).collect())
    }

    /// Gives a part of an allocation a name, or another one to a name.
    ///
    /// # Errors
    /// If the session does not write, the name is empty or longer than [`MAX_NAME`] bytes, there is
    /// no such allocation or it does not contain the part, or these are more names or bytes than an
    /// answer can have.
    pub fn put(&mut self, session: SessionId, name: &str, content: Content) -> Result<(), Refusal> {
        self.require_writer(session)?;
        require_name(name)?;
        let Content { allocation_id, offset, size, bytes } = &content;
        let whole = self.allocations[self.find(allocation_id)?].bytes;
        if offset.checked_add(*size).is_none_or(|end| end > whole) {
            return Err(Refusal::new(format!(
                "{size} bytes from {offset} on are no part of {}, of {whole} bytes",
                quoted(allocation_id)
            )));
        }
        if bytes.len() > MAX_CONTENT {
            return Err(Refusal::new(format!(
                "more than {MAX_CONTENT} bytes about {}",
                quoted(name)
            )));
        }
        let others = self.names.keys().filter(|other| *other != name);
        let listed: usize = others.map(|other| other.len() + RECORD).sum();
        if listed + name.len() + RECORD > LIST {
            return Err(Refusal::new("more names than a list can have"));
        }
        self.names.insert(name.to_owned(), content);
        Ok(())
    }

    /// What a name stands for.
    ///
    /// # Errors
    /// If the session has no lock, or there is no such name.
    pub fn get(&self, session: SessionId, name: &str) -> Result<&Content, Refusal> {
        self.require_holder(session)?;
        self.names
            .get(name)
            .ok_or_else(|| Refusal::new(format!("there is no name {}", quoted(name))))
    }

    /// All names, in their order as text.
    ///
    /// # Errors
    /// If the session has no lock.
    pub fn names(&self, session: SessionId) -> Result<Vec<String>, Refusal> {
        self.require_holder(session)?;
        Ok(self.names.keys().cloned().collect())
    }

    /// Publishes the allocations: the writer becomes a reader.
    ///
    /// # Errors
    /// If the session does not write.
    pub fn commit(&mut self, session: SessionId) -> Result<(), Refusal> {
        self.require_writer(session)?.lock = Granted::Read;
        self.committed = true;
        Ok(())
    }

    /// Frees the allocations of the writer, which has no lock any more.
    ///
    /// # Errors
    /// If the session does not write.
    pub fn abort(&mut self, session: SessionId) -> Result<(), Refusal> {
        self.require_writer(session)?;
        self.close(session);
        Ok(())
    }

    /// The bytes of all allocations.
    pub fn bytes(&self) -> u64 {
        self.allocations.iter().map(|one| one.bytes).sum()
    }

    fn find(&self, id: &str) -> Result<usize, Refusal> {
        let position = self.allocations.iter().position(|one| one.id == id);
        position.ok_or_else(|| Refusal::new(format!("there is no allocation {}", quoted(id))))
    }

    fn require_holder(&self, session: SessionId) -> Result<(), Refusal> {
        let is_holder = self.holders.contains_key(&session);
        is_holder.then_some(()).ok_or_else(|| Refusal::new("the session has no lock"))
    }

    fn require_writer(&mut self, session: SessionId) -> Result<&mut LockHolder, Refusal> {
        let holder = self.holders.get_mut(&session);
        holder
            .filter(|holder| holder.lock == Granted::Write)
            .ok_or_else(|| Refusal::new("the session does not have the lock to write"))
    }
}
