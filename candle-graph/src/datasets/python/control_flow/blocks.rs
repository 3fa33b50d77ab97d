//! Basic blocks: instructions that are run one after the other.

use std::collections::BTreeSet;

use crate::datasets::python::error::PythonError;
use crate::datasets::python::program_graph::MAX_EDGES;

pub(super) type BlockId = usize;

/// One block.
#[derive(Debug, Default)]
struct Block {
    instructions: Vec<usize>,
    /// Blocks that may follow once the last instruction is done.
    from_end: BTreeSet<BlockId>,
    /// Blocks that may follow any instruction, because it raises.
    from_middle: BTreeSet<BlockId>,
    previous: BTreeSet<BlockId>,
    /// Whether the block stands for an entry or an exit, and stays although it is empty.
    fixed: bool,
}

impl Block {
    fn next(&self) -> BTreeSet<BlockId> {
        &self.from_end | &self.from_middle
    }
}

/// The blocks of a module.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    /// The order in which blocks are merged, that of the official code.
    order: Vec<BlockId>,
}

impl Blocks {
    pub(super) fn add(&mut self) -> BlockId {
        let id = self.blocks.len();
        self.blocks.push(Block::default());
        self.order.push(id);
        id
    }

    /// A block that stands for an entry or an exit.
    pub(super) fn add_fixed(&mut self) -> BlockId {
        let id = self.add();
        self.blocks[id].fixed = true;
        id
    }

    pub(super) fn move_to_end(&mut self, id: BlockId) {
        self.order.retain(|&other| other != id);
        self.order.push(id);
    }

    pub(super) fn push(&mut self, id: BlockId, instruction: usize) {
        self.blocks[id].instructions.push(instruction);
    }

    /// Whether instructions of the block may raise into another block already.
    pub(super) fn raises(&self, id: BlockId) -> bool {
        !self.blocks[id].from_middle.is_empty()
    }

    /// Lets `to` follow the end of `from`.
    pub(super) fn exit(&mut self, from: BlockId, to: BlockId) {
        self.blocks[from].from_end.insert(to);
        self.blocks[to].previous.insert(from);
    }

    /// Lets `to` follow any instruction of `from`.
    pub(super) fn interrupt(&mut self, from: BlockId, to: BlockId) {
        self.blocks[from].from_middle.insert(to);
        self.blocks[to].previous.insert(from);
    }

    fn remove_exit(&mut self, from: BlockId, to: BlockId) {
        self.blocks[from].from_end.remove(&to);
        self.blocks[from].from_middle.remove(&to);
        self.blocks[to].previous.remove(&from);
    }

    /// Takes out the empty blocks, so that what comes before leads to what comes after.
    pub(super) fn prune(&mut self) -> Result<(), PythonError> {
        let empty = |block: &Block| block.instructions.is_empty() && !block.fixed;
        let mut made = 0usize;
        for id in 0..self.blocks.len() {
            if !empty(&self.blocks[id]) {
                continue;
            }
            let (next, previous) = (self.blocks[id].next(), self.blocks[id].previous.clone());
            made = made.saturating_add(next.len().saturating_mul(previous.len()));
            limit_successions(made)?;
            for &before in previous.iter().filter(|&&before| before != id) {
                let ends = self.blocks[before].from_end.contains(&id);
                let interrupts = self.blocks[before].from_middle.contains(&id);
                for &after in next.iter().filter(|&&after| after != id) {
                    if ends {
                        self.exit(before, after);
                    }
                    if interrupts {
                        self.interrupt(before, after);
                    }
                }
            }
            for before in previous {
                self.remove_exit(before, id);
            }
            for after in next {
                self.remove_exit(id, after);
            }
        }
        let blocks = &self.blocks;
        self.order.retain(|&id| !empty(&blocks[id]));
        Ok(())
    }

    /// Joins blocks with their only successor, if they are its only predecessor and raise to the
    /// same blocks.
    ///
    /// This is not only tidying: only the last instruction of a block raises.
    pub(super) fn merge(&mut self) {
        let mut position = 0;
        while let Some(&id) = self.order.get(position) {
            while let Some(next) = self.mergeable(id) {
                self.merge_with(id, next);
                self.order.retain(|&other| other != next);
            }
            position += 1;
        }
    }

    fn mergeable(&self, id: BlockId) -> Option<BlockId> {
        let block = &self.blocks[id];
        let next = *block.from_end.first()?;
        let successor = &self.blocks[next];
        let joins = block.from_end.len() == 1
            && next != id
            && !successor.fixed
            && successor.previous.len() == 1
            && successor.from_middle == block.from_middle;
        joins.then_some(next)
    }

    fn merge_with(&mut self, id: BlockId, next: BlockId) {
        self.remove_exit(id, next);
        let Block {
            instructions,
            from_end,
            from_middle,
            ..
        } = std::mem::take(&mut self.blocks[next]);
        for &after in from_end.union(&from_middle) {
            self.blocks[after].previous.remove(&next);
        }
        for after in from_middle {
            self.interrupt(id, after);
        }
        for after in from_end {
            self.exit(id, after);
        }
        self.blocks[id].instructions.extend(instructions);
    }

    /// Pairs of instructions of which one can follow the other.
    pub(super) fn successions(&self) -> Result<Vec<[usize; 2]>, PythonError> {
        let mut pairs = Vec::new();
        for &id in &self.order {
            let block = &self.blocks[id];
            pairs.extend(block.instructions.windows(2).map(|pair| [pair[0], pair[1]]));
            let Some(&last) = block.instructions.last() else {
                continue;
            };
            for next in block.next() {
                if let Some(&first) = self.blocks[next].instructions.first() {
                    pairs.push([last, first]);
                }
            }
            limit_successions(pairs.len())?;
        }
        Ok(pairs)
    }
}

fn limit_successions(found: usize) -> Result<(), PythonError> {
    match found > MAX_EDGES {
        false => Ok(()),
        true => Err(PythonError::TooLarge {
            what: "successions of instructions",
            found,
            limit: MAX_EDGES,
        }),
    }
}
