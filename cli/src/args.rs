//! Commands and flags, one place each.

mod bench;
mod generate;

use std::path::PathBuf;

use candle_graph::datasets::{Delimiter, Format};
use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::BatchBudget;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use bench::BenchArgs;
pub(crate) use generate::{
    DistancesArgs, GenerateArgs, GraphsArgs, MonochromaticArgs, NetworkKindName, PairTargetName,
    ShortestPathArgs, SortingNetworksArgs, SyntheticTask,
};

use crate::device::DeviceChoice;
use crate::dtype::DTypeChoice;
use crate::output::OutputPath;

const EXAMPLES: &str = "\
Examples:
  candle-graph predict --model weights/zoo/grit-zinc --input molecules.jsonl
  cat molecules.jsonl | candle-graph predict --model grit-zinc --output predictions.npz
  candle-graph inspect --model grit-zinc

Models: --model takes a folder with config.json and model.safetensors, or the name of a folder
in $CANDLE_GRAPH_ZOO or in weights/zoo under the current directory.

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted.";

/// Graph transformers from checkpoint to prediction.
#[derive(Debug, Parser)]
#[command(name = "candle-graph", bin_name = "candle-graph", version, about, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Threads for all work on the CPU [default: one a core]
    ///
    /// Sets RAYON_NUM_THREADS and CANDLE_NUM_THREADS, which are obeyed too.
    #[arg(long, global = true, value_name = "N", value_parser = thread_count)]
    pub(crate) threads: Option<usize>,

    /// No progress and no summary; warnings and errors are still shown
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Convert(ConvertArgs),
    Configure(ConfigureArgs),
    Inspect(InspectArgs),
    Encode(EncodeArgs),
    Predict(PredictArgs),
    Embed(EmbedArgs),
    Generate(GenerateArgs),
    Bench(BenchArgs),
    Completions(CompletionsArgs),
}

/// Write the configuration of a published model, without weights
///
/// The models of the experiments of "Rotary Position Encodings for Graphs", of which no weights were
/// released.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  candle-graph configure
  candle-graph configure wire/peptides-func/performer --output wire-peptides")]
pub(crate) struct ConfigureArgs {
    /// Name of the model; without it, all names are listed
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Folder for config.json [default: print it]
    #[arg(long, value_name = "FOLDER", requires = "name")]
    pub(crate) output: Option<PathBuf>,

    /// Replace a configuration in the folder
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

/// Official code base whose checkpoint is converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// GraphGym: a PyTorch `.ckpt` and its options
    Graphgym,
    /// Haiku: `checkpoint.dill` of the directed-graph transformer, or its parameters as safetensors, and its options
    Haiku,
}

/// Convert an official checkpoint to a model folder
///
/// Nothing in the files is executed: only tensors and options are read. The result is loaded once
/// before anything is written. Without a checkpoint, the options alone give config.json: the
/// architecture, the features and the encodings of a model without weights.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  candle-graph convert --from graphgym --checkpoint 99.ckpt --options zinc-GRIT-RRWP.yaml --output grit-zinc
  candle-graph convert --from graphgym --options zinc-GPS+RWSE.yaml --output gps-zinc
  candle-graph convert --from haiku --checkpoint checkpoint.dill --options config.json --output digraph-sorting")]
pub(crate) struct ConvertArgs {
    /// Where the checkpoint comes from
    #[arg(long, value_enum)]
    pub(crate) from: Layout,

    /// The official checkpoint; without it only config.json is written
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,

    /// The options it was trained with, as published (YAML) or resolved (JSON)
    #[arg(long, value_name = "FILE")]
    pub(crate) options: PathBuf,

    /// Folder for config.json and model.safetensors, made if need be
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: PathBuf,

    /// Replace a checkpoint that is in the folder already
    #[arg(long)]
    pub(crate) force: bool,

    /// (graphgym) Read the misspelt section `posenc_RWPSE` of GRIT's PCQM4Mv2 options as `posenc_RRWP`
    #[arg(long)]
    pub(crate) read_rwpse_as_rrwp: bool,

