//! Tests of the node encoder.

use candle_core::{DType, Device};

use super::*;
use crate::encodings::{EigvecNorm, Graphormer, LapPe, Rwse};
use crate::graph::{Features, Graph, InputSchema};
use crate::nn::{EigenvectorSet, KernelEncoder, LapPeEncoderConfig};
use crate::spectral::LaplacianNorm;

fn lap_pe_recipe(frequencies: usize) -> LapPe {
    LapPe {
        frequencies,
        laplacian_norm: LaplacianNorm::Sym,
        eigvec_norm: EigvecNorm::L2,
    }
}

fn lap_pe(dim: usize, layers: usize) -> PositionalEncoderConfig {
    PositionalEncoderConfig::LapPe(LapPeEncoderConfig {
        recipe: lap_pe_recipe(3),
        dim,
        set: EigenvectorSet::DeepSet { layers },
        post_layers: 0,
        raw_norm: false,
    })
}

fn rwse(dim: usize) -> PositionalEncoderConfig {
    PositionalEncoderConfig::Rwse {
        recipe: Rwse { times: vec![1, 2] },
        dim,
        encoder: KernelEncoder::Linear,
        raw_norm: true,
    }
}

fn equiv_stable(frequencies: usize) -> PositionalEncoderConfig {
    PositionalEncoderConfig::EquivStable {
        recipe: lap_pe_recipe(frequencies),
        raw_norm: false,
    }
}

fn graphormer(graph_token: bool) -> PositionalEncoderConfig {
    PositionalEncoderConfig::Graphormer {
        recipe: Graphormer {
            spatial_types: 4,
            in_degrees: 5,
            out_degrees: 5,
            degrees_only: false,
            edge_types: true,
        },
        heads: 2,
        edge_types: 3,
        graph_token,
    }
}

fn with(
    features: FeatureEncoderConfig,
    positional: &[PositionalEncoderConfig],
) -> NodeEncoderConfig {
    NodeEncoderConfig {
        features,
        prepend: None,
        positional: positional.to_vec(),
    }
}

const LINEAR: FeatureEncoderConfig = FeatureEncoderConfig::Linear { width: 2 };

