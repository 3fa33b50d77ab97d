//! Loading of frequencies and encoders, and which configurations fit.

use std::collections::HashMap;

use candle_core::Device;

use super::*;
use crate::encodings::{EigvecNorm, EncodingPlan, EncodingRecipe, LapPe, Rotational};
use crate::graph::{Graph, InputSchema};
use crate::nn::{
    EigenvectorSet, FeatureEncoderConfig, FeatureMapConfig, LapPeEncoderConfig, NodeEncoder,
    NodeEncoderConfig, PositionalEncoderConfig,
};
use crate::ops::test_data::{assert_close, randn};
use crate::spectral::LaplacianNorm;

fn raw(dim: usize) -> RotationalFeaturesConfig {
    RotationalFeaturesConfig::Raw {
        recipe: Rotational::Given { dim },
    }
}

fn config(features: RotationalFeaturesConfig) -> RotaryConfig {
    RotaryConfig {
        features,
        pairs: RotaryPairs::FullWidth,
        separate_keys: false,
        share_layers: false,
        layers: None,
        modulation: RotaryModulation::BeforeFeatures,
    }
}

fn lap_pe(dim: usize, set: EigenvectorSet, raw_norm: bool) -> RotationalFeaturesConfig {
    RotationalFeaturesConfig::LapPe(LapPeEncoderConfig {
        recipe: LapPe {
            frequencies: 3,
            laplacian_norm: LaplacianNorm::Sym,
            eigvec_norm: EigvecNorm::L2,
        },
        dim,
        set,
        post_layers: 1,
        raw_norm,
    })
}

fn tensors(shapes: &[(&str, &[usize])]) -> HashMap<String, Tensor> {
    let random = shapes
        .iter()
        .map(|(name, shape)| (name.to_string(), randn(shape, 1.0)));
    random.collect()
}

fn var_builder(tensors: HashMap<String, Tensor>, dtype: DType) -> VarBuilder<'static> {
    VarBuilder::from_tensors(tensors, dtype, &Device::Cpu)
}

fn linear_attention(feature_map: FeatureMapConfig) -> AttentionConfig {
    AttentionConfig::Linear {
        heads: 2,
        feature_map,
    }
}

#[test]
fn frequencies_are_loaded_for_every_pair() {
    let softmax = AttentionConfig::softmax(2);
    let performer = AttentionConfig::Performer {
        heads: 3,
        head_dim: 5,
        features: 11,
    };
    let random_features = linear_attention(FeatureMapConfig::PositiveRandom { features: 8 });
    let relu = linear_attention(FeatureMapConfig::Relu { eps: 0.001 });
    let after = RotaryModulation::AfterFeatures;
    let before = RotaryModulation::BeforeFeatures;
    for (attention, pairs, modulation, count) in [
        (&softmax, RotaryPairs::FullWidth, before, 5),
        (&softmax, RotaryPairs::SharedByHeads, before, 2),
        (&softmax, RotaryPairs::PerHead, before, 4),
        (&performer, RotaryPairs::FullWidth, before, 7),
        (&random_features, RotaryPairs::FullWidth, before, 5),
        (&random_features, RotaryPairs::FullWidth, after, 8),
        (&random_features, RotaryPairs::SharedByHeads, after, 4),
        (&relu, RotaryPairs::PerHead, after, 4),
    ] {
        let config = RotaryConfig {
            pairs,
            modulation,
            ..config(raw(3))
        };
        config.check(attention, 10, 1).unwrap();
        let load = |count: usize| {
            let weights = tensors(&[("query.weight", &[count, 3])]);
            Rotary::new(&config, attention, 10, var_builder(weights, DType::F32))
        };
        let rotation = load(count).unwrap().rotation(&randn(&[4, 3], 1.0)).unwrap();
        assert_eq!(rotation.query.cos.dims(), [4, count]);
        assert_eq!(rotation.query.sin.dims(), [4, count]);
        assert!(rotation.key.is_none());
        assert_eq!((rotation.pairs, rotation.modulation), (pairs, modulation));
        let message = load(count + 1).unwrap_err().to_string();
        assert!(message.contains("query.weight"), "{message}");
    }
}

