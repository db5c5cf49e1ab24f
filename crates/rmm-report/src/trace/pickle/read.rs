//! The machine that a pickle is a program of, without the operations that call code.

use std::io::{self, BufRead, Read as _};

use super::opcode;
use super::values::{Node, Pickle, Value};

/// The bytes of memory that the values may take for each byte of the pickle, above 1 MiB.
///
/// A snapshot takes about 3, and less than 5 without stacks. A file of one-byte opcodes, each of
/// which makes a value of 40 bytes, is refused.
const BUDGET: u64 = 6;

/// The bytes of memory that the values may take at most, however long a file becomes when it is
/// decompressed: 4 GiB, which is a snapshot of more than 1 GiB.
const MOST: u64 = 4 << 30;

/// The highest protocol.
const LAST_PROTOCOL: u8 = 5;

/// The small integers that have nodes of their own: 0 to 255.
const SMALL: u32 = 3;

const NONE: Value = Value(0);
const TRUE: Value = Value(1);
const FALSE: Value = Value(2);

/// Why a pickle cannot be read, and the byte at which that shows.
#[derive(Debug)]
pub(in super::super) enum PickleError {
    /// The input fails.
    Read(io::Error),
    /// What is wrong, at this byte, from 0.
    At(u64, String),
}

/// Reads a pickle. What follows its end is not looked at.
pub(in super::super) fn read(input: impl BufRead) -> Result<Pickle, PickleError> {
    let mut machine = Machine::new(input);
    while machine.step()? {}
    Ok(machine.pickle)
}

struct Machine<R> {
    input: R,
    /// Bytes read.
    offset: u64,
    /// Where the opcode stands that is being done.
    at: u64,
    pickle: Pickle,
    stack: Vec<Value>,
    /// The heights of the stack at the marks.
    marks: Vec<usize>,
    memo: Vec<Value>,
    /// Bytes of memory that the values take.
    taken: u64,
}

impl<R: BufRead> Machine<R> {
    fn new(input: R) -> Self {
        let fixed = [Node::None, Node::Bool(true), Node::Bool(false)];
        let nodes = fixed.into_iter().chain((0..=255).map(Node::Int)).collect();
        Self {
            input,
            offset: 0,
            at: 0,
            pickle: Pickle { nodes, ..Pickle::default() },
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            taken: 0,
        }
    }

    fn error(&self, what: impl Into<String>) -> PickleError {
        PickleError::At(self.at, what.into())
    }

    /// Does one operation; returns whether another follows.
    fn step(&mut self) -> Result<bool, PickleError> {
        self.at = self.offset;
        let [opcode] = self.bytes()?;
        match opcode {
            opcode::PROTO => self.protocol()?,
            opcode::FRAME => drop(self.bytes::<8>()?),
            opcode::STOP => {
                let root = self.stack.last().copied();
                self.pickle.root = Some(root.ok_or_else(|| self.error("there is no value"))?);
                return Ok(false);
            }
            opcode::NONE => self.push(NONE)?,
            opcode::NEWTRUE => self.push(TRUE)?,
            opcode::NEWFALSE => self.push(FALSE)?,
            opcode::BININT1 => {
                let [number] = self.bytes()?;
                self.push(Value(SMALL + u32::from(number)))?;
            }
            opcode::BININT2 => {
                let number = u16::from_le_bytes(self.bytes()?);
                self.push_node(Node::Int(number.into()))?;
            }
            opcode::BININT => {
                let number = i32::from_le_bytes(self.bytes()?);
                self.push_node(Node::Int(number.into()))?;
            }
            opcode::LONG1 | opcode::LONG4 => self.long(opcode)?,
            opcode::BINFLOAT => {
                let number = f64::from_be_bytes(self.bytes()?);
                self.push_node(Node::Float(number))?;
            }
            opcode::SHORT_BINUNICODE | opcode::BINUNICODE | opcode::BINUNICODE8 => {
                self.unicode(opcode)?;
            }
            opcode::MARK => {
                self.take(8)?;
                self.marks.push(self.stack.len());
            }
            opcode::EMPTY_LIST => self.push_items(Node::List, Vec::new())?,
            opcode::EMPTY_DICT => self.push_items(Node::Dict, Vec::new())?,
            opcode::EMPTY_TUPLE => self.push_items(Node::Tuple, Vec::new())?,
            opcode::TUPLE1 | opcode::TUPLE2 | opcode::TUPLE3 => {
                let items = self.pop_items(usize::from(opcode - opcode::TUPLE1) + 1)?;
                self.push_items(Node::Tuple, items)?;
            }
            opcode::TUPLE => {
                let items = self.pop_to_mark()?;
                self.push_items(Node::Tuple, items)?;
            }
            opcode::APPEND => {
                let items = self.pop_items(1)?;
                self.append(&items)?;
            }
            opcode::APPENDS => {
                let items = self.pop_to_mark()?;
                self.append(&items)?;
            }
            opcode::SETITEM => {
                let items = self.pop_items(2)?;
                self.set(&items)?;
            }
            opcode::SETITEMS => {
                let items = self.pop_to_mark()?;
                self.set(&items)?;
            }
            opcode::POP => drop(self.pop_items(1)?),
            opcode::POP_MARK => drop(self.pop_to_mark()?),
            opcode::DUP => {
                let top = self.top()?;
                self.push(top)?;
            }
            _ => self.memo_or_refused(opcode)?,
        }
        Ok(true)
    }

