//! A recorded case: its options and its tensors under our names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use candle_graph::datasets::SafetensorsBatch;
use candle_graph::encodings::{Electrostatic, Graphormer, HeatKernel, LapPe, Rwse};
use candle_graph::graph::Graph;
use candle_graph::nn::{
    EigenvectorSet, FeatureEncoderConfig, KernelEncoder, LapPeEncoderConfig, NodeEncoderConfig,
    PositionalEncoderConfig, SignInvariantPooling,
};
use candle_graph_weights::{Limits, StateDict, read_safetensors, torch};
use serde_json::Value;

const CPU: Device = Device::Cpu;

/// A recorded case: everything of its files under one roof.
pub(crate) struct Case {
    pub(crate) name: String,
    options: Value,
    pub(crate) tensors: HashMap<String, Tensor>,
    inputs: PathBuf,
}

impl Case {
    pub(crate) fn read(folder: &Path) -> Self {
        let text = std::fs::read(folder.join("config.json")).unwrap();
        let mut tensors = HashMap::new();
        let mut add = |state: StateDict| {
            for (name, data) in state.iter() {
                let name = name.strip_prefix("model.").unwrap_or(name);
                tensors.insert(name.to_string(), data.to_tensor(&CPU).unwrap());
            }
        };
        let one = folder.join("case.safetensors");
        let inputs = if one.is_file() {
            add(read_safetensors(&one, &Limits::default()).unwrap());
            one
        } else {
            add(torch::read_state_dict(&folder.join("model.ckpt"), &Limits::default()).unwrap());
            for file in ["inputs", "encodings", "outputs"] {
                let file = folder.join(format!("{file}.safetensors"));
                if file.is_file() {
                    add(read_safetensors(&file, &Limits::default()).unwrap());
                }
            }
            folder.join("inputs.safetensors")
        };
        Self {
            name: folder.display().to_string(),
            options: serde_json::from_slice(&text).unwrap(),
            tensors,
            inputs,
        }
    }

    pub(crate) fn graphs(&self) -> Vec<Graph> {
        let file = std::fs::File::open(&self.inputs).unwrap();
        let graphs = SafetensorsBatch::new(file, "inputs").unwrap();
        graphs.collect::<Result<_, _>>().unwrap()
    }

    pub(crate) fn text(&self, path: &str) -> &str {
        self.options.pointer(path).and_then(Value::as_str).unwrap()
    }

    fn whole(&self, path: &str) -> usize {
        let number = self.options.pointer(path).and_then(Value::as_u64);
        usize::try_from(number.unwrap_or_else(|| panic!("{path}"))).unwrap()
    }

    pub(crate) fn flag(&self, path: &str) -> bool {
        let flag = self.options.pointer(path).and_then(Value::as_bool);
        flag.unwrap_or(false)
    }

    /// Width of the node states.
    pub(crate) fn width(&self) -> usize {
        self.tensors["node_after_encoder"].dim(1).unwrap()
    }

    fn lap_pe(&self, eigen: &str, norm: &str) -> LapPe {
        LapPe {
            frequencies: self.whole(&format!("{eigen}/eigen/max_freqs")),
            laplacian_norm: self
                .text(&format!("{norm}/eigen/laplacian_norm"))
                .parse()
                .unwrap(),
            eigvec_norm: self
                .text(&format!("{eigen}/eigen/eigvec_norm"))
                .parse()
                .unwrap(),
        }
    }

