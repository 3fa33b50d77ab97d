//! A stream of graphs cut into batches, each graph checked when it is read.

use candle_graph::datasets::GraphReader;
use candle_graph::graph::{BatchBudget, BatchFill, Graph};

/// Consecutive graphs that fit a batch budget together.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Position of the first graph in the input.
    pub(crate) first: usize,
    /// The graphs, at least one.
    pub(crate) graphs: Vec<Graph>,
}

/// Cuts the graphs of a reader into chunks; only one chunk and one more graph are in memory. The
/// graphs before one that fails are given out first, and the error is the last item.
pub(crate) struct Batches<C> {
    reader: GraphReader,
    budget: BatchBudget,
    check: C,
    /// A graph that did not fit the last chunk, or why there are no more.
    waiting: Option<anyhow::Result<Graph>>,
    position: usize,
    done: bool,
}

impl<C: FnMut(&Graph, usize) -> candle_graph::Result<()>> Batches<C> {
    /// Chunks of `reader` within `budget`. `check` sees every graph with its position; what it
    /// refuses is told with the place in the input.
    pub(crate) fn new(reader: GraphReader, budget: BatchBudget, check: C) -> Self {
        Self {
            reader,
            budget,
            check,
            waiting: None,
            position: 0,
            done: false,
        }
    }

    fn read(&mut self) -> Option<anyhow::Result<Graph>> {
        let graph = match self.reader.next()? {
            Ok(graph) => graph,
            Err(error) => return Some(Err(error.into())),
        };
        let checked = self
            .budget
            .admit(&graph, self.position)
            .and_then(|()| (self.check)(&graph, self.position));
        if let Err(error) = checked {
            let mut place = self.reader.source_name().to_string();
            if let Some(line) = self.reader.line() {
                place.push_str(&format!(", line {line}"));
            }
            return Some(Err(anyhow::Error::new(error).context(place)));
        }
        self.position += 1;
        Some(Ok(graph))
    }
}

impl<C: FnMut(&Graph, usize) -> candle_graph::Result<()>> Iterator for Batches<C> {
    type Item = anyhow::Result<Chunk>;

    fn next(&mut self) -> Option<anyhow::Result<Chunk>> {
        let mut graphs: Vec<Graph> = Vec::new();
        let mut fill = BatchFill::default();
        while !self.done {
            let next = match self.waiting.take() {
                Some(next) => Some(next),
                None if graphs.len() >= self.budget.max_graphs => break,
                None => self.read(),
            };
            match next {
                Some(Ok(graph)) if self.budget.has_room(&fill, &graph) => {
                    fill.add(&graph);
                    graphs.push(graph);
                }
                Some(Err(error)) if graphs.is_empty() => {
                    self.done = true;
                    return Some(Err(error));
                }
                Some(next) => {
                    self.waiting = Some(next);
                    break;
                }
                None => self.done = true,
            }
        }
        let waiting = usize::from(matches!(self.waiting, Some(Ok(_))));
        let first = self.position - waiting - graphs.len();
        (!graphs.is_empty()).then_some(Ok(Chunk { first, graphs }))
    }
}
