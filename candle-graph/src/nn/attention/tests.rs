//! What every kind of attention keeps, on random tensors.

mod rotation;

use std::collections::HashMap;

use candle_core::{DType, Device, Var};
use proptest::prelude::*;

use super::*;
use crate::ops::test_data::randn;
use crate::ops::{FeatureMap, LinearAttentionInput, RotaryPairs, RotationTable, linear_attention};

const WIDTH: usize = 6;

fn performer() -> AttentionConfig {
    AttentionConfig::Performer {
        heads: 3,
        head_dim: 5,
        features: 11,
    }
}

fn linear_kind(feature_map: FeatureMapConfig) -> AttentionConfig {
    AttentionConfig::Linear {
        heads: 2,
        feature_map,
    }
}

fn big_bird(layout: BigBirdLayout) -> AttentionConfig {
    AttentionConfig::BigBird {
        heads: 2,
        block_size: 2,
        random_blocks: 2,
        use_bias: true,
        activation: Activation::Relu,
        norm_eps: 1e-6,
        layout,
    }
}

/// Small enough that no softmax is a choice of one.
fn random(shape: &[usize]) -> Tensor {
    randn(shape, 0.5)
}

/// Random tensors for all that a kind asks for.
fn tensors(config: &AttentionConfig) -> HashMap<String, Tensor> {
    let matrix = |name: &str, rows, columns| (format!("{name}.weight"), random(&[rows, columns]));
    let mut tensors: HashMap<String, Tensor> = match config {
        AttentionConfig::Performer { .. } => {
            let projections = ["query", "key", "value"].map(|name| matrix(name, 15, WIDTH));
            let others = [
                matrix("out_proj", WIDTH, 15),
                ("out_proj.bias".to_owned(), random(&[WIDTH])),
                ("projection".to_owned(), random(&[11, 5])),
            ];
            projections.into_iter().chain(others).collect()
        }
        AttentionConfig::BigBird { .. } => {
            let maps = ["query", "key", "value", "out_proj"];
            let blocks = ["feed_forward.input", "feed_forward.output"];
            let maps = maps.into_iter().chain(blocks);
            maps.clone()
                .map(|name| matrix(name, WIDTH, WIDTH))
                .chain(maps.map(|name| (format!("{name}.bias"), random(&[WIDTH]))))
                .collect()
        }
        AttentionConfig::Linear { .. } | AttentionConfig::Softmax { .. } => HashMap::from([
            matrix("in_proj", 3 * WIDTH, WIDTH),
            ("in_proj.bias".to_owned(), random(&[3 * WIDTH])),
            matrix("out_proj", WIDTH, WIDTH),
            ("out_proj.bias".to_owned(), random(&[WIDTH])),
        ]),
    };
    if let AttentionConfig::Linear {
        heads,
        feature_map: FeatureMapConfig::PositiveRandom { features },
    } = config
    {
        let projection = random(&[*features, WIDTH / heads]);
        tensors.insert("projection".to_owned(), projection);
    }
    if matches!(config, AttentionConfig::BigBird { .. }) {
        for norm in ["attention_norm", "feed_forward_norm"] {
            tensors.insert(format!("{norm}.weight"), random(&[WIDTH]));
            tensors.insert(format!("{norm}.bias"), random(&[WIDTH]));
        }
    }
    tensors
}

fn load(config: &AttentionConfig, tensors: HashMap<String, Tensor>) -> Result<Attention> {
    let vb = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
    Attention::new(config, WIDTH, vb)
}

fn node_ptr(sizes: &[usize]) -> Offsets {
    Offsets::from_lengths(sizes.iter().copied(), &Device::Cpu).unwrap()
}

fn run(layer: &Attention, nodes: &Tensor, sizes: &[usize]) -> Vec<Vec<f32>> {
    let found = layer.forward(nodes, &node_ptr(sizes), None, None).unwrap();
    assert_eq!(found.dims(), nodes.dims());
    found.to_vec2().unwrap()
}

