//! Edge lists: one edge a line, columns separated by commas, tabs, semicolons or spaces.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::Graphs;
use super::delimited::{Delimiter, Table};
use super::source::{Source, id_from_text, label};
use crate::error::{Error, Result};
use crate::graph::{Features, Graph, TableBuilder};

/// How an edge list is read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EdgeListOptions {
    /// Whether a line is an edge in one direction only; by default it stands for both.
    pub directed: bool,
    /// Number of nodes of every graph; by default the rows of the node features, else the largest
    /// node number plus one.
    pub num_nodes: Option<usize>,
    /// A file of node features, one row a node (see the [module](super) documentation).
    pub node_features: Option<PathBuf>,
    /// What separates the columns of the edge list; by default the first line decides: the first of tab, comma and
    /// semicolon that occurs in it, else runs of spaces.
    pub delimiter: Option<Delimiter>,
    /// Whether the first line names the columns; by default it does when its first field is not a
    /// number.
    pub header: Option<bool>,
}

const GRAPH: &[&str] = &["graph", "graph_id"];

/// Node features by graph, in the order of the file.
struct NodeTables {
    tables: Vec<(Option<String>, Option<Features>)>,
    numbers: HashMap<Option<String>, usize>,
    has_graph_column: bool,
}

impl NodeTables {
    fn read(path: &Path, max_bytes: u64) -> Result<Self> {
        struct Part {
            table: TableBuilder,
            ids: Vec<(i64, u64)>,
        }
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let source = Source {
            name: path.display().to_string(),
            max_bytes,
        };
        let mut rows = Table::new(BufReader::new(file), source, None, None)?;
        let graph_column = rows.column(GRAPH);
        let id_column = rows.column(&["id", "node", "node_id"]);
        let columns: Vec<usize> = (0..rows.width)
            .filter(|c| Some(*c) != graph_column && Some(*c) != id_column)
            .collect();
        let mut parts: Vec<(Option<String>, Part)> = Vec::new();
        let mut numbers = HashMap::new();
        while let Some(line) = rows.next()? {
            let key = graph_column.map(|c| rows.field(c).to_string());
            let at = *numbers.entry(key.clone()).or_insert_with(|| {
                let table = TableBuilder::new("x");
                parts.push((
                    key,
                    Part {
                        table,
                        ids: Vec::new(),
                    },
                ));
                parts.len() - 1
            });
            let part = &mut parts[at].1;
            let id = match id_column {
                Some(column) => rows.node(line, column)?,
                None => part.ids.len() as i64,
            };
            part.ids.push((id, line));
            for &column in &columns {
                part.table.push(rows.value(line, column)?);
            }
            part.table.end_row();
        }
        let mut tables = Vec::with_capacity(parts.len());
        for (key, Part { table, ids }) in parts {
            let table = table
                .finish()
                .map_err(|p| rows.source.error(None, p.to_string()))?;
            let mut order: Vec<u32> = (0..ids.len() as u32).collect();
            order.sort_by_key(|&row| ids[row as usize].0);
            for (expected, &row) in order.iter().enumerate() {
                let (id, line) = ids[row as usize];
                if id != expected as i64 {
                    return Err(rows.source.error(
                        Some(line),
                        format!(
                            "node {id}: the nodes of a graph are 0 to {}, each once",
                            ids.len() - 1
                        ),
                    ));
                }
            }
            if columns.is_empty() {
                return Err(rows.source.error(None, "there is no column with features"));
            }
            tables.push((key, Some(table.features.select_rows(&order))));
        }
        Ok(Self {
            tables,
            numbers,
            has_graph_column: graph_column.is_some(),
        })
    }
}

/// The graph whose edges are being collected.
struct Current {
    key: Option<String>,
    line: Option<u64>,
    edges: Vec<[i64; 2]>,
    features: TableBuilder,
    num_nodes: Option<usize>,
    node_features: Option<Features>,
    largest: i64,
}

