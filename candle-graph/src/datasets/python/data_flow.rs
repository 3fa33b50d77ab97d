//! Which assignment a name may have its value from.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::NodeType;
use super::ast::{Ast, NodeId, Value};
use super::control_flow::{ControlFlow, Effect, Instruction};
use super::error::PythonError;
use super::program_graph::limit_edges;

/// A name is read or assigned at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Access<'a> {
    name: &'a str,
    node: NodeId,
    writes: bool,
}

/// Pairs `[assignment, access]`: the last assignments of a name that can have happened when a read
/// or the next assignment of it comes.
pub(super) fn last_writes(
    ast: &Ast<'_>,
    flow: &ControlFlow,
) -> Result<Vec<[NodeId; 2]>, PythonError> {
    let instructions = flow.instructions.iter();
    let accesses: Vec<Vec<Access<'_>>> = instructions.map(|i| accesses(ast, i)).collect();
    let writes: Vec<Access<'_>> = accesses
        .iter()
        .flatten()
        .filter(|a| a.writes)
        .copied()
        .collect();
    let mut of_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for (position, write) in writes.iter().enumerate() {
        of_name.entry(write.name).or_default().push(position);
    }
    let before = reaching(&accesses, &of_name, writes.len(), flow);

    let mut pairs = Vec::new();
    let mut position = 0;
    for (accesses, before) in accesses.iter().zip(&before) {
        // Assignments of this very instruction come last.
        let mut own: HashMap<&str, usize> = HashMap::new();
        for access in accesses {
            match own.get(access.name) {
                Some(&write) => pairs.push([writes[write].node, access.node]),
                None => {
                    let all = of_name.get(access.name).into_iter().flatten();
                    let reaching = all.filter(|&&write| before.contains(write));
                    pairs.extend(reaching.map(|&write| [writes[write].node, access.node]));
                    limit_edges(pairs.len())?;
                }
            }
            if access.writes {
                own.insert(access.name, position);
                position += 1;
            }
        }
    }
    Ok(pairs)
}

/// The assignments that may be the last ones of their name when an instruction begins, for every
/// instruction. Code that nothing leads to sees those of the code before it that nothing leads to.
fn reaching(
    accesses: &[Vec<Access<'_>>],
    of_name: &HashMap<&str, Vec<usize>>,
    num_writes: usize,
    flow: &ControlFlow,
) -> Vec<BitSet> {
    let count = accesses.len();
    let (mut previous, mut next) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for &[from, to] in &flow.next {
        previous[to].push(from);
        next[from].push(to);
    }
    // What an instruction assigns, by name, in the end.
    let mut assigned: Vec<BTreeMap<&str, usize>> = Vec::with_capacity(count);
    let mut position = 0;
    for accesses in accesses {
        let mut last = BTreeMap::new();
        for access in accesses.iter().filter(|access| access.writes) {
            last.insert(access.name, position);
            position += 1;
        }
        assigned.push(last);
    }

    let mut before = vec![BitSet::new(num_writes); count];
    let mut after = before.clone();
    let (mut queue, mut queued) = ((0..count).collect::<VecDeque<_>>(), vec![true; count]);
    let mut first_visit = vec![true; count];
    while let Some(at) = queue.pop_front() {
        queued[at] = false;
        let mut state = BitSet::new(num_writes);
        for &from in &previous[at] {
            state.extend(&after[from]);
        }
        before[at] = state.clone();
        for (name, &write) in &assigned[at] {
            for &other in of_name.get(name).into_iter().flatten() {
                state.remove(other);
            }
            state.insert(write);
        }
        if state != after[at] || std::mem::take(&mut first_visit[at]) {
            after[at] = state;
            for &to in &next[at] {
                if !std::mem::replace(&mut queued[to], true) {
                    queue.push_back(to);
                }
            }
        }
    }
    before
}

/// What an instruction reads and assigns, in this order: depth first, an assignment's value before
/// its targets.
fn accesses<'a>(ast: &'a Ast<'_>, instruction: &Instruction) -> Vec<Access<'a>> {
    let node = instruction.node;
    let mut found = Vec::new();
    let mut assign_all = |root: NodeId| {
        for node in ast.walk(root) {
            found.extend(name(ast, node).map(|access| Access {
                writes: true,
                ..access
            }));
        }
    };
    match instruction.effect {
        Effect::Own => collect(ast, node, &mut found),
        Effect::Target => assign_all(node),
        Effect::Arguments => {
            // Positional-only arguments are missing here, as in the official code.
            for field in ["args", "vararg", "kwonlyargs", "kwarg"] {
                for argument in ast.children(node, field) {
                    assign_all(argument);
                }
            }
        }
        Effect::Definition => found.extend(ast.text(node, "name").map(|name| Access {
            name,
            node,
            writes: true,
        })),
    }
    found
}

fn name<'a>(ast: &'a Ast<'_>, node: NodeId) -> Option<Access<'a>> {
    if ast.node_type(node) != NodeType::Name {
        return None;
    }
    let context = ast.child(node, "ctx").map(|ctx| ast.node_type(ctx));
    Some(Access {
        name: ast.text(node, "id")?,
        node,
        writes: context != Some(NodeType::Load),
    })
}

fn collect<'a>(ast: &'a Ast<'_>, node: NodeId, found: &mut Vec<Access<'a>>) {
    if let Some(access) = name(ast, node) {
        found.push(access);
        return;
    }
    match ast.node_type(node) {
        NodeType::Assign => {
            for part in ast
                .children(node, "value")
                .chain(ast.children(node, "targets"))
            {
                collect(ast, part, found);
            }
        }
        NodeType::AugAssign => {
            for part in ast.children(node, "value") {
                collect(ast, part, found);
            }
            for target in ast.children(node, "target") {
                found.extend(name(ast, target).map(|access| Access {
                    writes: false,
                    ..access
                }));
                collect(ast, target, found);
            }
        }
        _ => {
            for field in &ast.nodes[node].fields {
                if let Value::Node(child) = field.value {
                    collect(ast, child, found);
                }
            }
        }
    }
}

/// A set of small numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BitSet(Vec<u64>);

impl BitSet {
    fn new(size: usize) -> Self {
        Self(vec![0; size.div_ceil(64)])
    }

    fn contains(&self, value: usize) -> bool {
        self.0[value / 64] >> (value % 64) & 1 == 1
    }

    fn insert(&mut self, value: usize) {
        self.0[value / 64] |= 1 << (value % 64);
    }

    fn remove(&mut self, value: usize) {
        self.0[value / 64] &= !(1 << (value % 64));
    }

    fn extend(&mut self, other: &Self) {
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }
}
