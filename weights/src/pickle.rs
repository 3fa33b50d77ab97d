//! A reader of pickle streams that only describes them.
//!
//! Python's unpickler imports and calls what a stream names. This one calls nothing: a stream becomes a [`Tree`] of
//! plain values in which a global is just its name and a call just the pair of callable and arguments
//! ([`Node::Call`]). What those names mean (a torch tensor, a NumPy array) is decided afterwards by whoever reads the
//! tree, from an allow-list of its own; everything else stays inert.
//!
//! The tree is an arena: values that a stream shares or nests in themselves are shared indices, so that neither
//! doubling through the memo nor deep nesting costs memory or stack.

mod opcodes;

use std::collections::HashMap;

/// Index of a value in its [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId(u32);

/// A value of a pickle stream.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Node {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer that fits 64 bits.
    Int(i64),
    /// A longer integer: two's complement, little-endian.
    Long(Vec<u8>),
    /// A float.
    Float(f64),
    /// Text.
    Str(String),
    /// Bytes, byte arrays and Python 2 strings that are not UTF-8.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<NodeId>),
    /// A tuple.
    Tuple(Vec<NodeId>),
    /// A set or frozen set.
    Set(Vec<NodeId>),
    /// A dictionary in insertion order; a key that is set twice stands twice.
    Dict(Vec<(NodeId, NodeId)>),
    /// A class or function by name. Nothing is imported.
    Global {
        /// Dotted module name.
        module: String,
        /// Name inside the module.
        name: String,
    },
    /// An object that Python would make by a call. Nothing is called.
    Call(Box<Call>),
    /// A reference to something outside the stream.
    Persistent(NodeId),
}

/// An object as the stream describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What Python would call, usually a [`Node::Global`].
    pub callable: NodeId,
    /// Positional arguments, usually a [`Node::Tuple`].
    pub args: NodeId,
    /// Elements appended to the object.
    pub elements: Vec<NodeId>,
    /// Items set on the object.
    pub items: Vec<(NodeId, NodeId)>,
    /// State handed to `__setstate__`, if any.
    pub state: Option<NodeId>,
}

/// Why a stream was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {problem}")]
pub struct PickleError {
    /// Position of the opcode.
    pub offset: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// A parsed pickle stream.
#[derive(Debug, Clone)]
pub struct Tree {
    nodes: Vec<Node>,
    root: NodeId,
}

impl Tree {
    /// Parses one pickle stream of protocol 0 to 5; bytes after its end are ignored.
    ///
    /// # Errors
    /// A truncated stream, an unknown or refused opcode (extension registry, out-of-band buffers), operands of the wrong
    /// kind, or more than `max_values` pushed values.
    pub fn parse(stream: &[u8], max_values: usize) -> Result<Self, PickleError> {
        let mut machine = Machine::new(stream, max_values);
        match machine.run() {
            Ok(root) => Ok(Self {
                nodes: machine.nodes,
                root,
            }),
            Err(problem) => Err(PickleError {
                offset: machine.opcode_at,
                problem,
            }),
        }
    }

    /// The value that the whole stream stands for.
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// The value at `id`; an id of another tree gives `Node::None`.
    pub fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id.0 as usize).unwrap_or(&Node::None)
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Module and name, if the value is a global.
    pub fn global(&self, id: NodeId) -> Option<(&str, &str)> {
        match self.node(id) {
            Node::Global { module, name } => Some((module, name)),
            _ => None,
        }
    }

    /// Module, name, arguments and object, if the value is a call of a global with a tuple of arguments.
    pub fn call(&self, id: NodeId) -> Option<(&str, &str, &[NodeId], &Call)> {
        let Node::Call(call) = self.node(id) else {
            return None;
        };
        let (module, name) = self.global(call.callable)?;
        Some((module, name, self.tuple(call.args)?, call))
    }

    /// Elements, if the value is a tuple.
    pub fn tuple(&self, id: NodeId) -> Option<&[NodeId]> {
        match self.node(id) {
            Node::Tuple(elements) => Some(elements),
            _ => None,
        }
    }

