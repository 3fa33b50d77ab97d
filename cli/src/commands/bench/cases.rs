//! What is timed: the models of the papers' benchmarks and their encodings.

use candle_graph::encodings::{
    EigvecNorm, EncodingRecipe, LapPe, Magnetic, Rotational, Rrwp, Rwse,
};
use candle_graph::nn::{
    AttentionConfig, EigenvectorSet, FeatureEncoderConfig, FeatureMapConfig, HeadConfig,
    KernelEncoder, LapPeEncoderConfig, MagLapNetConfig, MessagePassingConfig, NodeEncoderConfig,
    Pooling, PositionalEncoderConfig, RotaryConfig, RotationalFeaturesConfig,
};
use candle_graph::ops::Activation;
use candle_graph::spectral::{LaplacianNorm, Potential};
use candle_graph_models::ModelConfig;
use candle_graph_models::digraph::{
    DigraphConfig, DigraphEncoderConfig, DigraphHeadConfig, DigraphInputConfig,
    DirectedPositionalConfig, Readout, TransformerEncoderConfig,
};
use candle_graph_models::gps::{GpsConfig, GpsNorm};
use candle_graph_models::grit::{GritAttentionConfig, GritConfig};
use candle_graph_models::sections::{InputConfig, OutputConfig};
use candle_graph_models::wire_benchmarks::{WireAttention, WireBenchmark, WireDataset};

/// One thing to time.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) work: Work,
    /// Nodes of every graph.
    pub(super) sizes: Vec<usize>,
}

/// What is done with the graphs.
pub(super) enum Work {
    /// A forward pass with encodings that are there already.
    Forward(Box<ModelConfig>),
    /// The encoding alone.
    Encode(EncodingRecipe),
}

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let molecules: Vec<usize> = (0..32).map(|i| 20 + i % 8).collect();
    let zinc = ModelConfig::Grit(grit(64, 10, 8, 21, vec![28], vec![4]));
    let peptides = ModelConfig::Grit(grit(
        96,
        4,
        4,
        17,
        FeatureEncoderConfig::ATOM_TABLES.to_vec(),
        FeatureEncoderConfig::BOND_TABLES.to_vec(),
    ));
    let forward = |name, model: &ModelConfig, sizes: &[usize]| Case {
        name,
        work: Work::Forward(Box::new(model.clone())),
        sizes: sizes.to_vec(),
    };
    let encode = |name, recipe: EncodingRecipe, sizes: &[usize]| Case {
        name,
        work: Work::Encode(recipe),
        sizes: sizes.to_vec(),
    };
    let rrwp = |steps| {
        EncodingRecipe::Rrwp(Rrwp {
            steps,
            shortest_path: false,
        })
    };
    let (gps_zinc, gps_peptides, gps_malnet) = (gps_zinc(), gps_peptides(), gps_malnet());
    let wire_linear = wire_linear();
    let mut cases = vec![
        forward("grit-zinc forward, batch 1", &zinc, &[23]),
        forward("grit-zinc forward, batch 32", &zinc, &molecules),
        forward("grit-peptides forward, batch 1", &peptides, &[150]),
        forward("grit-peptides forward, batch 8", &peptides, &[150; 8]),
        forward("gps-zinc forward, batch 1", &gps_zinc, &[23]),
        forward("gps-zinc forward, batch 32", &gps_zinc, &molecules),
        forward("gps-peptides forward, batch 1", &gps_peptides, &[150]),
        forward("gps-peptides forward, batch 8", &gps_peptides, &[150; 8]),
        forward("gps-malnet forward, 1400 nodes", &gps_malnet, &[1400]),
        encode("rrwp 21 steps, 23 nodes", rrwp(21), &[23]),
        encode("rrwp 21 steps, 32 molecules", rrwp(21), &molecules),
        encode("rrwp 24 steps, 145 nodes", rrwp(24), &[145]),
        encode(
            "rwse 20 steps, 32 molecules",
            EncodingRecipe::Rwse(rwse(20)),
            &molecules,
        ),
        encode(
            "lap_pe 10 of 150 nodes",
            EncodingRecipe::LapPe(lap_pe(10)),
            &[150],
        ),
        encode(
            "lap_pe 10 of 1400 nodes",
            EncodingRecipe::LapPe(lap_pe(10)),
            &[1400],
        ),
        forward("wire-linear forward, 1000 nodes", &wire_linear, &[1000]),
        forward("wire-linear forward, 10^4 nodes", &wire_linear, &[10_000]),
        forward("wire-linear forward, 10^5 nodes", &wire_linear, &[100_000]),
        forward(
            "wire-linear forward, 10^6 nodes",
            &wire_linear,
            &[1_000_000],
        ),
    ];
    let comparators: Vec<usize> = (0..48).map(|i| 27 + i).collect();
    cases.push(forward(
        "digraph-sorting forward, batch 48",
        &digraph_sorting(),
        &comparators,
    ));
    for (name, sizes) in [
        ("magnetic 25 of 64 nodes", [64].as_slice()),
        ("magnetic 25 of 256 nodes", &[256]),
        ("magnetic 25 of 1024 nodes", &[1024]),
        ("magnetic 25, 48 small graphs", &comparators),
    ] {
        cases.push(encode(name, EncodingRecipe::Magnetic(magnetic()), sizes));
    }
    let malnet = WireBenchmark::all().find(|benchmark| {
        benchmark.dataset() == WireDataset::MalNetTiny
            && benchmark.attention() == WireAttention::Performer
    });
    if let Some(malnet) = malnet {
        let name = "wire-malnet forward, 1400 nodes";
        cases.push(forward(name, &malnet.config(), &[1400]));
    }
    cases
}