    /// (graphgym) The options of the run that a model was pre-trained in, for options with `pretrained.dir`
    #[arg(long, value_name = "FILE")]
    pub(crate) pretrained_options: Option<PathBuf>,

    /// (graphgym) The coordinates `t` that a model of the rotary fork was given with its data are the entries
    /// of so many Laplacian eigenvectors; they are then computed for graphs without `t`
    #[arg(long, value_name = "COUNT")]
    pub(crate) laplacian_coordinates: Option<usize>,

    /// (graphgym) The node features that the model was given began with these coordinates
    #[arg(long, requires = "laplacian_coordinates")]
    pub(crate) features_begin_with_coordinates: bool,

    /// Name the tensors that were left out
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// Say what a checkpoint is: model, features it reads, encodings, predictions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  candle-graph inspect --model grit-zinc
  candle-graph inspect --model grit-zinc --json --tensors")]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// List every tensor with its shape
    #[arg(long)]
    pub(crate) tensors: bool,
}

/// Compute positional and structural encodings, into a cache, a file or both
#[derive(Debug, Args)]
#[command(after_help = "\
Recipes:
  rrwp:STEPS          relative random walk probabilities, identity included (GRIT: 21)
  rrwp:STEPS:spd      their one-hot of shortest walks
  rwse:FROM-TO        return probabilities after FROM to TO steps; rwse:K is rwse:1-K
  lappe:K:LAPLACIAN:SCALING
                      eigenvectors of the K smallest eigenvalues; LAPLACIAN none, sym (default), rw
                      or rw_lower_triangle; SCALING L2 (default), L1, abs-max, wavelength,
                      wavelength-asin or wavelength-soft
  signnet:K:LAPLACIAN:SCALING
                      the same eigenvectors for SignNet, beside those of lappe
  hkdiag:FROM-TO      diagonals of heat kernels at the times FROM to TO
  elstatic            statistics of the electrostatic interaction between nodes
  graphormer:DISTANCES:IN_DEGREES:OUT_DEGREES:FORM
                      in- and out-degrees, and shortest paths told apart up to DISTANCES; FORM
                      degrees (these only), distances (lengths too) or paths (their nodes too)
  maglap:K:Q          eigenvectors of the K smallest eigenvalues of the Magnetic Laplacian of a
                      directed graph; Q the potential, or Q/d for one divided by the size of the
                      graph (0.25/d). Then any of :none (not normalised), :raw (not turned after a
                      root node), :abs-max (not of unit length), :parts (real and imaginary parts
                      scaled each on its own)
  walk:STEPS:RESTART:reverse
                      directed walks of 1 to STEPS steps; with RESTART, personalised PageRank; with
                      reverse, the same against the edges
  svd:RANK            singular vectors of the adjacency matrix
  magnet:Q            the Magnetic Laplacian itself, and its largest eigenvalue
  several, separated by commas: rrwp:21,rwse:1-20

Output (.safetensors): one tensor a table, `rrwp.node`, `rrwp.pair`, `rwse`,
`lap_pe.eigenvectors`, `lap_pe.eigenvalues`, `lap_pe.mask`, `sign_net.eigenvectors`,
`heat_kernel`, `electrostatic`, `graphormer.in_degrees`, `graphormer.out_degrees`,
`graphormer.distances`, `graphormer.predecessors`, `magnetic.eigenvalues`,
`magnetic.eigenvectors_real`, `magnetic.eigenvectors_imag`, `directed_walk`, `svd`,
`magnet.laplacian` or `magnet.largest_eigenvalue`, f32 [rows, width], graph after graph; `node_ptr` (and `pair_ptr` with pairs), i64 [graphs + 1], cumulative row numbers:
graph g has the rows node_ptr[g]..node_ptr[g+1]. Pair t*n+s of a graph with n nodes is (source s,
target t). `ids`, i64 [graphs]; ids that are text stand as a JSON list in the metadata under `ids`.

Examples:
  candle-graph encode --model grit-zinc --input train.jsonl --cache encodings
  candle-graph encode --recipe rwse:1-20 --input graphs.json --output rwse.safetensors")]