    /// Text, if the value is text.
    pub fn str(&self, id: NodeId) -> Option<&str> {
        match self.node(id) {
            Node::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Integer, if the value is one of at most 64 bits.
    pub fn int(&self, id: NodeId) -> Option<i64> {
        match self.node(id) {
            Node::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Size or index, if the value is a non-negative integer.
    pub fn extent(&self, id: NodeId) -> Option<usize> {
        usize::try_from(self.int(id)?).ok()
    }

    /// Sizes, if the value is a tuple or list of at most `most` non-negative integers.
    pub fn extents(&self, id: NodeId, most: usize) -> Option<Vec<usize>> {
        match self.node(id) {
            Node::Tuple(elements) | Node::List(elements) if elements.len() <= most => {
                elements.iter().map(|&id| self.extent(id)).collect()
            }
            _ => None,
        }
    }

    /// Bytes, if the value is bytes or a byte array.
    pub fn bytes(&self, id: NodeId) -> Option<&[u8]> {
        match self.node(id) {
            Node::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Items, if the value is a `dict` or a `collections.OrderedDict`.
    pub fn mapping(&self, id: NodeId) -> Option<&[(NodeId, NodeId)]> {
        match self.node(id) {
            Node::Dict(items) => Some(items),
            Node::Call(call)
                if self.global(call.callable) == Some(("collections", "OrderedDict")) =>
            {
                Some(&call.items)
            }
            _ => None,
        }
    }

    /// The value of the last item with the text `name` as its key, which is the one that Python keeps.
    pub fn lookup(&self, items: &[(NodeId, NodeId)], name: &str) -> Option<NodeId> {
        let item = (items.iter().rev()).find(|(key, _)| self.str(*key) == Some(name));
        item.map(|(_, value)| *value)
    }

    /// The first keys of a mapping for messages.
    pub fn describe_keys(&self, items: &[(NodeId, NodeId)]) -> String {
        let mut keys: Vec<String> = items
            .iter()
            .take(8)
            .map(|&(key, _)| match self.str(key) {
                Some(name) => format!("`{}`", name.chars().take(60).collect::<String>()),
                None => self.describe(key),
            })
            .collect();
        if items.len() > keys.len() {
            keys.push(format!("and {} more", items.len() - keys.len()));
        }
        keys.join(", ")
    }

    /// A short description of a value for messages: its kind, or the global it refers to.
    pub fn describe(&self, id: NodeId) -> String {
        match self.node(id) {
            Node::None => "None".into(),
            Node::Bool(_) => "a bool".into(),
            Node::Int(_) | Node::Long(_) => "an int".into(),
            Node::Float(_) => "a float".into(),
            Node::Str(_) => "a str".into(),
            Node::Bytes(_) => "bytes".into(),
            Node::List(_) => "a list".into(),
            Node::Tuple(_) => "a tuple".into(),
            Node::Set(_) => "a set".into(),
            Node::Dict(_) => "a dict".into(),
            Node::Global { module, name } => format!("the global `{module}.{name}`"),
            Node::Call(call) => match self.global(call.callable) {
                Some((module, name)) => format!("an object of `{module}.{name}`"),
                None => "an object of unknown class".into(),
            },
            Node::Persistent(_) => "an external reference".into(),
        }
    }
}

/// The stack machine that pickle streams are written for.
struct Machine<'a> {
    stream: &'a [u8],
    position: usize,
    opcode_at: usize,
    nodes: Vec<Node>,
    stack: Vec<NodeId>,
    /// Heights of the stack at the open marks.
    marks: Vec<usize>,
    memo: HashMap<u32, NodeId>,
    values_left: usize,
}

impl<'a> Machine<'a> {
    fn new(stream: &'a [u8], max_values: usize) -> Self {
        Self {
            stream,
            position: 0,
            opcode_at: 0,
            nodes: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            values_left: max_values.min(u32::MAX as usize),
        }
    }

    fn spend(&mut self) -> Result<(), String> {
        self.values_left = self.values_left.checked_sub(1).ok_or(
            "too many values (limit `pickle_values`); raise the limit only for a file you trust",
        )?;
        Ok(())
    }

    fn push_id(&mut self, id: NodeId) -> Result<(), String> {
        self.spend()?;
        self.stack.push(id);
        Ok(())
    }

    fn push(&mut self, node: Node) -> Result<(), String> {
        let id = NodeId(u32::try_from(self.nodes.len()).map_err(|_| "too many values")?);
        self.nodes.push(node);
        self.push_id(id)
    }

    /// Lowest stack height that the current opcode may reach: the innermost open mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<NodeId, String> {
        if self.stack.len() <= self.floor() {
            return Err("the stack is empty".into());
        }
        self.stack.pop().ok_or_else(|| "the stack is empty".into())
    }

    fn top(&self) -> Result<NodeId, String> {
        if self.stack.len() <= self.floor() {
            return Err("the stack is empty".into());
        }
        self.stack
            .last()
            .copied()
            .ok_or_else(|| "the stack is empty".into())
    }

    fn pop_to_mark(&mut self) -> Result<Vec<NodeId>, String> {
        let mark = self.marks.pop().ok_or("there is no open mark")?;
        if mark > self.stack.len() {
            return Err("the stack is below its mark".into());
        }
        Ok(self.stack.split_off(mark))
    }

    fn node_mut(&mut self, id: NodeId) -> Result<&mut Node, String> {
        self.nodes
            .get_mut(id.0 as usize)
            .ok_or_else(|| "a value is missing".into())
    }

    fn store(&mut self, key: u32) -> Result<(), String> {
        let id = self.top()?;
        self.spend()?;
        self.memo.insert(key, id);
        Ok(())
    }

    fn load(&mut self, key: u32) -> Result<(), String> {
        let id = *self
            .memo
            .get(&key)
            .ok_or_else(|| format!("memo entry {key} was never stored"))?;
        self.push_id(id)
    }

    fn append(&mut self, added: Vec<NodeId>) -> Result<(), String> {
        let target = self.top()?;
        match self.node_mut(target)? {
            Node::List(elements) | Node::Set(elements) => elements.extend(added),
            Node::Call(call) => call.elements.extend(added),
            _ => return Err("elements are added to something that is no list".into()),
        }
        Ok(())
    }

    fn set_items(&mut self, flat: Vec<NodeId>) -> Result<(), String> {
        let added = pairs(&flat)?;
        let target = self.top()?;
        match self.node_mut(target)? {
            Node::Dict(items) => items.extend(added),
            Node::Call(call) => call.items.extend(added),
            _ => return Err("items are set on something that is no dictionary".into()),
        }
        Ok(())
    }

    fn push_call(&mut self, callable: NodeId, args: NodeId) -> Result<(), String> {
        self.push(Node::Call(Box::new(Call {
            callable,
            args,
            elements: Vec::new(),
            items: Vec::new(),
            state: None,
        })))
    }

    fn set_state(&mut self, state: NodeId) -> Result<(), String> {
        let target = self.top()?;
        match self.node_mut(target)? {
            Node::Call(call) => {
                call.state = Some(state);
                Ok(())
            }
            _ => Err("a state is set on something that is no object".into()),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.position.checked_add(count);
        let bytes = end
            .and_then(|end| self.stream.get(self.position..end))
            .ok_or_else(|| {
                format!(
                    "{count} bytes are announced but only {} are left",
                    self.stream.len().saturating_sub(self.position)
                )
            })?;
        self.position += count;
        Ok(bytes)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| "short read".to_string())
    }

    /// A length of `width` bytes, then that many bytes.
    fn take_sized(&mut self, width: usize) -> Result<&'a [u8], String> {
        let mut length = [0u8; 8];
        for (to, from) in length.iter_mut().zip(self.take(width)?) {
            *to = *from;
        }
        let length = usize::try_from(u64::from_le_bytes(length))
            .map_err(|_| "an announced length does not fit memory")?;
        self.take(length)
    }

    fn take_line(&mut self) -> Result<&'a str, String> {
        let rest = self.stream.get(self.position..).unwrap_or_default();
        let end = rest
            .iter()
            .position(|&byte| byte == b'\n')
            .ok_or("a line does not end")?;
        let line = self.take(end)?;
        self.position += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        std::str::from_utf8(line).map_err(|_| "a line is not UTF-8".into())
    }
}

fn pairs(flat: &[NodeId]) -> Result<Vec<(NodeId, NodeId)>, String> {
    let (pairs, rest) = flat.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("a key has no value".into());
    }
    Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
}