fn rwse(steps: usize) -> Rwse {
    Rwse {
        times: (1..=steps).collect(),
    }
}

fn lap_pe(frequencies: usize) -> LapPe {
    LapPe {
        frequencies,
        laplacian_norm: LaplacianNorm::None,
        eigvec_norm: EigvecNorm::L2,
    }
}

fn magnetic() -> Magnetic {
    Magnetic {
        k: 25,
        excluded: 0,
        q: Potential::Relative(0.25),
        symmetric_norm: true,
        sign_rotate: true,
        root: None,
        l2_norm: true,
        separate_parts: false,
    }
}

/// The transformer of "Transformers Meet Directed Graphs" for sorting networks, as in the authors'
/// presets: 4 layers of width 256 with MagLapNet.
fn digraph_sorting() -> ModelConfig {
    ModelConfig::Digraph(DigraphConfig {
        hidden_dim: 256,
        input: DigraphInputConfig::Comparators {
            timescale: 26,
            order: false,
        },
        positional: Some(DirectedPositionalConfig::Magnetic {
            eigenvectors: magnetic(),
            network: MagLapNetConfig::Elementwise {
                element_dim: 8,
                message_passing: false,
                sign_invariant: false,
                eigenvalues: true,
                attention_heads: Some(4),
            },
            relative: false,
        }),
        encoder: DigraphEncoderConfig::Transformer(TransformerEncoderConfig {
            layers: 4,
            heads: 4,
            feed_forward_dim: 1024,
            bias: true,
            separate_imaginary: false,
            structure: None,
            degree_scaled_residual: false,
            norm_first: false,
            batch_norm: false,
        }),
        activation: Activation::GeluTanh,
        readout: Readout::Token,
        output_dim: 2,
        head: DigraphHeadConfig::Graph { positions: 1 },
    })
}

fn lap_pe_encoder(dim: usize) -> PositionalEncoderConfig {
    PositionalEncoderConfig::LapPe(LapPeEncoderConfig {
        recipe: lap_pe(10),
        dim,
        set: EigenvectorSet::DeepSet { layers: 2 },
        post_layers: 0,
        raw_norm: false,
    })
}