fn close(found: &[Vec<f32>], expected: &[Vec<f32>]) -> bool {
    let pairs = found.iter().flatten().zip(expected.iter().flatten());
    found.len() == expected.len()
        && pairs
            .into_iter()
            .all(|(x, y)| (x - y).abs() <= 1e-4 * y.abs().max(1.0))
}

fn kinds() -> [AttentionConfig; 6] {
    [
        AttentionConfig::softmax(2),
        performer(),
        big_bird(BigBirdLayout::Graph),
        linear_kind(FeatureMapConfig::PositiveRandom { features: 7 }),
        linear_kind(FeatureMapConfig::Relu { eps: 1e-3 }),
        linear_kind(FeatureMapConfig::Simple),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_batch_gives_what_its_graphs_give_alone(
        sizes in prop::collection::vec(prop_oneof![0..9usize, 9..60usize], 0..6),
    ) {
        for config in kinds() {
            let layer = load(&config, tensors(&config)).unwrap();
            let nodes = random(&[sizes.iter().sum(), WIDTH]);
            let found = run(&layer, &nodes, &sizes);
            for range in node_ptr(&sizes).ranges() {
                let alone = nodes.narrow(0, range.start, range.len()).unwrap();
                let alone = run(&layer, &alone, &[range.len()]);
                prop_assert!(close(&found[range], &alone), "{config:?}");
            }
        }
    }

    /// All kinds where every node sees every node: BigBird with at most three blocks.
    #[test]
    fn another_node_order_only_reorders_full_attention(size in 1..=6usize, shift in 0..6usize) {
        for config in kinds() {
            let layer = load(&config, tensors(&config)).unwrap();
            let nodes = random(&[size, WIDTH]);
            let order: Vec<u32> = (0..size).map(|i| ((i + shift) % size) as u32).rev().collect();
            let reordered = Tensor::new(order.as_slice(), &Device::Cpu).unwrap();
            let reordered = nodes.index_select(&reordered, 0).unwrap();
            let found = run(&layer, &nodes, &[size]);
            let expected: Vec<_> = order.iter().map(|&i| found[i as usize].clone()).collect();
            prop_assert!(close(&run(&layer, &reordered, &[size]), &expected), "{config:?}");
        }
    }
}

#[test]
fn the_layout_of_the_batch_is_that_of_its_largest_graph() {
    let graph = big_bird(BigBirdLayout::Graph);
    let tensors = tensors(&graph);
    let of_graph = load(&graph, tensors.clone()).unwrap();
    let of_batch = load(&big_bird(BigBirdLayout::Batch), tensors).unwrap();
    let sizes = [40, 15];
    let nodes = random(&[55, WIDTH]);
    let (own, shared) = (
        run(&of_graph, &nodes, &sizes),
        run(&of_batch, &nodes, &sizes),
    );
    assert!(close(&own[..40], &shared[..40]));
    assert!(!close(&own[40..], &shared[40..]));
}

#[test]
fn a_sparse_block_does_not_see_everything() {
    // Without random blocks, block 7 of 20 sees blocks 0, 6, 7, 8 and 19.
    let config = AttentionConfig::BigBird {
        heads: 2,
        block_size: 2,
        random_blocks: 0,
        use_bias: true,
        activation: Activation::Relu,
        norm_eps: 1e-6,
        layout: BigBirdLayout::Graph,
    };
    let layer = load(&config, tensors(&config)).unwrap();
    let nodes = random(&[40, WIDTH]);
    let before = run(&layer, &nodes, &[40]);
    for (block, seen) in [
        (0, true),
        (3, false),
        (6, true),
        (8, true),
        (9, false),
        (19, true),
    ] {
        let row = nodes.narrow(0, 2 * block, 1).unwrap();
        let rest = 39 - 2 * block;
        let changed = [
            nodes.narrow(0, 0, 2 * block).unwrap(),
            (row + 1.0).unwrap(),
            nodes.narrow(0, 2 * block + 1, rest).unwrap(),
        ];
        let after = run(&layer, &Tensor::cat(&changed, 0).unwrap(), &[40]);
        assert_eq!(before[14] != after[14], seen, "block {block}");
    }
}

#[test]
fn gradients_reach_the_states() {
    for config in kinds() {
        let layer = load(&config, tensors(&config)).unwrap();
        let nodes = Var::from_tensor(&random(&[19, WIDTH])).unwrap();
        let out = layer.forward(nodes.as_tensor(), &node_ptr(&[16, 3]), None, None);
        let weights = random(&[19, WIDTH]);
        let loss = (out.unwrap() * weights).unwrap().sum_all().unwrap();
        let gradients = loss.backward().unwrap();
        let gradient = gradients.get(nodes.as_tensor()).unwrap();
        let rows: Vec<f32> = (gradient.abs().unwrap().sum(1).unwrap()).to_vec1().unwrap();
        assert!(rows.iter().all(|g| g.is_finite() && *g > 0.0), "{config:?}");
    }
}

#[test]
fn a_bias_belongs_to_softmax_attention() {
    let nodes = random(&[2, WIDTH]);
    let bias = random(&[4, 2]);
    for (config, name) in [
        (performer(), "Performer"),
        (big_bird(BigBirdLayout::Graph), "BigBird"),
        (linear_kind(FeatureMapConfig::Simple), "linear"),
    ] {
        let layer = load(&config, tensors(&config)).unwrap();
        let message = layer.forward(&nodes, &node_ptr(&[2]), Some(&bias), None);
        let message = message.unwrap_err().to_string();
        assert!(
            message.contains(name) && message.contains("softmax"),
            "{message}"
        );
    }
    let config = AttentionConfig::softmax(2);
    let layer = load(&config, tensors(&config)).unwrap();
    assert!(
        layer
            .forward(&nodes, &node_ptr(&[2]), Some(&bias), None)
            .is_ok()
    );
}

#[test]
fn what_does_not_fit_is_named() {
    for config in kinds() {
        for name in tensors(&config).into_keys() {
            let mut tensors = tensors(&config);
            tensors.remove(&name);
            let message = load(&config, tensors).unwrap_err().to_string();
            assert!(message.contains(&name), "{name}: {message}");
        }
        let layer = load(&config, tensors(&config)).unwrap();
        let short = layer.forward(&random(&[4, WIDTH]), &node_ptr(&[3, 2]), None, None);
        assert!(short.is_err(), "{config:?}");
    }
    let refused = |config: AttentionConfig, words: &str| {
        let message = load(&config, HashMap::new()).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    };
    for (heads, head_dim, features) in [(0, 5, 11), (3, 0, 11), (3, 5, 0), (usize::MAX, 5, 11)] {
        let config = AttentionConfig::Performer {
            heads,
            head_dim,
            features,
        };
        refused(config, "Performer attention: a width of 6");
    }
    let config = AttentionConfig::Linear {
        heads: 4,
        feature_map: FeatureMapConfig::Simple,
    };
    refused(config, "linear attention: a width of 6 for 4 heads");
    for (number, words) in [(0, "blocks of 0 nodes"), (1, "for 4 heads")] {
        let mut config = big_bird(BigBirdLayout::Graph);
        if let AttentionConfig::BigBird {
            heads, block_size, ..
        } = &mut config
        {
            *block_size = number;
            *heads = if number == 0 { 2 } else { 4 };
        }
        refused(config, words);
    }
}

#[test]
fn the_biases_of_softmax_attention_are_optional_and_there_by_default() {
    let short = r#"{"kind":"softmax","heads":2}"#;
    let config: AttentionConfig = serde_json::from_str(short).unwrap();
    assert_eq!(config, AttentionConfig::softmax(2));
    assert_eq!(serde_json::to_string(&config).unwrap(), short);
    let without = AttentionConfig::Softmax {
        heads: 2,
        use_bias: false,
    };
    let text = serde_json::to_string(&without).unwrap();
    assert_eq!(text, r#"{"kind":"softmax","heads":2,"use_bias":false}"#);
    let read: AttentionConfig = serde_json::from_str(&text).unwrap();
    assert_eq!(read, without);
    let weights = tensors(&config).into_iter();
    let weights = weights.filter(|(name, _)| name.ends_with("weight"));
    load(&without, weights.collect()).unwrap();
}

#[test]
fn linear_attention_is_its_maps_around_the_operation() {
    for config in kinds() {
        let AttentionConfig::Linear { heads, feature_map } = &config else {
            continue;
        };
        let tensors = tensors(&config);
        let nodes = random(&[7, WIDTH]);
        let found = run(&load(&config, tensors.clone()).unwrap(), &nodes, &[4, 3]);
        let map = |x: &Tensor, name: &str| {
            let weight = tensors[&format!("{name}.weight")].t().unwrap();
            let product = x.matmul(&weight).unwrap();
            product
                .broadcast_add(&tensors[&format!("{name}.bias")])
                .unwrap()
        };
        let packed = map(&nodes, "in_proj");
        let part = |i: usize| packed.narrow(1, i * WIDTH, WIDTH).unwrap();
        let attended = linear_attention(LinearAttentionInput {
            query: &part(0),
            key: &part(1),
            value: &part(2),
            node_ptr: &node_ptr(&[4, 3]),
            heads: *heads,
            feature_map: match feature_map {
                FeatureMapConfig::PositiveRandom { .. } => FeatureMap::PositiveRandom {
                    projection: &tensors["projection"],
                },
                FeatureMapConfig::Relu { eps } => FeatureMap::Relu { eps: *eps },
                FeatureMapConfig::Simple => FeatureMap::Simple,
            },
            rotation: None,
        });
        let expected = map(&attended.unwrap(), "out_proj").to_vec2().unwrap();
        assert!(close(&found, &expected), "{config:?}");
    }
}

#[test]
fn a_rotation_behind_the_feature_map_turns_the_features() {
    // Two heads of 3 features, or of 7 random ones.
    for (feature_map, features) in [
        (FeatureMapConfig::Relu { eps: 1e-3 }, 3),
        (FeatureMapConfig::Simple, 3),
        (FeatureMapConfig::PositiveRandom { features: 7 }, 7),
    ] {
        let config = linear_kind(feature_map);
        let layer = load(&config, tensors(&config)).unwrap();
        let nodes = random(&[5, WIDTH]);
        let forward = |angles: &Tensor, separate: Option<&Tensor>| {
            let table = |angles: &Tensor| RotationTable {
                cos: angles.cos().unwrap(),
                sin: angles.sin().unwrap(),
            };
            let rotation = Rotation {
                query: table(angles),
                key: separate.map(table),
                pairs: RotaryPairs::PerHead,
                modulation: RotaryModulation::AfterFeatures,
            };
            let found = layer.forward(&nodes, &node_ptr(&[5]), None, Some(&rotation));
            found.unwrap().to_vec2::<f32>().unwrap()
        };
        let pairs = RotaryPairs::PerHead.count(2, features);
        let angles = random(&[5, pairs]);
        let turned = forward(&angles, None);
        // Differences of angles count, and nothing else.
        let shifted = (&angles + 0.7).unwrap();
        assert!(close(&forward(&shifted, None), &turned), "{config:?}");
        assert!(
            close(&forward(&angles, Some(&angles)), &turned),
            "{config:?}"
        );
        assert!(
            !close(&forward(&angles, Some(&shifted)), &turned),
            "{config:?}"
        );
        assert!(!close(&run(&layer, &nodes, &[5]), &turned), "{config:?}");
    }
}

#[test]
fn a_short_configuration_of_big_bird_has_the_official_defaults() {
    let text = r#"{"kind": "big_bird", "heads": 2, "block_size": 3, "random_blocks": 3,
        "use_bias": false}"#;
    let config: AttentionConfig = serde_json::from_str(text).unwrap();
    let expected = AttentionConfig::BigBird {
        heads: 2,
        block_size: 3,
        random_blocks: 3,
        use_bias: false,
        activation: Activation::Relu,
        norm_eps: 1e-6,
        layout: BigBirdLayout::Graph,
    };
    assert_eq!(config, expected);
}
