//! Python source code as graphs: the nodes of the syntax tree, with edges for control flow, data flow
//! and calls, as in the function name prediction of "Transformers Meet Directed Graphs" (Geisler et
//! al., ICML 2023, section 6 and appendix M). Needs the cargo feature `python-source`.
//!
//! ```
//! use candle_graph::datasets::python::{EdgeType, PythonFunction};
//!
//! let function = PythonFunction::parse("def double(x):\n    y = x + x\n    return y\n")?;
//! assert_eq!(function.name(), "double");
//! let graph = function.graph();
//! // The name is what a model predicts, so the graph does not tell it.
//! assert_eq!(graph.nodes()[1].attribute_name(), "_mask_");
//! let flows = graph.edges().iter().filter(|e| e.edge_type == EdgeType::LastWrite);
//! assert_eq!(flows.count(), 3);
//! # Ok::<(), candle_graph::datasets::python::PythonError>(())
//! ```
//!
//! Graphs equal those of the official code (which builds on `python_graphs` and `gast` 0.5 under
//! Python 3.11), nodes depth first. What it does and what may surprise:
//! - [`EdgeType::CfgNext`] orders the statements of a list only as far as their data flow does, so
//!   that exchanging independent statements changes no edge that models read;
//!   [`EdgeType::NextSyntax`] keeps the order of the text, and models leave it out.
//! - `with`, `match`, `async def`, `async for` and annotated assignments are no instructions: what
//!   they hold has no control flow and no data flow, only fields. Lambdas are not entered either.
//! - A name assigned by annotations, subscripts or attributes of a `for` target counts as assigned.
//! - The function's name is masked where it is defined, not where it is called.
//! - Loops that nothing leads to make the official code fail; here they have a graph.
//!
//! The grammar is that of the newest Python; syntax that Python 3.11 has no nodes for (`type`
//! statements, type parameters, template strings) is refused.

mod ast;
mod control_flow;
mod convert;
mod data_flow;
mod error;
mod function;
mod literals;
mod nesting;
mod node_type;
mod order;
mod program_graph;
mod vocabulary;

pub use error::{NoFunction, PythonError};
pub use function::PythonFunction;
pub use node_type::NodeType;
pub use program_graph::{EdgeType, MASK, NONE, ProgramEdge, ProgramGraph, ProgramNode};
pub use vocabulary::{UNKNOWN, Vocabulary};
