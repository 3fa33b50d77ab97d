//! Which statements of a list have to wait for which: the order that data flow asks for.
//!
//! A statement follows those of its list whose assignments it uses. Statements that can leave the list
//! ([`LEAVES`], anywhere inside) follow everything before them and come before everything after
//! them.

use std::collections::HashMap;

use super::NodeType;
use super::ast::{Ast, NodeId, Value};

/// Nodes that can end a list of statements early.
const LEAVES: [NodeType; 6] = [
    NodeType::Assert,
    NodeType::Break,
    NodeType::Raise,
    NodeType::Continue,
    NodeType::Return,
    NodeType::Yield,
];

/// Lists that are ordered; those of `except` and `match` are in fields of the same name.
const LISTS: [&str; 3] = ["body", "finalbody", "orelse"];

/// The order of one list of statements; positions count within it.
#[derive(Debug, Default)]
pub(super) struct ListOrder {
    /// For every statement, the ones that come directly before it.
    pub(super) predecessors: Vec<Vec<usize>>,
    /// Whether no statement follows.
    pub(super) is_last: Vec<bool>,
}

/// The order of every list of statements.
#[derive(Debug)]
pub(super) struct StatementOrder {
    /// By the first statement of the list.
    lists: HashMap<NodeId, ListOrder>,
}

impl StatementOrder {
    /// The orders that `flows` ask for: pairs of nodes of which the second uses the first.
    pub(super) fn new(ast: &Ast<'_>, flows: &[[NodeId; 2]]) -> Self {
        let count = ast.nodes.len();
        let mut uses = vec![Vec::new(); count];
        for &[from, to] in flows {
            // Only what is complete when `to` is: flows back to an earlier node ask for nothing.
            if from < to && !ast.contains(from, to) {
                uses[to].push(from);
            }
        }
        let mut leaves: Vec<bool> = ast
            .nodes
            .iter()
            .map(|n| LEAVES.contains(&n.node_type))
            .collect();
        let mut lists = HashMap::new();
        for id in (0..count).rev() {
            let node = &ast.nodes[id];
            for name in LISTS {
                let items: Vec<NodeId> = ast.children(id, name).collect();
                if let [first, _, ..] = items.as_slice() {
                    lists.insert(*first, order(ast, &items, &uses, &leaves));
                }
            }
            let mut all = std::mem::take(&mut uses[id]);
            for field in &node.fields {
                if let Value::Node(child) = field.value {
                    all.append(&mut uses[child]);
                    leaves[id] |= leaves[child];
                }
            }
            all.retain(|&used| !ast.contains(id, used));
            all.sort_unstable();
            all.dedup();
            uses[id] = all;
        }
        Self { lists }
    }

    /// The order of the list that begins with `first`.
    pub(super) fn of_list(&self, first: NodeId) -> Option<&ListOrder> {
        self.lists.get(&first)
    }
}

/// The order of the statements `items`.
fn order(ast: &Ast<'_>, items: &[NodeId], uses: &[Vec<NodeId>], leaves: &[bool]) -> ListOrder {
    let mut predecessors: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
    let mut is_last = vec![true; items.len()];
    let mut last_leaving: Option<usize> = None;
    for (at, &item) in items.iter().enumerate() {
        let mut before: Vec<usize> = Vec::new();
        // What stands before the last statement that can leave the list needs no edge of its own.
        let reach = last_leaving.unwrap_or(0);
        for &used in &uses[item] {
            let position = items[..at]
                .partition_point(|&other| other <= used)
                .checked_sub(1);
            let Some(position) = position.filter(|&p| p >= reach) else {
                continue;
            };
            if ast.contains(items[position], used) {
                before.push(position);
            }
        }
        before.sort_unstable();
        before.dedup();
        for &position in &before {
            is_last[position] = false;
        }
        if leaves[item] {
            for (position, is_last) in is_last[..at].iter_mut().enumerate() {
                if std::mem::take(is_last) {
                    before.push(position);
                }
            }
            last_leaving = Some(at);
        } else if let (true, Some(leaving)) = (before.is_empty(), last_leaving) {
            before.push(leaving);
            is_last[leaving] = false;
        }
        predecessors[at] = before;
    }
    ListOrder {
        predecessors,
        is_last,
    }
}