    fn memo_or_refused(&mut self, opcode: u8) -> Result<(), PickleError> {
        match opcode {
            opcode::BINGET => {
                let [place] = self.bytes()?;
                self.get(place.into())
            }
            opcode::LONG_BINGET => {
                let place = u32::from_le_bytes(self.bytes()?);
                self.get(place)
            }
            opcode::BINPUT => {
                let [place] = self.bytes()?;
                self.put(place.into())
            }
            opcode::LONG_BINPUT => {
                let place = u32::from_le_bytes(self.bytes()?);
                self.put(place)
            }
            opcode::MEMOIZE => {
                let top = self.top()?;
                self.take(4)?;
                self.memo.push(top);
                Ok(())
            }
            _ => Err(self.error(match (opcode::of_code(opcode), opcode::of_other_data(opcode)) {
                (Some(name), _) => format!(
                    "opcode {name} would run code; a snapshot is plain data, and this is none"
                ),
                (_, Some(name)) => format!("opcode {name} is in no snapshot of PyTorch"),
                _ => format!("there is no opcode {opcode:#04x}"),
            })),
        }
    }

    fn protocol(&mut self) -> Result<(), PickleError> {
        let [protocol] = self.bytes()?;
        if (2..=LAST_PROTOCOL).contains(&protocol) {
            return Ok(());
        }
        Err(self.error(format!("pickle protocol {protocol} is none of 2 to {LAST_PROTOCOL}")))
    }

    fn long(&mut self, opcode: u8) -> Result<(), PickleError> {
        let length = if opcode == opcode::LONG1 {
            let [length] = self.bytes()?;
            length.into()
        } else {
            u32::from_le_bytes(self.bytes()?)
        };
        if length > 8 {
            self.skip(length.into())?;
            return self.push_node(Node::BigInt);
        }
        let mut number = 0;
        for place in 0..length {
            let [byte] = self.bytes()?;
            number |= i64::from(byte) << (8 * place);
        }
        // Two's complement of this many bytes.
        let unused = 64 - 8 * length;
        let number = if length == 0 { 0 } else { number << unused >> unused };
        self.push_node(Node::Int(number))
    }

    fn unicode(&mut self, opcode: u8) -> Result<(), PickleError> {
        let length = match opcode {
            opcode::SHORT_BINUNICODE => {
                let [length] = self.bytes()?;
                length.into()
            }
            opcode::BINUNICODE => u32::from_le_bytes(self.bytes()?).into(),
            _ => u64::from_le_bytes(self.bytes()?),
        };
        let start = self.pickle.text.len();
        // The buffer grows as bytes come, whatever the length says.
        let read = (&mut self.input).take(length).read_to_end(&mut self.pickle.text);
        let read = read.map_err(PickleError::Read)? as u64;
        self.offset += read;
        if read < length {
            return Err(self.cut());
        }
        self.take(read)?;
        match (u32::try_from(start), u32::try_from(length)) {
            (Ok(start), Ok(length)) => self.push_node(Node::Text { start, length }),
            _ => Err(self.error("the texts have more than 4 GiB")),
        }
    }

