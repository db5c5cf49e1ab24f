//! The values of a pickle.

/// A value: the number of a node. Values that the pickle shares have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct Value(pub(super) u32);

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum Node {
    None,
    Bool(bool),
    Int(i64),
    /// An integer that does not fit in 64 bits.
    BigInt,
    Float(f64),
    /// A part of the text of all values.
    Text {
        start: u32,
        length: u32,
    },
    /// These three have the number of their items.
    List(u32),
    Tuple(u32),
    /// The items are keys and values in turn.
    Dict(u32),
}

/// All values of a pickle.
#[derive(Debug, Default)]
pub(in super::super) struct Pickle {
    pub(super) nodes: Vec<Node>,
    pub(super) text: Vec<u8>,
    pub(super) items: Vec<Vec<Value>>,
    pub(super) root: Option<Value>,
}

impl Pickle {
    /// The value that was pickled.
    pub(in super::super) fn root(&self) -> Node {
        self.root.map_or(Node::None, |root| self.node(root))
    }

    pub(in super::super) fn node(&self, value: Value) -> Node {
        self.nodes.get(value.0 as usize).copied().unwrap_or(Node::None)
    }

    /// The items of a list or tuple.
    pub(in super::super) fn sequence(&self, node: Node) -> Option<&[Value]> {
        match node {
            Node::List(items) | Node::Tuple(items) => self.items(items),
            _ => None,
        }
    }

    /// What a dictionary has for a key; none if it has nothing, and for what is no dictionary.
    pub(in super::super) fn get(&self, node: Node, key: &str) -> Option<Value> {
        let Node::Dict(items) = node else { return None };
        // The last of two equal keys is the one that counts.
        let pairs = self.items(items)?.rchunks_exact(2);
        pairs.into_iter().find(|pair| self.is_text(pair[0], key)).map(|pair| pair[1])
    }

    /// The text of a value; what is not UTF-8 in it is replaced.
    pub(in super::super) fn text(&self, node: Node) -> Option<std::borrow::Cow<'_, str>> {
        Some(String::from_utf8_lossy(self.bytes(node)?))
    }

    /// Whether a value is this text.
    pub(in super::super) fn is_text(&self, value: Value, text: &str) -> bool {
        self.bytes(self.node(value)) == Some(text.as_bytes())
    }

    fn bytes(&self, node: Node) -> Option<&[u8]> {
        let Node::Text { start, length } = node else { return None };
        let start = start as usize;
        self.text.get(start..start + length as usize)
    }

    fn items(&self, items: u32) -> Option<&[Value]> {
        self.items.get(items as usize).map(Vec::as_slice)
    }
}