#[test]
fn keys_have_their_own_frequencies_where_the_configuration_says_so() {
    let attention = AttentionConfig::softmax(1);
    let weights = tensors(&[("query.weight", &[2, 3]), ("key.weight", &[2, 3])]);
    let separate = RotaryConfig {
        separate_keys: true,
        ..config(raw(3))
    };
    let load = |config, weights: &HashMap<String, Tensor>| {
        Rotary::new(
            config,
            &attention,
            4,
            var_builder(weights.clone(), DType::F32),
        )
    };
    let t = randn(&[5, 3], 1.0);
    let rotation = load(&separate, &weights).unwrap().rotation(&t).unwrap();
    for (name, table) in [("query", &rotation.query), ("key", &rotation.key.unwrap())] {
        let expected = rotation_table(&t, &weights[&format!("{name}.weight")]).unwrap();
        assert_close(&table.cos, &expected.cos, 0.0);
        assert_close(&table.sin, &expected.sin, 0.0);
    }
    for missing in ["query.weight", "key.weight"] {
        let mut weights = weights.clone();
        weights.remove(missing);
        let message = load(&separate, &weights).unwrap_err().to_string();
        assert!(message.contains(missing), "{message}");
    }
    let shared = load(&config(raw(3)), &weights).unwrap();
    assert!(shared.rotation(&t).unwrap().key.is_none());
    assert!(shared.rotation(&randn(&[5, 2], 1.0)).is_err());
}

/// Angles of some hundreds, which bf16 rounds to whole numbers.
#[test]
fn angles_are_exact_whatever_the_type_of_the_model() {
    let attention = AttentionConfig::softmax(1);
    let t = Tensor::new(&[[300.3f64], [-123.4]], &Device::Cpu).unwrap();
    let weights = HashMap::from([(
        "query.weight".to_owned(),
        Tensor::new(&[[1f32], [0.5]], &Device::Cpu).unwrap(),
    )]);
    for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 2e-5), (DType::BF16, 4e-3)] {
        let vb = var_builder(weights.clone(), dtype);
        let rotary = Rotary::new(&config(raw(1)), &attention, 4, vb).unwrap();
        let table = rotary.rotation(&t).unwrap().query;
        assert_eq!((table.cos.dtype(), table.sin.dtype()), (dtype, dtype));
        let values = |t: &Tensor| t.to_dtype(DType::F64).unwrap().to_vec2::<f64>().unwrap();
        let (cos, sin) = (values(&table.cos), values(&table.sin));
        for (row, t) in [300.3f64, -123.4].into_iter().enumerate() {
            for (pair, angle) in [t, t / 2.0].into_iter().enumerate() {
                let errors = [cos[row][pair] - angle.cos(), sin[row][pair] - angle.sin()];
                assert!(
                    errors.iter().all(|e| e.abs() < tolerance),
                    "{dtype:?} {errors:?}"
                );
            }
        }
    }
}

/// A path of three nodes and a single node, with the encodings of `recipe`.
fn batch(recipe: &EncodingRecipe) -> GraphBatch {
    let path = Graph::builder(3).edges([[0, 1], [1, 2]]).undirected(true);
    let graphs = [path.build().unwrap(), Graph::builder(1).build().unwrap()];
    let mut batch = GraphBatch::new(&graphs, &InputSchema::default(), 0, &Device::Cpu).unwrap();
    let plan = EncodingPlan::new(vec![recipe.clone()]).unwrap();
    let encodings = plan.compute_all(&graphs, 0).unwrap();
    plan.attach(&mut batch, &encodings).unwrap();
    batch
}

