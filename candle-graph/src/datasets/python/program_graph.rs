//! The data-flow graph of a program.

use std::collections::HashMap;

use super::ast::{Ast, NodeId, Value};
use super::control_flow::{ControlFlow, Effect};
use super::error::PythonError;
use super::order::StatementOrder;
use super::{NodeType, data_flow};

/// Most edges of a graph.
pub(super) const MAX_EDGES: usize = 1 << 20;

/// Characters of an attribute that are kept.
const MAX_ATTRIBUTE: usize = 100;

/// The attribute and the edge name that stand for none, as vocabularies spell them.
pub const NONE: &str = "__NONE__";

/// What stands for the name of the function itself, which a model is to predict.
pub const MASK: &str = "_mask_";

/// A node of a program's graph: a node of its syntax tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramNode {
    /// Kind.
    pub node_type: NodeType,
    /// Name or value, as Python's `str` writes it: its first 100 characters, without line breaks.
    /// `None` for nodes without one and for Python's `None`.
    pub attribute: Option<String>,
    /// Number of ancestors in the syntax tree.
    pub depth: u32,
}

impl ProgramNode {
    /// The attribute as vocabularies spell it, [`NONE`] for none.
    pub fn attribute_name(&self) -> &str {
        self.attribute.as_deref().unwrap_or(NONE)
    }
}

/// Kind of an edge, with the numbers of the official code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum EdgeType {
    /// From an instruction to one that can be run next where data flow decides about the order:
    /// statements that do not depend on each other stand side by side.
    CfgNext = 1,
    /// From the last assignment of a name to a use or the next assignment of it.
    LastWrite = 3,
    /// From a name in the value of an assignment to the targets.
    ComputedFrom = 4,
    /// From a `return` of a function to a call of it.
    ReturnsTo = 5,
    /// From an argument of a call to the function's argument.
    FormalArgName = 6,
    /// From a node of the syntax tree to its children.
    Field = 7,
    /// From an instruction to one that can be run next as the program stands. The official models
    /// do not read these edges.
    NextSyntax = 9,
    /// From a call to the function.
    Calls = 11,
}

impl EdgeType {
    /// Number of edge types that the official code counts, those it does not use included.
    pub const COUNT: usize = 12;

    /// The number of the type.
    pub fn index(self) -> u32 {
        self as u32
    }
}

/// A directed edge of a program's graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramEdge {
    /// Position of the node that it leaves.
    pub sender: u32,
    /// Position of the node that it enters.
    pub receiver: u32,
    /// Kind.
    pub edge_type: EdgeType,
    /// Field of the syntax tree, [`NONE`] for edges of other kinds. The operands of an operator are
    /// `inputs`.
    pub name: &'static str,
    /// Position in the field; 0 where the order does not matter (statements of a body, operands of
    /// a commutative operator).
    pub order: u32,
}

/// The data-flow graph of Python source code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramGraph {
    nodes: Vec<ProgramNode>,
    edges: Vec<ProgramEdge>,
}

impl ProgramGraph {
    /// The graph of a syntax tree whose first statement is a function, which loses its name.
    pub(super) fn of_function(ast: &Ast<'_>) -> Result<Self, PythonError> {
        let mut edges = Edges::default();
        for parent in 0..ast.nodes.len() {
            edges.fields(ast, parent)?;
        }
        let flow = ControlFlow::new(ast, None)?;
        edges.connect(EdgeType::NextSyntax, &instruction_nodes(&flow))?;

        let last_writes = data_flow::last_writes(ast, &flow)?;
        edges.connect(EdgeType::LastWrite, &last_writes)?;
        let computed_from = computed_from(ast)?;
        edges.connect(EdgeType::ComputedFrom, &computed_from)?;
        edges.calls(ast, &flow)?;

        let order = StatementOrder::new(ast, &[last_writes, computed_from].concat());
        let ordered = ControlFlow::new(ast, Some(&order))?;
        edges.connect(EdgeType::CfgNext, &instruction_nodes(&ordered))?;

        let mut edges = edges.0;
        edges.sort_unstable();
        edges.dedup();
        let mut nodes: Vec<ProgramNode> = (0..ast.nodes.len()).map(|id| node(ast, id)).collect();
        if let Some(function) = nodes.get_mut(1) {
            function.attribute = Some(MASK.to_string());
        }
        Ok(Self { nodes, edges })
    }

