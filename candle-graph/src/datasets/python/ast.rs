//! The syntax tree in one table.

use std::collections::VecDeque;

use super::NodeType;
use super::error::{PythonError, line_column};

/// How deeply statements and expressions may be nested. The official code stops at about 325 nested
/// expressions and 193 `elif`.
pub(super) const MAX_DEPTH: usize = 400;

/// Nodes of one tree. A graph of the official data set has at most about a thousand.
pub(super) const MAX_NODES: usize = 20_000;

/// Position of a node in its tree: nodes are numbered depth first, fields in their order.
pub(super) type NodeId = usize;

/// What a field, or one element of a list in a field, holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Another node.
    Node(NodeId),
    /// A name, number or text, as Python's `str` writes it.
    Text(String),
    /// Python's `None`.
    Nothing,
}

/// A field of a node, or one element of a list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// Position in the list, if the field holds one.
    pub(super) position: Option<u32>,
    pub(super) value: Value,
}

/// A node of the tree.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) node_type: NodeType,
    pub(super) parent: Option<NodeId>,
    /// Number of ancestors.
    pub(super) depth: usize,
    /// The subtree of the node is the range of ids from its own to this one, which is outside.
    pub(super) end: NodeId,
    /// Position in the source of the statement or expression that the node belongs to.
    pub(super) offset: usize,
    pub(super) fields: Vec<Field>,
}

/// A syntax tree.
#[derive(Debug, Clone)]
pub(super) struct Ast<'a> {
    pub(super) nodes: Vec<Node>,
    source: &'a str,
}

/// Where a node hangs: its parent, the field and the position in the field's list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place(
    pub(super) NodeId,
    pub(super) &'static str,
    pub(super) Option<u32>,
);

impl<'a> Ast<'a> {
    /// A tree of nothing but a `Module`, which is node 0.
    pub(super) fn new(source: &'a str) -> Self {
        let root = Node {
            node_type: NodeType::Module,
            parent: None,
            depth: 0,
            end: 1,
            offset: 0,
            fields: Vec::new(),
        };
        Self {
            nodes: vec![root],
            source,
        }
    }

    /// Hangs a new node at `place`. Nodes must come depth first.
    pub(super) fn add(
        &mut self,
        Place(parent, name, position): Place,
        node_type: NodeType,
    ) -> Result<NodeId, PythonError> {
        let id = self.nodes.len();
        let above = &mut self.nodes[parent];
        let (depth, offset) = (above.depth + 1, above.offset);
        if depth > MAX_DEPTH {
            return Err(PythonError::TooDeep);
        }
        if id >= MAX_NODES {
            return Err(PythonError::TooLarge {
                what: "nodes of a syntax tree",
                found: id + 1,
                limit: MAX_NODES,
            });
        }
        above.fields.push(Field {
            name,
            position,
            value: Value::Node(id),
        });
        self.nodes.push(Node {
            node_type,
            parent: Some(parent),
            depth,
            end: id + 1,
            offset,
            fields: Vec::new(),
        });
        Ok(id)
    }

    /// Gives `node` a field that is no node.
    pub(super) fn set(
        &mut self,
        Place(node, name, position): Place,
        text: Option<impl Into<String>>,
    ) {
        let value = text.map_or(Value::Nothing, |text| Value::Text(text.into()));
        self.nodes[node].fields.push(Field {
            name,
            position,
            value,
        });
    }

    /// Fills in where subtrees end; to be called once all nodes are there.
    pub(super) fn close(&mut self) {
        for id in (1..self.nodes.len()).rev() {
            let (end, parent) = (self.nodes[id].end, self.nodes[id].parent);
            if let Some(parent) = parent {
                let above = &mut self.nodes[parent].end;
                *above = end.max(*above);
            }
        }
    }

    /// Line and column of a node's statement or expression, from 1.
    pub(super) fn place(&self, node: NodeId) -> (usize, usize) {
        line_column(self.source, self.nodes[node].offset)
    }

    /// Kind of a node.
    pub(super) fn node_type(&self, node: NodeId) -> NodeType {
        self.nodes[node].node_type
    }

    /// The nodes in the field `name`, in their order.
    pub(super) fn children<'s>(
        &'s self,
        node: NodeId,
        name: &'s str,
    ) -> impl Iterator<Item = NodeId> + 's {
        let fields = self.nodes[node].fields.iter();
        fields.filter_map(move |field| match field.value {
            Value::Node(child) if field.name == name => Some(child),
            _ => None,
        })
    }

    /// The only node in the field `name`.
    pub(super) fn child(&self, node: NodeId, name: &str) -> Option<NodeId> {
        self.children(node, name).next()
    }

    /// The text in the field `name`.
    pub(super) fn text(&self, node: NodeId, name: &str) -> Option<&str> {
        let mut fields = self.nodes[node].fields.iter();
        fields.find_map(|field| match &field.value {
            Value::Text(text) if field.name == name => Some(text.as_str()),
            _ => None,
        })
    }

    /// The nodes of a subtree, breadth first, as Python's `ast.walk` gives them.
    pub(super) fn walk(&self, node: NodeId) -> Vec<NodeId> {
        let (mut order, mut queue) = (Vec::new(), VecDeque::from([node]));
        while let Some(next) = queue.pop_front() {
            order.push(next);
            let fields = self.nodes[next].fields.iter();
            queue.extend(fields.filter_map(|field| match field.value {
                Value::Node(child) => Some(child),
                _ => None,
            }));
        }
        order
    }

    /// Whether `node` stands in the subtree of `ancestor`.
    pub(super) fn contains(&self, ancestor: NodeId, node: NodeId) -> bool {
        (ancestor..self.nodes[ancestor].end).contains(&node)
    }
}