fn deep_set() -> (RotationalFeaturesConfig, HashMap<String, Tensor>) {
    let weights = tensors(&[
        ("raw_norm.weight", &[3]),
        ("raw_norm.bias", &[3]),
        ("raw_norm.running_mean", &[3]),
        ("input.weight", &[4, 2]),
        ("input.bias", &[4]),
        ("post.0.weight", &[4, 4]),
        ("post.0.bias", &[4]),
    ]);
    let variance = Tensor::new(&[0.5f32, 1.0, 2.0], &Device::Cpu).unwrap();
    let variance = [("raw_norm.running_var".to_owned(), variance)];
    let config = lap_pe(4, EigenvectorSet::DeepSet { layers: 1 }, true);
    (config, weights.into_iter().chain(variance).collect())
}

#[test]
fn learned_coordinates_are_those_of_lap_pe() {
    let (features, weights) = deep_set();
    let vb = var_builder(weights.clone(), DType::F32);
    let batch = batch(&features.recipe());
    let found = RotationalEncoder::new(&features, vb)
        .unwrap()
        .forward(&batch)
        .unwrap();
    assert_eq!(found.dims(), [4, features.dim()]);

    let RotationalFeaturesConfig::LapPe(config) = features else {
        panic!("learned coordinates")
    };
    let dim = config.dim;
    let positional = PositionalEncoderConfig::LapPe(config);
    let node_encoder = NodeEncoderConfig {
        prepend: None,
        features: FeatureEncoderConfig::None,
        positional: vec![positional],
    };
    let prefixed = weights
        .into_iter()
        .map(|(name, tensor)| (format!("positional.0.{name}"), tensor));
    let vb = var_builder(prefixed.collect(), DType::F32);
    let expected = NodeEncoder::new(&node_encoder, dim, vb)
        .unwrap()
        .forward(&batch)
        .unwrap();
    assert_close(&found, &expected.nodes, 0.0);
    let rows: Vec<Vec<f32>> = found.to_vec2().unwrap();
    assert!(rows[0] != rows[1] && rows.iter().flatten().any(|x| *x != 0.0));
}

#[test]
fn tensors_and_encodings_that_are_missing_are_named() {
    let (features, weights) = deep_set();
    for missing in weights.keys() {
        let mut weights = weights.clone();
        weights.remove(missing);
        let loaded = RotationalEncoder::new(&features, var_builder(weights, DType::F32));
        let message = loaded.unwrap_err().to_string();
        assert!(message.contains(missing), "{missing}: {message}");
    }
    let set = EigenvectorSet::Transformer {
        layers: 1,
        heads: 2,
    };
    let transformer = RotationalEncoder::new(
        &lap_pe(4, set, false),
        var_builder(
            tensors(&[("input.weight", &[4, 2]), ("input.bias", &[4])]),
            DType::F32,
        ),
    );
    let message = transformer.unwrap_err().to_string();
    assert!(message.contains("layers.0.attention.in_proj"), "{message}");

    let encoder = RotationalEncoder::new(&features, var_builder(weights, DType::F32)).unwrap();
    let without = |encoder: &RotationalEncoder| {
        let graph = [Graph::builder(1).build().unwrap()];
        let batch = GraphBatch::new(&graph, &InputSchema::default(), 0, &Device::Cpu).unwrap();
        encoder.forward(&batch).unwrap_err().to_string()
    };
    let message = without(&encoder);
    assert!(message.contains("lap_pe.eigenvectors"), "{message}");
    let nothing = var_builder(HashMap::new(), DType::F32);
    let as_they_are = RotationalEncoder::new(&raw(2), nothing).unwrap();
    let message = without(&as_they_are);
    assert!(message.contains("`rotational`"), "{message}");
}

#[test]
fn coordinates_of_a_recipe_are_taken_as_they_are() {
    let graph = [Graph::builder(3).build().unwrap()];
    let mut batch = GraphBatch::new(&graph, &InputSchema::default(), 0, &Device::Cpu).unwrap();
    let t = randn(&[3, 2], 1.0);
    batch.attach_encoding(ROTATIONAL, t.clone());
    let nothing = var_builder(HashMap::new(), DType::F32);
    let found = RotationalEncoder::new(&raw(2), nothing)
        .unwrap()
        .forward(&batch)
        .unwrap();
    assert_close(&found, &t, 0.0);
}