    /// The next bytes of the pickle.
    fn bytes<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], PickleError> {
        let mut bytes = [0; COUNT];
        self.input.read_exact(&mut bytes).map_err(|error| match error.kind() {
            // A decompressor's error of this kind has a text of its own.
            io::ErrorKind::UnexpectedEof if error.get_ref().is_none() => self.cut(),
            _ => PickleError::Read(error),
        })?;
        self.offset += COUNT as u64;
        Ok(bytes)
    }

    fn skip(&mut self, length: u64) -> Result<(), PickleError> {
        let skipped = io::copy(&mut (&mut self.input).take(length), &mut io::sink());
        let skipped = skipped.map_err(PickleError::Read)?;
        self.offset += skipped;
        if skipped < length { Err(self.cut()) } else { Ok(()) }
    }

    fn cut(&self) -> PickleError {
        self.error("the pickle ends in the middle")
    }

    /// Counts memory that values take.
    fn take(&mut self, bytes: u64) -> Result<(), PickleError> {
        self.taken += bytes;
        if self.taken > (1 << 20) + BUDGET * self.offset {
            let read = self.offset;
            return Err(self.error(format!("{read} bytes make values of {} bytes", self.taken)));
        }
        if self.taken > MOST {
            return Err(self.error("the values take more than 4 GiB"));
        }
        Ok(())
    }

    fn push(&mut self, value: Value) -> Result<(), PickleError> {
        self.take(4)?;
        self.stack.push(value);
        Ok(())
    }

    fn push_node(&mut self, node: Node) -> Result<(), PickleError> {
        self.take(size_of::<Node>() as u64)?;
        let value = u32::try_from(self.pickle.nodes.len()).ok();
        let value = value.ok_or_else(|| self.error("there are more than 4,294,967,296 values"))?;
        self.pickle.nodes.push(node);
        self.push(Value(value))
    }

    fn push_items(
        &mut self,
        node: impl FnOnce(u32) -> Node,
        items: Vec<Value>,
    ) -> Result<(), PickleError> {
        self.take(size_of::<Vec<Value>>() as u64 + 4 * items.len() as u64)?;
        // There are no more of these than nodes.
        let number = u32::try_from(self.pickle.items.len()).unwrap_or(u32::MAX);
        self.pickle.items.push(items);
        self.push_node(node(number))
    }

    fn top(&self) -> Result<Value, PickleError> {
        self.stack.last().copied().ok_or_else(|| self.too_few())
    }

    fn too_few(&self) -> PickleError {
        self.error("the stack has too few values")
    }

    /// The lowest place of the stack that may be popped: above the last mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop_items(&mut self, count: usize) -> Result<Vec<Value>, PickleError> {
        let start = self.stack.len().checked_sub(count).filter(|&start| start >= self.floor());
        Ok(self.pop_from(start.ok_or_else(|| self.too_few())?))
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Value>, PickleError> {
        let start = self.marks.pop().filter(|&start| start <= self.stack.len());
        Ok(self.pop_from(start.ok_or_else(|| self.error("the stack has no mark"))?))
    }

    fn pop_from(&mut self, start: usize) -> Vec<Value> {
        let items = self.stack.split_off(start);
        self.taken = self.taken.saturating_sub(4 * items.len() as u64);
        items
    }

    fn append(&mut self, items: &[Value]) -> Result<(), PickleError> {
        match self.pickle.node(self.top()?) {
            Node::List(list) => self.extend(list, items),
            _ => Err(self.error("appends to what is no list")),
        }
    }

    fn set(&mut self, items: &[Value]) -> Result<(), PickleError> {
        match self.pickle.node(self.top()?) {
            Node::Dict(dict) if items.len().is_multiple_of(2) => self.extend(dict, items),
            Node::Dict(_) => Err(self.error("a key of a dictionary has no value")),
            _ => Err(self.error("sets an item of what is no dictionary")),
        }
    }

    fn extend(&mut self, number: u32, items: &[Value]) -> Result<(), PickleError> {
        self.take(4 * items.len() as u64)?;
        if let Some(all) = self.pickle.items.get_mut(number as usize) {
            all.extend_from_slice(items);
        }
        Ok(())
    }

    fn get(&mut self, place: u32) -> Result<(), PickleError> {
        match self.memo.get(place as usize) {
            Some(&value) => self.push(value),
            None => Err(self.error(format!("nothing is in place {place} of the memo"))),
        }
    }

    fn put(&mut self, place: u32) -> Result<(), PickleError> {
        let top = self.top()?;
        let place = place as usize;
        if let Some(old) = self.memo.get_mut(place) {
            *old = top;
        } else if place == self.memo.len() {
            self.take(4)?;
            self.memo.push(top);
        } else {
            return Err(self.error(format!("place {place} of the memo is not the next")));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "read/tests.rs"]
mod tests;
