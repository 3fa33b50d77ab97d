//! Graphs from a file or from standard input.

use std::fs::File;
use std::io::{BufReader, IsTerminal};
use std::path::Path;

use candle_graph::Error;
use candle_graph::datasets::{self, EdgeListOptions, Format, GraphReader, ReadOptions};

use crate::args::InputArgs;
use crate::failure::Usage;
use crate::progress::Progress;

/// Standard input in messages.
const STANDARD_INPUT: &str = "standard input";
/// Bytes read at once.
const BUFFER: usize = 1 << 16;

/// Opens the input.
///
/// # Errors
/// Standard input being a terminal, flags that do not go with the format, an unreadable file.
pub(crate) fn open(args: &InputArgs, progress: &Progress) -> anyhow::Result<GraphReader> {
    let path = args.input.as_deref().filter(|path| *path != Path::new("-"));
    let format = match (args.format, path) {
        (Some(format), _) => Some(format),
        (None, Some(path)) => Format::from_path(path),
        (None, None) => Some(Format::JsonLines),
    };
    check_flags(args, format)?;
    let options = read_options(args);
    let Some(path) = path else {
        if args.input.is_none() && std::io::stdin().is_terminal() {
            return Err(Usage::error(
                "no graphs: give a file with --input, or send them to standard input \
                 (`--input -` reads what you type)",
            ));
        }
        let format = format.unwrap_or(Format::JsonLines);
        let reader = BufReader::with_capacity(BUFFER, std::io::stdin());
        return Ok(datasets::read_with(
            reader,
            format,
            STANDARD_INPUT,
            &options,
        )?);
    };
    match format {
        // These are read as they are worked on, so that the place in the file tells the progress.
        Some(format @ (Format::JsonLines | Format::EdgeList)) => {
            let file = File::open(path).map_err(|error| Error::io(path, error))?;
            let bytes = file.metadata().map_or(0, |data| data.len());
            let reader = BufReader::with_capacity(BUFFER, progress.follow(file, bytes));
            let name = path.display().to_string();
            Ok(datasets::read_with(reader, format, name, &options)?)
        }
        _ => Ok(datasets::open(path, args.format, &options)?),
    }
}

fn read_options(args: &InputArgs) -> ReadOptions {
    let mut options = ReadOptions {
        edge_list: EdgeListOptions {
            directed: args.directed,
            num_nodes: args.num_nodes,
            node_features: args.nodes.clone(),
            delimiter: args.delimiter.map(Into::into),
            header: args.header,
        },
        max_bytes: args.max_input_bytes,
        ..ReadOptions::default()
    };
    if !args.node_attribute.is_empty() {
        options.node_link.node_attributes = args.node_attribute.clone();
    }
    if !args.edge_attribute.is_empty() {
        options.node_link.edge_attributes = args.edge_attribute.clone();
    }
    options
}

/// Refuses flags that the format would leave unread.
fn check_flags(args: &InputArgs, format: Option<Format>) -> anyhow::Result<()> {
    let Some(format) = format else {
        return Ok(());
    };
    let edge_list = [
        ("--directed", args.directed),
        ("--undirected", args.undirected),
        ("--nodes", args.nodes.is_some()),
        ("--num-nodes", args.num_nodes.is_some()),
        ("--delimiter", args.delimiter.is_some()),
        ("--header", args.header.is_some()),
    ];
    let node_link = [
        ("--node-attribute", !args.node_attribute.is_empty()),
        ("--edge-attribute", !args.edge_attribute.is_empty()),
    ];
    let is_edge_list = format == Format::EdgeList;
    // Whether a `.json` file holds node-link data shows only inside.
    let is_node_link = matches!(format, Format::NodeLink | Format::Json);
    for (flags, applies, what) in [
        (
            &edge_list[..],
            is_edge_list,
            "edge lists (--format edge-list)",
        ),
        (
            &node_link[..],
            is_node_link,
            "node-link data (--format node-link)",
        ),
    ] {
        if let Some((flag, _)) = flags.iter().find(|(_, given)| *given && !applies) {
            return Err(Usage::error(format!(
                "{flag} is for {what}; the input is read as {format}"
            )));
        }
    }
    Ok(())
}