#[test]
fn what_cannot_be_rotated_is_refused_by_name() {
    let softmax = AttentionConfig::softmax(2);
    let single_columns = AttentionConfig::softmax(8);
    let performer = AttentionConfig::Performer {
        heads: 2,
        head_dim: 4,
        features: 5,
    };
    let big_bird = r#"{"kind": "big_bird", "heads": 2, "block_size": 3, "random_blocks": 3,
        "use_bias": false}"#;
    let big_bird: AttentionConfig = serde_json::from_str(big_bird).unwrap();
    let good = config(raw(3));
    let of_layers = |layers: &[usize]| RotaryConfig {
        layers: Some(layers.to_vec()),
        ..good.clone()
    };
    let of_pairs = |pairs| RotaryConfig {
        pairs,
        ..good.clone()
    };
    let after = RotaryConfig {
        modulation: RotaryModulation::AfterFeatures,
        ..good.clone()
    };
    let uneven = EigenvectorSet::Transformer {
        layers: 1,
        heads: 3,
    };
    let deep_set = |layers| EigenvectorSet::DeepSet { layers };
    let none = LapPe {
        frequencies: 0,
        laplacian_norm: LaplacianNorm::Sym,
        eigvec_norm: EigvecNorm::L2,
    };
    let no_eigenvectors = RotationalFeaturesConfig::LapPe(LapPeEncoderConfig {
        recipe: none,
        dim: 4,
        set: deep_set(1),
        post_layers: 0,
        raw_norm: false,
    });
    for (config, attention, option, words) in [
        (
            &config(raw(0)),
            &softmax,
            "features",
            "0 rotational features",
        ),
        (
            &config(raw(5000)),
            &softmax,
            "features",
            "5000 rotational features",
        ),
        (
            &config(lap_pe(0, deep_set(1), false)),
            &softmax,
            "features",
            "dim is 0",
        ),
        (
            &config(lap_pe(4, deep_set(0), false)),
            &softmax,
            "features",
            "layers is 0",
        ),
        (
            &config(lap_pe(4, uneven, false)),
            &softmax,
            "features",
            "4 for 3 heads",
        ),
        (&config(no_eigenvectors), &softmax, "features", "LapPE"),
        (&of_layers(&[]), &softmax, "layers", "no layer rotates"),
        (&of_layers(&[0, 4]), &softmax, "layers", "layer 4 of 4"),
        (
            &of_layers(&[2, 0, 2]),
            &softmax,
            "layers",
            "layer 2 is listed twice",
        ),
        (
            &of_pairs(RotaryPairs::PerHead),
            &single_columns,
            "pairs",
            "no pair of columns",
        ),
        (&after, &softmax, "modulation", "logits of a softmax"),
        (&after, &big_bird, "modulation", "logits of a softmax"),
        (&after, &performer, "modulation", "Performer"),
    ] {
        let invalid = config.check(attention, 8, 4).unwrap_err();
        assert_eq!(invalid.option, option, "{invalid}");
        assert!(invalid.problem.contains(words), "{invalid}");
    }
    for (config, attention) in [
        (&good, &softmax),
        (&good, &single_columns),
        (&good, &performer),
        (&good, &big_bird),
        (&of_layers(&[3, 0]), &softmax),
        (&config(lap_pe(4, deep_set(2), true)), &softmax),
        (&after, &linear_attention(FeatureMapConfig::Simple)),
    ] {
        config.check(attention, 8, 4).unwrap();
    }
    let rotates: Vec<bool> = (0..4).map(|i| of_layers(&[3, 0]).rotates(i)).collect();
    assert_eq!(rotates, [true, false, false, true]);
    assert!((0..4).all(|i| good.rotates(i)));
}

#[test]
fn a_short_configuration_rotates_as_the_official_code_does() {
    let text = r#"{"features": {"kind": "raw", "recipe": {"from": "given", "dim": 2}}}"#;
    let read: RotaryConfig = serde_json::from_str(text).unwrap();
    assert_eq!(read, config(raw(2)));
    let unknown = serde_json::from_str::<RotaryConfig>(&text.replace("features", "feature"));
    assert!(unknown.is_err());
}