#[test]
fn what_cannot_be_built_is_refused_by_name() {
    for (config, words) in [
        (with(LINEAR, &[lap_pe(9, 1)]), "more than the 8 columns"),
        (with(LINEAR, &[lap_pe(8, 1)]), "leave no column"),
        (
            with(FeatureEncoderConfig::None, &[lap_pe(6, 1)]),
            "it makes 6 of the 8 columns",
        ),
        (with(LINEAR, &[lap_pe(4, 0)]), "LapPE: layers is 0"),
        (
            with(LINEAR, &[lap_pe(4, 1), equiv_stable(4)]),
            "two recipes make `lap_pe.eigenvectors`",
        ),
        (
            with(LINEAR, &[graphormer(true), rwse(2)]),
            "behind GraphormerBias with a graph token",
        ),
        (
            with(LINEAR, &[equiv_stable(3), graphormer(true)]),
            "no position for a graph token",
        ),
    ] {
        let error = config.check(8).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    for config in [
        with(LINEAR, &[lap_pe(4, 1), equiv_stable(3)]),
        with(LINEAR, &[graphormer(false), rwse(2)]),
        with(FeatureEncoderConfig::None, &[rwse(3), lap_pe(5, 2)]),
        with(FeatureEncoderConfig::None, &[graphormer(true)]),
        with(FeatureEncoderConfig::None, &[graphormer(false), rwse(2)]),
        with(LINEAR, &[]),
    ] {
        config.check(8).unwrap();
        let text = serde_json::to_string(&config).unwrap();
        let read: NodeEncoderConfig = serde_json::from_str(&text).unwrap();
        assert_eq!(read, config);
    }
}

#[test]
fn recipes_and_schemas_are_those_of_the_parts() {
    let config = with(LINEAR, &[lap_pe(4, 1), equiv_stable(3), graphormer(false)]);
    assert_eq!(config.recipes().len(), 2);
    assert_eq!(config.schema(8), FeatureSchema::Float { width: 2 });
    let tables = vec![3];
    assert_eq!(
        config.edge_schema(),
        Some(FeatureSchema::Categorical { tables })
    );
    let raw = with(FeatureEncoderConfig::Raw, &[lap_pe(3, 1)]);
    assert_eq!(raw.schema(8), FeatureSchema::Float { width: 5 });
    assert_eq!(raw.edge_schema(), None);
}

/// Encodes a path of three nodes with weights that are all zero.
fn encode(config: &NodeEncoderConfig) -> NodeEncoding {
    let path = Graph::builder(3)
        .edges([[0, 1], [1, 2]])
        .edge_features(Some(Features::categorical(1, vec![1, 2])));
    let path = [path.undirected(true).build().unwrap()];
    let schema = InputSchema {
        node: config.schema(8),
        edge: config.edge_schema().unwrap_or_default(),
    };
    let mut batch = GraphBatch::new(&path, &schema, 0, &Device::Cpu).unwrap();
    let plan = EncodingPlan::new(config.recipes()).unwrap();
    let encodings = plan.compute_all(&path, 0).unwrap();
    plan.attach(&mut batch, &encodings).unwrap();
    let vb = VarBuilder::zeros(DType::F32, &Device::Cpu);
    NodeEncoder::new(config, 8, vb)
        .unwrap()
        .forward(&batch)
        .unwrap()
}

#[test]
fn models_without_features_get_their_states_from_the_encodings() {
    for positional in [
        vec![rwse(3), lap_pe(5, 2)],
        vec![graphormer(false), rwse(2)],
        vec![rwse(2), lap_pe(6, 1), equiv_stable(3)],
    ] {
        let found = encode(&with(FeatureEncoderConfig::None, &positional));
        assert_eq!(found.nodes.dims(), [3, 8]);
        assert!(found.token_batch.is_none());
    }
    let found = encode(&with(FeatureEncoderConfig::None, &[graphormer(true)]));
    assert_eq!(found.nodes.dims(), [4, 8]);
    assert_eq!(found.bias.unwrap().dims(), [16, 2]);
    assert_eq!(found.token_batch.unwrap().num_nodes(), 4);
}

/// Coordinates that the graph carries, before a linear map of two more columns.
fn prepended(features: FeatureEncoderConfig) -> NodeEncoderConfig {
    NodeEncoderConfig {
        prepend: Some(Rotational::Given { dim: 3 }),
        ..with(features, &[rwse(2)])
    }
}

#[test]
fn coordinates_are_the_first_columns_of_the_linear_map() {
    let config = prepended(LINEAR);
    config.check(8).unwrap();
    assert_eq!(config.schema(8), FeatureSchema::Float { width: 2 });
    let recipes = config.recipes();
    let given = EncodingRecipe::Rotational(Rotational::Given { dim: 3 });
    assert_eq!(recipes[0], given);
    assert_eq!(recipes.len(), 2);
    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(
        serde_json::from_str::<NodeEncoderConfig>(&text).unwrap(),
        config
    );

    let graph = [Graph::builder(2)
        .node_features(Features::float(2, vec![1.0, 2.0, 3.0, 4.0]))
        .rotational_features(Features::float(3, vec![0.5, 0.25, 8.0, -1.0, 0.0, 2.0]))
        .build()
        .unwrap()];
    let schema = InputSchema {
        node: config.schema(8),
        edge: FeatureSchema::Ignored,
    };
    let mut batch = GraphBatch::new(&graph, &schema, 0, &Device::Cpu).unwrap();
    let plan = EncodingPlan::new(recipes).unwrap();
    plan.attach(&mut batch, &plan.compute_all(&graph, 0).unwrap())
        .unwrap();
    let vars = candle_nn::VarMap::new();
    let vb = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
    // Output column 0 is 1·t0 + 10·t1 + 100·t2 + 1000·x0 + 10000·x1, the others are zero.
    let mut weight = vec![0.0f32; 6 * 5];
    weight[..5].copy_from_slice(&[1.0, 10.0, 100.0, 1000.0, 10000.0]);
    let zeros = candle_nn::Init::Const(0.0);
    vb.get_with_hints((6, 5), "features.linear.weight", zeros)
        .unwrap();
    let bias = vb.get_with_hints(6, "features.linear.bias", zeros);
    assert_eq!(bias.unwrap().dims(), [6]);
    let weight = Tensor::from_vec(weight, (6, 5), &Device::Cpu).unwrap();
    let name = "features.linear.weight";
    vars.data().lock().unwrap()[name].set(&weight).unwrap();
    let encoder = NodeEncoder::new(&config, 8, vb).unwrap();
    let nodes = encoder.forward(&batch).unwrap().nodes;
    assert_eq!(nodes.dims(), [2, 8]);
    let nodes = nodes.to_vec2::<f32>().unwrap();
    assert_eq!([nodes[0][0], nodes[1][0]], [21803.0, 43199.0]);

    let bare = GraphBatch::new(&graph, &schema, 0, &Device::Cpu).unwrap();
    let error = encoder.forward(&bare).unwrap_err().to_string();
    assert!(error.contains("no encoding `rotational`"), "{error}");
}

#[test]
fn coordinates_need_a_linear_map_and_a_width() {
    for features in [
        FeatureEncoderConfig::Embedding { tables: vec![3] },
        FeatureEncoderConfig::Raw,
        FeatureEncoderConfig::Dummy,
    ] {
        let error = prepended(features).check(8).unwrap_err().to_string();
        assert!(
            error.contains("the encoder of the features must be `linear`"),
            "{error}"
        );
    }
    let none = NodeEncoderConfig {
        prepend: Some(Rotational::Given { dim: 0 }),
        ..with(LINEAR, &[])
    };
    let error = none.check(8).unwrap_err().to_string();
    assert!(error.contains("0 rotational features"), "{error}");
}
