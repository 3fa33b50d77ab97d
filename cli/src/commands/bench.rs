//! `bench`: how long models take on this machine.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Shape, Tensor};
use candle_graph::encodings::{EncodingPlan, EncodingRecipe, GraphEncoding, Rrwp};
use candle_graph::graph::{Features, Graph};
use candle_graph::nn::{FeatureEncoderConfig, HeadConfig, Pooling};
use candle_graph::ops::{Activation, force_reference};
use candle_graph_models::grit::{GritAttentionConfig, GritConfig};
use candle_graph_models::{ModelConfig, Predictor, Want};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use serde::Serialize;

use crate::args::BenchArgs;
use crate::console;

/// What one case took.
#[derive(Debug, Serialize)]
struct Figures {
    case: String,
    graphs: usize,
    nodes: usize,
    pairs: u64,
    path: &'static str,
    milliseconds_min: f64,
    milliseconds_median: f64,
    graphs_per_second: f64,
    peak_memory_mb: Option<f64>,
}

/// Runs the benchmark.
///
/// Weights are random and graphs are made up: neither changes what a forward pass costs.
///
/// # Errors
/// No case has the wanted name, or a model fails.
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let zinc = grit(64, 10, 8, 21, vec![28], vec![4]);
    let peptides = grit(
        96,
        4,
        4,
        17,
        vec![119, 4, 12, 12, 10, 6, 6, 2, 2],
        vec![5, 6, 2],
    );
    let molecules: Vec<usize> = (0..32).map(|i| 20 + i % 8).collect();
    let forward: [(&str, &GritConfig, &[usize]); 4] = [
        ("grit-zinc forward, batch 1", &zinc, &[23]),
        ("grit-zinc forward, batch 32", &zinc, &molecules),
        ("grit-peptides forward, batch 1", &peptides, &[150]),
        ("grit-peptides forward, batch 8", &peptides, &[150; 8]),
    ];
    let encode: [(&str, usize, &[usize]); 3] = [
        ("rrwp 21 steps, 23 nodes", 21, &[23]),
        ("rrwp 21 steps, 32 molecules", 21, &molecules),
        ("rrwp 24 steps, 145 nodes", 24, &[145]),
    ];
    let wanted = |name: &str| args.case.as_ref().is_none_or(|part| name.contains(part));
    let mut all = Vec::new();
    for (name, config, sizes) in forward.into_iter().filter(|(name, ..)| wanted(name)) {
        let predictor = random_model(config)?;
        let graphs = graphs(config, sizes)?;
        let encodings = predictor.model().encoding_plan().compute_all(&graphs, 0)?;
        let step = || forward_once(&predictor, &graphs, &encodings);
        all.push(measure(name, &graphs, args, step)?);
    }
    for (name, steps, sizes) in encode.into_iter().filter(|(name, ..)| wanted(name)) {
        let plan = EncodingPlan::new(vec![EncodingRecipe::Rrwp(Rrwp {
            steps,
            shortest_path: false,
        })])?;
        let graphs = graphs(&zinc, sizes)?;
        let step = || {
            plan.compute_all(&graphs, 0)?;
            Ok(())
        };
        all.push(measure(name, &graphs, args, step)?);
    }
    if all.is_empty() {
        bail!(
            "no case has {:?} in its name",
            args.case.as_deref().unwrap_or("")
        );
    }
    let mut text = String::new();
    if args.json {
        for figures in &all {
            text += &serde_json::to_string(figures)?;
            text.push('\n');
        }
    } else {
        text += &format!(
            "{:32} {:>9} {:>10} {:>10} {:>10} {:>12} {:>9}\n",
            "case", "path", "pairs", "ms min", "ms median", "graphs/s", "peak MB"
        );
        for f in &all {
            let peak = f
                .peak_memory_mb
                .map_or("-".to_string(), |mb| format!("{mb:.0}"));
            text += &format!(
                "{:32} {:>9} {:>10} {:>10.3} {:>10.3} {:>12.1} {peak:>9}\n",
                f.case,
                f.path,
                f.pairs,
                f.milliseconds_min,
                f.milliseconds_median,
                f.graphs_per_second,
            );
        }
    }
    console::print(&text)
}

fn forward_once(
    predictor: &Predictor,
    graphs: &[Graph],
    encodings: &[GraphEncoding],
) -> Result<()> {
    predictor.run_batch(graphs, encodings, 0, Want::Prediction)?;
    Ok(())
}