    /// The nodes, depth first: a node stands before its children, which stand in the order of their
    /// fields. The first one is the module, the second one the function.
    pub fn nodes(&self) -> &[ProgramNode] {
        &self.nodes
    }

    /// The edges, sorted by sender, receiver, type and name, each once.
    pub fn edges(&self) -> &[ProgramEdge] {
        &self.edges
    }
}

/// Kind, attribute and depth of a node.
fn node(ast: &Ast<'_>, id: NodeId) -> ProgramNode {
    /// Fields that name a node best, the best first.
    const NAMES: [&str; 7] = ["name", "arg", "value", "s", "n", "id", "attr"];
    let node = &ast.nodes[id];
    let mut values = node.fields.iter().filter_map(|field| match &field.value {
        Value::Node(_) => None,
        Value::Text(text) => Some((field, Some(text))),
        Value::Nothing => Some((field, None)),
    });
    let named = NAMES.iter().find_map(|name| {
        let whole =
            |(field, _): &(&super::ast::Field, _)| field.name == *name && field.position.is_none();
        values.clone().find(whole)
    });
    let value = named.or_else(|| values.next()).and_then(|(_, text)| text);
    let cut = |text: &String| {
        let kept = text.chars().take(MAX_ATTRIBUTE);
        kept.filter(|c| !matches!(c, '\n' | '\r')).collect()
    };
    ProgramNode {
        node_type: node.node_type,
        attribute: value.map(cut),
        depth: node.depth as u32,
    }
}

/// Pairs of nodes whose instructions follow each other.
fn instruction_nodes(flow: &ControlFlow) -> Vec<[NodeId; 2]> {
    let node = |position: usize| flow.instructions[position].node;
    flow.next
        .iter()
        .map(|&[from, to]| [node(from), node(to)])
        .collect()
}

/// Every name in the value of an assignment, with every target.
fn computed_from(ast: &Ast<'_>) -> Result<Vec<[NodeId; 2]>, PythonError> {
    let mut pairs = Vec::new();
    for id in nodes_of(ast, 0, NodeType::Assign) {
        for value in ast.children(id, "value") {
            for name in nodes_of(ast, value, NodeType::Name) {
                pairs.extend(ast.children(id, "targets").map(|target| [name, target]));
                limit_edges(pairs.len())?;
            }
        }
    }
    Ok(pairs)
}

/// The nodes of one kind in a subtree.
fn nodes_of<'a>(
    ast: &'a Ast<'_>,
    root: NodeId,
    node_type: NodeType,
) -> impl Iterator<Item = NodeId> + 'a {
    (root..ast.nodes[root].end).filter(move |&id| ast.node_type(id) == node_type)
}

pub(super) fn limit_edges(found: usize) -> Result<(), PythonError> {
    match found > MAX_EDGES {
        false => Ok(()),
        true => Err(PythonError::TooLarge {
            what: "edges of a program's graph",
            found,
            limit: MAX_EDGES,
        }),
    }
}

#[derive(Default)]
struct Edges(Vec<ProgramEdge>);

impl Edges {
    fn connect(&mut self, edge_type: EdgeType, pairs: &[[NodeId; 2]]) -> Result<(), PythonError> {
        limit_edges(self.0.len() + pairs.len())?;
        self.0
            .extend(pairs.iter().map(|&[sender, receiver]| ProgramEdge {
                sender: sender as u32,
                receiver: receiver as u32,
                edge_type,
                name: NONE,
                order: 0,
            }));
        Ok(())
    }