    fn positional(&self, name: &str) -> PositionalEncoderConfig {
        let section = format!("/posenc_{name}");
        let of = |option: &str| format!("{section}/{option}");
        let raw_norm = (self.options.pointer(&of("raw_norm_type")))
            .is_some_and(|norm| norm.as_str().unwrap().eq_ignore_ascii_case("batchnorm"));
        let dim = || self.whole(&of("dim_pe"));
        let layers = || self.whole(&of("layers"));
        let kernel = || match self.text(&of("model")).to_ascii_lowercase().as_str() {
            "linear" => KernelEncoder::Linear,
            _ => KernelEncoder::Mlp { layers: layers() },
        };
        let times = || {
            let times = self.options.pointer(&of("kernel/times")).unwrap();
            let times = times.as_array().unwrap().iter();
            times.map(|t| t.as_u64().unwrap()).collect::<Vec<_>>()
        };
        match name {
            "LapPE" => PositionalEncoderConfig::LapPe(LapPeEncoderConfig {
                recipe: self.lap_pe(&section, &section),
                dim: dim(),
                set: match self.text(&of("model")) {
                    "DeepSet" => EigenvectorSet::DeepSet { layers: layers() },
                    _ => EigenvectorSet::Transformer {
                        layers: layers(),
                        heads: self.whole(&of("n_heads")),
                    },
                },
                post_layers: self.whole(&of("post_layers")),
                raw_norm,
            }),
            "RWSE" => PositionalEncoderConfig::Rwse {
                recipe: Rwse {
                    times: times().into_iter().map(|t| t as usize).collect(),
                },
                dim: dim(),
                encoder: kernel(),
                raw_norm,
            },
            "HKdiagSE" => PositionalEncoderConfig::HeatKernel {
                recipe: HeatKernel {
                    times: times().into_iter().map(|t| t as u32).collect(),
                },
                dim: dim(),
                encoder: kernel(),
                raw_norm,
            },
            "ElstaticSE" => PositionalEncoderConfig::Electrostatic {
                recipe: Electrostatic {},
                dim: dim(),
                encoder: kernel(),
                raw_norm,
            },
            "SignNet" => PositionalEncoderConfig::SignNet {
                recipe: self.lap_pe(&section, &section),
                dim: dim(),
                layers: layers(),
                hidden_dim: self.whole(&of("phi_hidden_dim")),
                output_dim: self.whole(&of("phi_out_dim")),
                pooling: match self.text(&of("model")) {
                    "DeepSet" => SignInvariantPooling::Sum,
                    _ => SignInvariantPooling::Concatenate,
                },
                post_layers: self.whole(&of("post_layers")),
            },
            "EquivStableLapPE" => PositionalEncoderConfig::EquivStable {
                recipe: self.lap_pe(&section, "/posenc_LapPE"),
                raw_norm,
            },
            "GraphormerBias" => PositionalEncoderConfig::Graphormer {
                recipe: Graphormer {
                    spatial_types: self.whole(&of("num_spatial_types")),
                    in_degrees: self.whole(&of("num_in_degrees")),
                    out_degrees: self.whole(&of("num_out_degrees")),
                    degrees_only: self.flag(&of("node_degrees_only")),
                    edge_types: true,
                },
                heads: self.whole("/graphormer/num_heads"),
                edge_types: self.whole("/dataset/edge_encoder_num_types"),
                graph_token: self.flag("/graphormer/use_graph_token"),
            },
            name => panic!("{}: positional encoder {name}", self.name),
        }
    }

    /// The tables of the embeddings below `prefix` with names from `parts`, in order.
    fn tables(&self, prefix: &str, parts: &[String]) -> Vec<usize> {
        let rows = |part: &String| {
            let table = self.tensors.get(&format!("{prefix}{part}.weight"));
            table.map(|table| table.dim(0).unwrap())
        };
        parts.iter().map_while(rows).collect()
    }

    /// The encoder of features called `name`, with official names below `prefix`; gives our names
    /// with the official ones.
    pub(crate) fn features(
        &self,
        name: &str,
        prefix: &str,
    ) -> (FeatureEncoderConfig, Vec<[String; 2]>) {
        let pair = |ours: String, official: &str| [ours, format!("{prefix}{official}")];
        let linear = |part: &str| {
            let weight = &self.tensors[&format!("{prefix}{part}.weight")];
            let width = weight.dim(1).unwrap();
            let names = ["weight", "bias"]
                .map(|t| pair(format!("linear.{t}"), &format!("{part}.{t}")))
                .to_vec();
            (FeatureEncoderConfig::Linear { width }, names)
        };
        let parts: Vec<String> = match name {
            "TypeDictNode" | "TypeDictEdge" | "DummyEdge" | "PPANode" => vec!["encoder".into()],
            "Atom" => (0..9).map(|c| format!("atom_embedding_list.{c}")).collect(),
            "Bond" => (0..3).map(|c| format!("bond_embedding_list.{c}")).collect(),
            "ASTNode" => vec![
                "type_encoder".into(),
                "attribute_encoder".into(),
                "depth_encoder".into(),
            ],
            "ASTEdge" => vec!["embedding_type".into(), "embedding_direction".into()],
            "LinearNode" | "LinearEdge" | "VOCNode" | "VOCEdge" | "COCONode" | "COCOEdge"
            | "PPAEdge" => return linear("encoder"),
            _ => return linear("linear_x"),
        };
        let tables = self.tables(prefix, &parts);
        assert_eq!(tables.len(), parts.len(), "{}: {name}", self.name);
        let names = (parts.iter().enumerate())
            .map(|(c, part)| pair(format!("embeddings.{c}.weight"), &format!("{part}.weight")))
            .collect();
        let config = match name {
            "DummyEdge" | "PPANode" => FeatureEncoderConfig::Dummy,
            "ASTNode" => FeatureEncoderConfig::ClampedEmbedding {
                tables,
                clamped: vec![2],
            },
            _ => FeatureEncoderConfig::Embedding { tables },
        };
        (config, names)
    }