/// The graphs of an edge list: one, or as many as the column `graph` names. The first error ends
/// the reading.
pub struct EdgeList<R> {
    rows: Table<R>,
    options: EdgeListOptions,
    graph_column: Option<usize>,
    source_column: usize,
    target_column: usize,
    feature_columns: Vec<usize>,
    nodes: Option<NodeTables>,
    seen: HashSet<String>,
    current: Option<Current>,
    /// Where the graph built last begins.
    built_line: Option<u64>,
    position: usize,
    ended: bool,
    done: bool,
}

impl<R: BufRead> EdgeList<R> {
    /// Reads `reader`; `source_name` stands for it in messages.
    ///
    /// # Errors
    /// An unreadable first line or node-feature file, or a header without source and target.
    pub fn new(
        reader: R,
        source_name: impl Into<String>,
        options: EdgeListOptions,
    ) -> Result<Self> {
        let limit = super::ReadOptions::default().max_bytes;
        Self::with_limit(reader, source_name, options, limit)
    }

    /// [`new`](Self::new) with lines of at most `max_bytes`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_limit(
        reader: R,
        source_name: impl Into<String>,
        options: EdgeListOptions,
        max_bytes: u64,
    ) -> Result<Self> {
        let source = Source {
            name: source_name.into(),
            max_bytes,
        };
        let rows = Table::new(reader, source, options.delimiter, options.header)?;
        if let Some(column) = rows.names.iter().position(String::is_empty) {
            return Err(rows.source.error(
                rows.first_line,
                format!(
                    "the header has column {} without a name; pandas writes its row numbers so: write the file with index=False",
                    column + 1
                ),
            ));
        }
        let graph_column = rows.column(GRAPH);
        let (source_column, target_column) = if rows.names.is_empty() {
            (0, 1)
        } else {
            let source = rows.column(&["source", "src", "from"]);
            let target = rows.column(&["target", "dst", "to"]);
            source.zip(target).ok_or_else(|| {
                let found = rows.names.join(", ");
                rows.source.error(
                    rows.first_line,
                    format!(
                        "the header ({found}) needs a source (source, src or from) and a target (target, dst or to); without a header, lines start with two node numbers"
                    ),
                )
            })?
        };
        if rows.names.is_empty() && rows.width == 1 {
            return Err(rows.source.error(
                rows.first_line,
                format!(
                    "\"{}\" is one field; an edge needs source and target",
                    rows.field(0)
                ),
            ));
        }
        let used = [Some(source_column), Some(target_column), graph_column];
        let feature_columns = (0..rows.width)
            .filter(|c| !used.contains(&Some(*c)))
            .collect();
        let nodes = options
            .node_features
            .as_ref()
            .map(|path| NodeTables::read(path, max_bytes))
            .transpose()?;
        if let Some(nodes) = &nodes
            && !nodes.tables.is_empty()
            && nodes.has_graph_column != graph_column.is_some()
        {
            return Err(rows.source.error(
                None,
                "a column `graph` must be in both the edge list and the node features, or in neither",
            ));
        }
        Ok(Self {
            rows,
            options,
            graph_column,
            source_column,
            target_column,
            feature_columns,
            nodes,
            seen: HashSet::new(),
            current: None,
            built_line: None,
            position: 0,
            ended: false,
            done: false,
        })
    }

    /// A new graph; its node features are taken out of their file's tables.
    fn begin(&mut self, key: Option<String>, line: Option<u64>) -> Current {
        let node_features = self.nodes.as_mut().and_then(|nodes| {
            let at = *nodes.numbers.get(&key)?;
            nodes.tables[at].1.take()
        });
        Current {
            num_nodes: self
                .options
                .num_nodes
                .or(node_features.as_ref().map(Features::rows)),
            key,
            line,
            edges: Vec::new(),
            features: TableBuilder::new("edge_attr"),
            node_features,
            largest: -1,
        }
    }

    fn build(&mut self, current: Current) -> Result<Graph> {
        let id = current.key.as_deref().map(id_from_text);
        let label = label(id.as_ref(), self.position);
        self.position += 1;
        self.built_line = current.line;
        let source = &self.rows.source;
        if self.nodes.is_some() && current.node_features.is_none() {
            return Err(source.graph_error(
                current.line,
                &label,
                "the file of node features has no rows for it",
            ));
        }
        let num_nodes = current
            .num_nodes
            .unwrap_or(usize::try_from(current.largest.saturating_add(1)).unwrap_or(0));
        let graph = current.features.finish().and_then(|features| {
            let mut builder = Graph::builder(num_nodes)
                .edges(current.edges)
                .undirected(!self.options.directed)
                .node_features(current.node_features)
                .edge_features(Some(features.features).filter(|f| f.width() > 0));
            if let Some(id) = id {
                builder = builder.id(id);
            }
            builder.check_and_build()
        });
        source.graph(current.line, &label, graph)
    }

    /// Adds the present record; gives the graph before it when a new one begins.
    fn add(&mut self, line: u64) -> Result<Option<Current>> {
        let key = self.graph_column.map(|c| self.rows.field(c).to_string());
        let mut finished = None;
        if self
            .current
            .as_ref()
            .is_none_or(|current| current.key != key)
        {
            if let Some(key) = &key
                && !self.seen.insert(key.clone())
            {
                return Err(self.rows.source.error(
                    Some(line),
                    format!(
                        "graph \"{key}\" comes again; the lines of a graph must be consecutive"
                    ),
                ));
            }
            let next = self.begin(key, Some(line));
            finished = self.current.replace(next);
        }
        let pair = [
            self.rows.node(line, self.source_column)?,
            self.rows.node(line, self.target_column)?,
        ];
        let Some(current) = &mut self.current else {
            return Ok(finished);
        };
        let largest = pair[0].max(pair[1]);
        if let Some(n) = current.num_nodes
            && largest as u64 >= n as u64
        {
            return Err(self.rows.source.error(
                Some(line),
                format!(
                    "edge {} -> {}: node {largest} does not exist, the graph has {n} nodes (0 to {})",
                    pair[0],
                    pair[1],
                    n.saturating_sub(1)
                ),
            ));
        }
        current.largest = current.largest.max(largest);
        current.edges.push(pair);
        for &column in &self.feature_columns {
            current.features.push(self.rows.value(line, column)?);
        }
        current.features.end_row();
        Ok(finished)
    }

    fn advance(&mut self) -> Result<Option<Graph>> {
        while !self.ended {
            match self.rows.next()? {
                Some(line) => {
                    if let Some(finished) = self.add(line)? {
                        return self.build(finished).map(Some);
                    }
                }
                None => self.ended = true,
            }
        }
        if let Some(current) = self.current.take() {
            return self.build(current).map(Some);
        }
        // Graphs that have node features but no edge.
        let rest = self.nodes.as_ref().and_then(|nodes| {
            let (key, _) = nodes.tables.iter().find(|(_, table)| table.is_some())?;
            Some(key.clone())
        });
        if let Some(key) = rest {
            let current = self.begin(key, None);
            return self.build(current).map(Some);
        }
        if self.position == 0 {
            if self.options.num_nodes.is_none() {
                return Err(self.rows.source.error(
                    None,
                    "there is no edge; a graph without edges needs its number of nodes or node features",
                ));
            }
            let current = self.begin(None, None);
            return self.build(current).map(Some);
        }
        Ok(None)
    }
}

impl<R: BufRead + Send> Graphs for EdgeList<R> {
    fn line(&self) -> Option<u64> {
        self.built_line
    }
}

impl<R: BufRead> Iterator for EdgeList<R> {
    type Item = Result<Graph>;

    fn next(&mut self) -> Option<Result<Graph>> {
        if self.done {
            return None;
        }
        let next = self.advance().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}