pub(crate) struct EncodeArgs {
    /// Compute what this model needs (folder or zoo name)
    #[arg(
        long,
        short,
        value_name = "MODEL",
        required_unless_present = "recipe",
        conflicts_with = "recipe"
    )]
    pub(crate) model: Option<String>,

    /// Compute these encodings, separated by commas
    #[arg(long, value_name = "RECIPES", value_parser = crate::recipe::parse)]
    pub(crate) recipe: Option<EncodingPlan>,

    /// File to write, ending in .safetensors
    #[arg(long, short, value_name = "FILE", value_parser = crate::output::parse_encodings_path,
          required_unless_present = "cache")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) cache: CacheArgs,

    // Headings of help go on after a group that sets one, so these two come last.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
}

/// Predict: one JSON object a graph on standard output, or a file
///
/// Results come in input order. Graphs are read, checked and run batch by batch, so input may be
/// endless; with --batch-graphs 1 every graph is answered before the next is read. The id is the
/// graph's own as written, else its position from 0.
#[derive(Debug, Args)]
#[command(after_help = "\
Output, by the ending of --output; without it .jsonl goes to standard output:
  .jsonl .ndjson  {\"id\":912,\"prediction\":[1.5]} a line; node and link prediction models:
                  \"prediction\":[[0.1,0.9],...] (a value that is not finite is null)
  .json           a list of such objects
  .npy            f32 [graphs, width], node models [nodes, width], link prediction [pairs, width]
  .npz            predictions (as .npy), ids, and for node models node_ptr: graph g has the rows
                  node_ptr[g]..node_ptr[g+1]; for link prediction edge_label_ptr likewise
  .safetensors    the same three tensors; ids that are text stand as a JSON list in the metadata
The file appears when it is complete; after an error or an interruption nothing is there.

Link prediction models score the node pairs that each graph lists as `edge_label_index`
([[sources],[targets]], JSON records) or the tensor of that name (safetensors); a row a pair.

Examples:
  candle-graph predict --model grit-zinc --input molecules.jsonl
  candle-graph predict --model grit-zinc --input molecules.jsonl --output predictions.npz
  echo '{\"x\":[0,0],\"edges\":[[0,1,1]]}' | candle-graph predict --model grit-zinc
  candle-graph predict --model MODEL --input edges.csv --nodes nodes.csv --directed")]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// What gets an embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EmbeddingLevel {
    /// One row a graph: node embeddings pooled as the model does
    Graph,
    /// One row a node: the state after the last layer
    Node,
}

/// Embed: node states after the last layer, or their pooled form a graph
#[derive(Debug, Args)]
#[command(after_help = "\
Output as with `predict` (see there), with \"embedding\" and `embeddings` for \"prediction\" and
`predictions`.

Examples:
  candle-graph embed --model grit-zinc --level graph --input molecules.jsonl --output molecules.npy
  candle-graph embed --model grit-zinc --level node --input molecules.jsonl")]
pub(crate) struct EmbedArgs {
    /// Embed graphs or nodes
    #[arg(long, value_enum)]
    pub(crate) level: EmbeddingLevel,

    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  candle-graph completions bash > ~/.local/share/bash-completion/completions/candle-graph
  candle-graph completions zsh > ~/.zfunc/_candle-graph")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// The model.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Model folder, or the name of a model in the zoo
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: String,
}

/// What `predict` and `embed` have in common.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// File for the results; its ending decides about the format [default: JSONL on standard output]
    #[arg(long, short, value_name = "FILE", value_parser = crate::output::parse_path)]
    pub(crate) output: Option<OutputPath>,

    /// Where the model runs: cpu, cuda, cuda:N or metal
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub(crate) device: DeviceChoice,

    /// What the model computes in: f32, f16 or bf16
    ///
    /// Half the memory with f16 and bf16, and about three or two decimal digits of accuracy. On the CPU
    /// they are slower than f32: only f32 has fused operations there.
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    pub(crate) dtype: DTypeChoice,

    #[command(flatten)]
    pub(crate) cache: CacheArgs,

    // Headings of help go on after a group that sets one, so these two come last.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
}

/// Where precomputed encodings are kept.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Folder of precomputed encodings: read where it has them, filled where it has not
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
}