    /// The node encoder and its tensors under our names.
    pub(crate) fn node_encoder(&self) -> (NodeEncoderConfig, HashMap<String, Tensor>) {
        const ROOT: &str = "encoder.node_encoder.";
        let name = self.text("/dataset/node_encoder_name");
        let mut parts: Vec<&str> = name.split('+').collect();
        let bare = self.options.get(format!("posenc_{}", parts[0])).is_some();
        if bare {
            parts.insert(0, "linear_x");
        }
        let composed = parts.len() > 1 && !bare;
        let prefix = |at: usize| match composed {
            true => format!("{ROOT}encoder{}.", at + 1),
            false => ROOT.to_string(),
        };
        let (features, names) = self.features(parts[0], &prefix(0));
        let mut tensors: HashMap<String, Tensor> = names
            .into_iter()
            .map(|[ours, official]| (format!("features.{ours}"), self.tensors[&official].clone()))
            .collect();
        let mut positional = Vec::new();
        for (at, part) in parts.iter().enumerate().skip(1) {
            positional.push(self.positional(part));
            let prefix = prefix(at);
            for (official, tensor) in &self.tensors {
                let Some(rest) = official.strip_prefix(&prefix) else {
                    continue;
                };
                if rest.starts_with("linear_x") || rest.ends_with("num_batches_tracked") {
                    continue;
                }
                let ours = renamed(
                    part,
                    rest,
                    self.flag("/posenc_GraphormerBias/node_degrees_only"),
                );
                tensors.insert(format!("positional.{}.{ours}", at - 1), tensor.clone());
            }
        }
        let config = NodeEncoderConfig {
            features,
            prepend: None,
            positional,
        };
        (config, tensors)
    }
}

/// Our name of a tensor of a positional encoder.
fn renamed(kind: &str, official: &str, degrees_only: bool) -> String {
    let numbered = |text: &str, prefix: &str, ours: &str, shift: usize| {
        let (number, rest) = text.strip_prefix(prefix)?.split_once('.')?;
        let number: usize = number.parse().ok()?;
        Some(format!("{ours}.{}.{rest}", (number - shift) / 2))
    };
    let replaced = |pairs: &[(&str, &str)]| {
        let replace = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
        pairs.iter().fold(official.to_string(), replace)
    };
    match kind {
        "LapPE" if official.starts_with("pe_encoder.layers.") => replaced(&[
            ("pe_encoder.", ""),
            ("self_attn.in_proj_", "attention.in_proj."),
            ("self_attn.", "attention."),
            ("linear1", "feed_forward.input"),
            ("linear2", "feed_forward.output"),
            ("norm1", "norm_attention"),
            ("norm2", "norm_feed_forward"),
        ]),
        "LapPE" => numbered(official, "pe_encoder.", "layers", 1)
            .or_else(|| numbered(official, "post_mlp.", "post", 0))
            .unwrap_or_else(|| replaced(&[("linear_A", "input")])),
        "SignNet" => replaced(&[
            ("sign_inv_net.", ""),
            ("enc.bns.", "norms."),
            ("enc.", ""),
            ("nn.lins.0", "input"),
            ("nn.lins.1", "output"),
            ("nn.bns.0", "norm"),
            ("rho.lins.", "post."),
            ("rho.bns.", "post_norms."),
        ]),
        "EquivStableLapPE" => replaced(&[("linear_encoder_eigenvec", "linear")]),
        "GraphormerBias" => {
            let bias = official.starts_with("0.") && !degrees_only;
            let token = if bias { "bias_token" } else { "graph_token" };
            replaced(&[
                ("0.", ""),
                ("1.", ""),
                ("graph_token", token),
                ("spatial_encoder", "spatial"),
                ("edge_dis_encoder", "edge_distances"),
                ("edge_encoder", "edges"),
                ("in_degree_encoder", "in_degrees"),
                ("out_degree_encoder", "out_degrees"),
            ])
        }
        _ => numbered(official, "pe_encoder.", "layers", 0)
            .unwrap_or_else(|| replaced(&[("pe_encoder.", "layers.0.")])),
    }
}