fn measure(
    name: &str,
    graphs: &[Graph],
    args: &BenchArgs,
    mut step: impl FnMut() -> Result<()>,
) -> Result<Figures> {
    reset_peak_memory();
    let mut milliseconds = Vec::new();
    for run in 0..=args.runs.max(1) {
        let start = Instant::now();
        match args.reference {
            true => force_reference(&mut step)?,
            false => step()?,
        }
        if run > 0 {
            milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    milliseconds.sort_by(f64::total_cmp);
    let median = *milliseconds
        .get(milliseconds.len() / 2)
        .context("no run was timed")?;
    let minimum = *milliseconds.first().context("no run was timed")?;
    Ok(Figures {
        case: name.to_string(),
        graphs: graphs.len(),
        nodes: graphs.iter().map(Graph::num_nodes).sum(),
        pairs: graphs.iter().map(Graph::num_pairs).sum(),
        path: if args.reference { "reference" } else { "fused" },
        milliseconds_min: minimum,
        milliseconds_median: median,
        graphs_per_second: graphs.len() as f64 * 1e3 / median,
        peak_memory_mb: peak_memory_mb(),
    })
}

/// Starts a new measurement of the peak; only Linux can.
fn reset_peak_memory() {
    // Where it cannot be reset the figure is the peak since the start, still an upper bound.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The process's largest resident memory since the last reset, in MB; only Linux tells.
fn peak_memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024.0 / 1e6)
}

fn grit(
    hidden_dim: usize,
    layers: usize,
    heads: usize,
    steps: usize,
    node_tables: Vec<usize>,
    edge_tables: Vec<usize>,
) -> GritConfig {
    GritConfig {
        hidden_dim,
        layers,
        heads,
        output_dim: 1,
        rrwp: Rrwp {
            steps,
            shortest_path: false,
        },
        node_encoder: FeatureEncoderConfig::Embedding {
            tables: node_tables,
        },
        edge_encoder: Some(FeatureEncoderConfig::Embedding {
            tables: edge_tables,
        }),
        node_encoder_norm: false,
        edge_encoder_norm: false,
        encoder_norm_eps: 1e-5,
        attention: GritAttentionConfig {
            clamp: Some(5.0),
            activation: Activation::Relu,
            edge_enhance: true,
            use_bias: false,
            full: true,
        },
        activation: Activation::Relu,
        degree_scaler: true,
        update_pairs: true,
        pair_output: true,
        pair_norm: true,
        layer_norm: false,
        batch_norm: true,
        rezero: false,
        pooling: Pooling::Add,
        head: HeadConfig::SanGraph {
            activation: Activation::Relu,
        },
    }
}

fn random_model(config: &GritConfig) -> Result<Predictor> {
    let backend = Box::new(RandomWeights);
    let vb = VarBuilder::from_backend(backend, DType::F32, Device::Cpu);
    let model = ModelConfig::Grit(config.clone()).build(vb)?;
    Ok(Predictor::new(model, Device::Cpu))
}

/// A molecule-like graph a size: a tree with one ring closure every ten nodes.
fn graphs(config: &GritConfig, sizes: &[usize]) -> Result<Vec<Graph>> {
    let tables = |encoder: &FeatureEncoderConfig| match encoder {
        FeatureEncoderConfig::Embedding { tables } => tables.clone(),
        _ => Vec::new(),
    };
    let node_tables = tables(&config.node_encoder);
    let edge_tables = config.edge_encoder.as_ref().map(tables).unwrap_or_default();
    let mut random = Random(7);
    sizes
        .iter()
        .map(|&n| {
            let mut edges: Vec<[i64; 2]> = Vec::new();
            for node in 1..n as u64 {
                let parent = node - 1 - random.below(node.min(3));
                edges.push([parent as i64, node as i64]);
                if node >= 5 && node.is_multiple_of(10) {
                    edges.push([node as i64 - 5, node as i64]);
                }
            }
            let mut table = |tables: &[usize], rows: usize| {
                let columns = tables.iter().cycle().take(rows * tables.len());
                let data = columns.map(|&t| random.below(t as u64) as u32).collect();
                Features::categorical(tables.len(), data)
            };
            let (nodes, attributes) = (table(&node_tables, n), table(&edge_tables, edges.len()));
            Ok(Graph::builder(n)
                .edges(edges)
                .undirected(true)
                .node_features(nodes)
                .edge_features(attributes)
                .build()?)
        })
        .collect()
}

/// SplitMix64, so that every run times the same graphs and weights.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// Weights of a sensible scale for every tensor that a model asks for.
struct RandomWeights;

impl SimpleBackend for RandomWeights {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        if name.contains("norm") {
            return Tensor::ones(shape, dtype, device);
        }
        let scale = 1.0 / (shape.dims().last().copied().unwrap_or(1) as f32).sqrt();
        let mut random = Random(
            name.bytes()
                .fold(1, |h, b| h.wrapping_mul(31) + u64::from(b)),
        );
        let values: Vec<f32> = (0..shape.elem_count())
            .map(|_| scale * ((random.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0))
            .collect();
        Tensor::from_vec(values, shape, device)?.to_dtype(dtype)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        candle_core::bail!("the shape of {name} must be known")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}