/// How much one batch may hold.
#[derive(Debug, Args)]
#[command(next_help_heading = "Batches")]
pub(crate) struct BudgetArgs {
    /// Most graphs of one batch
    #[arg(long, value_name = "N", default_value_t = BatchBudget::default().max_graphs,
          value_parser = at_least_one)]
    pub(crate) batch_graphs: usize,

    /// Most nodes of one batch; a graph that has more is refused
    #[arg(long, value_name = "N", default_value_t = BatchBudget::default().max_nodes,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch_nodes: u64,

    /// Most node pairs (n² a graph) of one batch; a graph that has more is refused. Counts where
    /// the model or the encodings hold a value a pair, and bounds memory there
    #[arg(long, value_name = "N", default_value_t = BatchBudget::default().max_pairs,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch_pairs: u64,
}

impl BudgetArgs {
    /// The budget for work that holds something a pair, or not.
    pub(crate) fn budget(&self, pairs: bool) -> BatchBudget {
        BatchBudget {
            max_graphs: self.batch_graphs,
            max_nodes: self.batch_nodes,
            max_pairs: if pairs { self.batch_pairs } else { u64::MAX },
        }
    }
}

/// Where graphs come from and how they are read.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputArgs {
    /// File with graphs, `-` for standard input [default: standard input, unless it is a terminal]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,

    /// jsonl, json, edge-list, node-link or safetensors [default: by the file's ending; jsonl on
    /// standard input]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,

    /// Edge lists: a line is an edge in one direction
    #[arg(long, conflicts_with = "undirected")]
    pub(crate) directed: bool,

    /// Edge lists: a line stands for both directions (the default)
    #[arg(long)]
    pub(crate) undirected: bool,

    /// Edge lists: file of node features, one row a node
    #[arg(long, value_name = "FILE")]
    pub(crate) nodes: Option<PathBuf>,

    /// Edge lists: number of nodes of every graph [default: rows of --nodes, else the largest
    /// number plus 1]
    #[arg(long, value_name = "N")]
    pub(crate) num_nodes: Option<usize>,

    /// Edge lists: what separates columns [default: the first line decides]
    #[arg(long, value_enum, value_name = "DELIMITER")]
    pub(crate) delimiter: Option<DelimiterChoice>,

    /// Edge lists: whether the first line names the columns [default: it does when its first field
    /// is no number]
    #[arg(long, value_name = "BOOL")]
    pub(crate) header: Option<bool>,

    /// Node-link: attribute that holds the node features; give it again for alternatives
    /// [default: x, feat, features]
    #[arg(long, value_name = "NAME")]
    pub(crate) node_attribute: Vec<String>,

    /// Node-link: attribute that holds the edge features; give it again for alternatives
    /// [default: edge_attr, weight]
    #[arg(long, value_name = "NAME")]
    pub(crate) edge_attribute: Vec<String>,

    /// Longest line, and longest document of the formats that are read as a whole
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    pub(crate) max_input_bytes: u64,
}

/// [`Delimiter`] as the command line spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DelimiterChoice {
    Comma,
    Tab,
    Semicolon,
    Whitespace,
}

impl From<DelimiterChoice> for Delimiter {
    fn from(choice: DelimiterChoice) -> Self {
        match choice {
            DelimiterChoice::Comma => Self::Comma,
            DelimiterChoice::Tab => Self::Tab,
            DelimiterChoice::Semicolon => Self::Semicolon,
            DelimiterChoice::Whitespace => Self::Whitespace,
        }
    }
}

/// A whole number from 1.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_string()),
        Ok(number) => Ok(number),
        Err(_) => Err("not a whole number".to_string()),
    }
}

/// A time in seconds, up to an hour.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    match (0.0..=3600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("it must be from 0 to 3600".to_string()),
    }
}

/// A number of threads; far more than cores only fail to start.
fn thread_count(text: &str) -> Result<usize, String> {
    match at_least_one(text)? {
        threads @ ..=1024 => Ok(threads),
        _ => Err("must be at most 1024".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// clap checks names, defaults and conflicts of every flag here.
    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