    /// The edges from `parent` to its children.
    fn fields(&mut self, ast: &Ast<'_>, parent: NodeId) -> Result<(), PythonError> {
        const COMMUTATIVE: [NodeType; 7] = [
            NodeType::And,
            NodeType::Or,
            NodeType::Add,
            NodeType::Mult,
            NodeType::BitOr,
            NodeType::BitXor,
            NodeType::BitAnd,
        ];
        let operators = ast.children(parent, "op");
        let commutative = operators
            .map(|op| ast.node_type(op))
            .any(|op| COMMUTATIVE.contains(&op));
        for field in &ast.nodes[parent].fields {
            let Value::Node(child) = field.value else {
                continue;
            };
            let (name, order) = match (field.name, field.position) {
                ("left", _) => ("inputs", 0),
                ("right", _) => ("inputs", u32::from(!commutative)),
                (name @ ("body" | "finalbody" | "orelse"), _) | (name, None) => (name, 0),
                (name, Some(position)) => (name, position),
            };
            self.0.push(ProgramEdge {
                sender: parent as u32,
                receiver: child as u32,
                edge_type: EdgeType::Field,
                name,
                order,
            });
        }
        limit_edges(self.0.len())
    }

    /// Edges between calls by name and the functions of the same name, wherever they are defined.
    fn calls(&mut self, ast: &Ast<'_>, flow: &ControlFlow) -> Result<(), PythonError> {
        let mut functions: HashMap<&str, Vec<NodeId>> = HashMap::new();
        for instruction in &flow.instructions {
            let node = instruction.node;
            let defines = instruction.effect == Effect::Definition
                && ast.node_type(node) == NodeType::FunctionDef;
            if let (true, Some(name)) = (defines, ast.text(node, "name")) {
                functions.entry(name).or_default().push(node);
            }
        }
        for call in nodes_of(ast, 0, NodeType::Call) {
            let function = ast.child(call, "func");
            let by_name = function.filter(|&f| ast.node_type(f) == NodeType::Name);
            let name = by_name.and_then(|f| ast.text(f, "id"));
            for &function in name.and_then(|n| functions.get(n)).into_iter().flatten() {
                self.connect(EdgeType::Calls, &[[call, function]])?;
                let returns = nodes_of(ast, function, NodeType::Return);
                let returns: Vec<_> = returns.map(|id| [id, call]).collect();
                self.connect(EdgeType::ReturnsTo, &returns)?;
                self.connect(
                    EdgeType::FormalArgName,
                    &formal_arguments(ast, call, function),
                )?;
            }
        }
        Ok(())
    }
}

/// The arguments of a call with the arguments of the function that they are for. Those that `*args`
/// or `**kwargs` take belong to the function's `arguments` node.
fn formal_arguments(ast: &Ast<'_>, call: NodeId, function: NodeId) -> Vec<[NodeId; 2]> {
    let Some(arguments) = ast.child(function, "args") else {
        return Vec::new();
    };
    let formal: Vec<NodeId> = ast.children(arguments, "args").collect();
    let rest = |field| ast.child(arguments, field).map(|_| arguments);
    let (more, more_keywords) = (rest("vararg"), rest("kwarg"));
    let mut pairs = Vec::new();
    for (position, argument) in ast.children(call, "args").enumerate() {
        let to = formal.get(position).copied().or(more);
        pairs.extend(to.map(|to| [argument, to]));
    }
    for keyword in ast.children(call, "keywords") {
        let name = ast.text(keyword, "arg");
        let named = |&&formal: &&NodeId| name.is_some() && ast.text(formal, "id") == name;
        let to = formal.iter().find(named).copied().or(more_keywords);
        pairs.extend(
            ast.child(keyword, "value")
                .zip(to)
                .map(|(value, to)| [value, to]),
        );
    }
    pairs
}