/// GraphGPS as on ZINC (`zinc-GPS+RWSE.yaml`).
fn gps_zinc() -> ModelConfig {
    let activation = Activation::Relu;
    ModelConfig::Gps(gps(
        (64, 10),
        input(
            FeatureEncoderConfig::Embedding { tables: vec![28] },
            Some(PositionalEncoderConfig::Rwse {
                recipe: rwse(20),
                dim: 28,
                encoder: KernelEncoder::Linear,
                raw_norm: true,
            }),
            FeatureEncoderConfig::Embedding { tables: vec![4] },
        ),
        MessagePassingConfig::Gine { activation },
        AttentionConfig::softmax(4),
        OutputConfig {
            dim: 1,
            pooling: Pooling::Add,
            head: HeadConfig::SanGraph { activation },
        },
    ))
}

/// GraphGPS as on Peptides-func (`peptides-func-GPS.yaml`).
fn gps_peptides() -> ModelConfig {
    ModelConfig::Gps(gps(
        (96, 4),
        input(
            FeatureEncoderConfig::embedding(FeatureEncoderConfig::ATOM_TABLES),
            Some(lap_pe_encoder(16)),
            FeatureEncoderConfig::embedding(FeatureEncoderConfig::BOND_TABLES),
        ),
        MessagePassingConfig::GatedGcn {
            activation: Activation::Relu,
            residual: true,
        },
        AttentionConfig::softmax(4),
        OutputConfig {
            dim: 10,
            pooling: Pooling::Mean,
            head: HeadConfig::Graph { layers: 1 },
        },
    ))
}

/// GraphGPS as on MalNet-Tiny (`malnettiny-GPS.yaml`).
fn gps_malnet() -> ModelConfig {
    ModelConfig::Gps(gps(
        (64, 5),
        input(
            FeatureEncoderConfig::Linear { width: 5 },
            Some(lap_pe_encoder(16)),
            FeatureEncoderConfig::Dummy,
        ),
        MessagePassingConfig::GatedGcn {
            activation: Activation::Relu,
            residual: true,
        },
        AttentionConfig::Performer {
            heads: 4,
            head_dim: 64,
            features: 266,
        },
        OutputConfig {
            dim: 5,
            pooling: Pooling::Max,
            head: HeadConfig::Graph { layers: 3 },
        },
    ))
}

/// A network whose time and memory grow with the nodes and edges alone: 4 layers of width 64 with
/// GINE and ReLU linear attention of 4 heads, rotated by three given coordinates.
fn wire_linear() -> ModelConfig {
    let activation = Activation::Relu;
    let input = input(
        FeatureEncoderConfig::Linear { width: 5 },
        None,
        FeatureEncoderConfig::Dummy,
    );
    let config = gps(
        (64, 4),
        input,
        MessagePassingConfig::Gine { activation },
        AttentionConfig::Linear {
            heads: 4,
            feature_map: FeatureMapConfig::Relu { eps: 1e-3 },
        },
        OutputConfig {
            dim: 5,
            pooling: Pooling::Mean,
            head: HeadConfig::Graph { layers: 3 },
        },
    );
    ModelConfig::Gps(GpsConfig {
        rotary: Some(RotaryConfig::new(RotationalFeaturesConfig::Raw {
            recipe: Rotational::Given { dim: 3 },
        })),
        ..config
    })
}

fn input(
    features: FeatureEncoderConfig,
    positional: Option<PositionalEncoderConfig>,
    edge_encoder: FeatureEncoderConfig,
) -> InputConfig {
    InputConfig {
        node_encoder: NodeEncoderConfig {
            features,
            prepend: None,
            positional: positional.into_iter().collect(),
        },
        edge_encoder: Some(edge_encoder),
        node_norm: false,
        edge_norm: false,
        norm_eps: 1e-5,
        pre_layers: None,
    }
}

fn gps(
    (hidden_dim, layers): (usize, usize),
    input: InputConfig,
    local: MessagePassingConfig,
    attention: AttentionConfig,
    output: OutputConfig,
) -> GpsConfig {
    GpsConfig {
        hidden_dim,
        layers,
        input,
        local: Some(local),
        attention: Some(attention),
        rotary: None,
        norm: GpsNorm::Batch,
        activation: Activation::Relu,
        output,
    }
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
