//! What every kind of attention keeps when queries and keys are rotated.

use super::*;
use crate::encodings::Rotational;
use crate::nn::{Rotary, RotaryConfig, RotationalFeaturesConfig};
use crate::ops::{AttentionInput, LinearWeights, RotaryPairs, attention, linear, rotate};

/// Number of coordinates.
const COORDINATES: usize = 3;

const LAYOUTS: [RotaryPairs; 3] = [
    RotaryPairs::FullWidth,
    RotaryPairs::SharedByHeads,
    RotaryPairs::PerHead,
];

fn config(pairs: RotaryPairs, separate_keys: bool) -> RotaryConfig {
    RotaryConfig {
        features: RotationalFeaturesConfig::Raw {
            recipe: Rotational::Given { dim: COORDINATES },
        },
        pairs,
        separate_keys,
        share_layers: false,
        layers: None,
        modulation: RotaryModulation::BeforeFeatures,
    }
}

/// Random frequencies, as many as `attention` needs.
fn frequencies(attention: &AttentionConfig, pairs: RotaryPairs) -> Tensor {
    let (heads, head_dim) = attention.head_widths(WIDTH);
    randn(&[pairs.count(heads, head_dim), COORDINATES], 1.0)
}

/// Frequencies of the queries, and of the keys if they have others.
fn rotary(
    attention: &AttentionConfig,
    pairs: RotaryPairs,
    query: &Tensor,
    key: Option<&Tensor>,
) -> Rotary {
    let config = config(pairs, key.is_some());
    config.check(attention, WIDTH, 1).unwrap();
    let weights = [
        Some(("query.weight", query)),
        key.map(|k| ("key.weight", k)),
    ];
    let weights = weights.into_iter().flatten();
    let weights = weights.map(|(name, tensor)| (name.to_owned(), tensor.clone()));
    let vb = VarBuilder::from_tensors(weights.collect(), DType::F32, &Device::Cpu);
    Rotary::new(&config, attention, WIDTH, vb).unwrap()
}

fn random_rotary(attention: &AttentionConfig, pairs: RotaryPairs, separate_keys: bool) -> Rotary {
    let key = separate_keys.then(|| frequencies(attention, pairs));
    rotary(
        attention,
        pairs,
        &frequencies(attention, pairs),
        key.as_ref(),
    )
}

fn coordinates(nodes: usize) -> Tensor {
    randn(&[nodes, COORDINATES], 1.0)
}

fn run_rotated(
    layer: &Attention,
    nodes: &Tensor,
    sizes: &[usize],
    rotary: &Rotary,
    t: &Tensor,
) -> Vec<Vec<f32>> {
    let rotation = rotary.rotation(t).unwrap();
    let found = layer.forward(nodes, &node_ptr(sizes), None, Some(&rotation));
    let found = found.unwrap();
    assert_eq!(found.dims(), nodes.dims());
    found.to_vec2().unwrap()
}

fn layouts() -> impl Strategy<Value = RotaryPairs> {
    prop::sample::select(&LAYOUTS[..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_rotated_batch_gives_what_its_graphs_give_alone(
        sizes in prop::collection::vec(prop_oneof![0..9usize, 9..60usize], 0..6),
        pairs in layouts(),
        separate_keys in any::<bool>(),
    ) {
        for config in kinds() {
            let layer = load(&config, tensors(&config)).unwrap();
            let rotary = random_rotary(&config, pairs, separate_keys);
            let total = sizes.iter().sum();
            let (nodes, t) = (random(&[total, WIDTH]), coordinates(total));
            let found = run_rotated(&layer, &nodes, &sizes, &rotary, &t);
            for range in node_ptr(&sizes).ranges() {
                let alone = |all: &Tensor| all.narrow(0, range.start, range.len()).unwrap();
                let (nodes, t) = (alone(&nodes), alone(&t));
                let alone = run_rotated(&layer, &nodes, &[range.len()], &rotary, &t);
                prop_assert!(close(&found[range], &alone), "{config:?} {pairs:?}");
            }
        }
    }

    /// All kinds where every node sees every node: BigBird with at most three blocks.
    #[test]
    fn coordinates_go_with_their_nodes(size in 1..=6usize, shift in 0..6usize, pairs in layouts()) {
        for config in kinds() {
            let layer = load(&config, tensors(&config)).unwrap();
            let rotary = random_rotary(&config, pairs, true);
            let (nodes, t) = (random(&[size, WIDTH]), coordinates(size));
            let order: Vec<u32> = (0..size).map(|i| ((i + shift) % size) as u32).rev().collect();
            let rows = Tensor::new(order.as_slice(), &Device::Cpu).unwrap();
            let reordered = |all: &Tensor| all.index_select(&rows, 0).unwrap();
            let found = run_rotated(&layer, &nodes, &[size], &rotary, &t);
            let expected: Vec<_> = order.iter().map(|&i| found[i as usize].clone()).collect();
            let (nodes, t) = (reordered(&nodes), reordered(&t));
            let found = run_rotated(&layer, &nodes, &[size], &rotary, &t);
            prop_assert!(close(&found, &expected), "{config:?} {pairs:?}");
        }
    }

    #[test]
    fn coordinates_of_zero_change_nothing_and_others_do(
        sizes in prop::collection::vec(2..30usize, 1..4),
        pairs in layouts(),
        separate_keys in any::<bool>(),
    ) {
        for config in kinds() {
            let layer = load(&config, tensors(&config)).unwrap();
            let rotary = random_rotary(&config, pairs, separate_keys);
            let total = sizes.iter().sum();
            let (nodes, t) = (random(&[total, WIDTH]), coordinates(total));
            let plain = run(&layer, &nodes, &sizes);
            let still = run_rotated(&layer, &nodes, &sizes, &rotary, &t.zeros_like().unwrap());
            prop_assert!(close(&still, &plain), "{config:?} {pairs:?}");
            let rotated = run_rotated(&layer, &nodes, &sizes, &rotary, &t);
            prop_assert!(!close(&rotated, &plain), "{config:?} {pairs:?}");
        }
    }

    /// Kinds with a softmax of products of queries and keys, whose nodes are shifted together.
    #[test]
    fn logits_see_differences_of_coordinates_unless_a_pair_straddles_heads(
        size in 2..30usize,
        heads in prop::sample::select(&[1usize, 2, 3, 6][..]),
        pairs in layouts(),
        shift in 0.5..1.5f64,
    ) {
        let head_dim = WIDTH / heads;
        prop_assume!(pairs.count(heads, head_dim) > 0);
        let mut sparse = big_bird(BigBirdLayout::Graph);
        if let AttentionConfig::BigBird { heads: of_sparse, .. } = &mut sparse {
            *of_sparse = heads;
        }
        let straddles = pairs == RotaryPairs::FullWidth && head_dim % 2 == 1;
        for config in [AttentionConfig::softmax(heads), sparse] {
            let layer = load(&config, tensors(&config)).unwrap();
            let rotary = random_rotary(&config, pairs, false);
            let (nodes, t) = (random(&[size, WIDTH]), coordinates(size));
            let found = run_rotated(&layer, &nodes, &[size], &rotary, &t);
            let shifted = run_rotated(&layer, &nodes, &[size], &rotary, &(&t + shift).unwrap());
            prop_assert_eq!(close(&shifted, &found), !straddles, "{:?} {:?}", config, pairs);
            // The same coordinates for all are no differences.
            let same = Tensor::full(shift as f32, t.dims(), &Device::Cpu).unwrap();
            let same = run_rotated(&layer, &nodes, &[size], &rotary, &same);
            let plain = run(&layer, &nodes, &[size]);
            prop_assert_eq!(close(&same, &plain), !straddles, "{:?} {:?}", config, pairs);
            // Keys of other frequencies are shifted by other angles.
            let separate = random_rotary(&config, pairs, true);
            let found = run_rotated(&layer, &nodes, &[size], &separate, &t);
            let shifted = run_rotated(&layer, &nodes, &[size], &separate, &(&t + shift).unwrap());
            prop_assert!(!close(&shifted, &found), "{config:?} {pairs:?}");
        }
    }
}

#[test]
fn keys_have_the_frequencies_of_the_queries_unless_they_have_their_own() {
    for config in kinds() {
        let layer = load(&config, tensors(&config)).unwrap();
        let (nodes, t) = (random(&[19, WIDTH]), coordinates(19));
        let run = |query: &Tensor, key: Option<&Tensor>| {
            let rotary = rotary(&config, RotaryPairs::FullWidth, query, key);
            run_rotated(&layer, &nodes, &[16, 3], &rotary, &t)
        };
        let [one, other] = [(); 2].map(|()| frequencies(&config, RotaryPairs::FullWidth));
        let shared = run(&one, None);
        assert_eq!(run(&one, Some(&one)), shared, "{config:?}");
        assert!(!close(&run(&one, Some(&other)), &shared), "{config:?}");
        assert!(!close(&run(&other, Some(&one)), &shared), "{config:?}");
    }
}

#[test]
fn softmax_attention_adds_the_bias_to_rotated_logits() {
    for use_bias in [true, false] {
        let config = AttentionConfig::Softmax { heads: 2, use_bias };
        let weights = tensors(&config);
        let layer = load(&config, weights.clone()).unwrap();
        let (nodes, t, sizes) = (random(&[9, WIDTH]), coordinates(9), [5, 4]);
        let bias = random(&[25 + 16, 2]);
        for pairs in LAYOUTS {
            let rotation = random_rotary(&config, pairs, true).rotation(&t).unwrap();
            let found = layer.forward(&nodes, &node_ptr(&sizes), Some(&bias), Some(&rotation));

            let map = |x: &Tensor, name: &str| {
                let bias = weights.get(&format!("{name}.bias")).cloned();
                let weight = weights[&format!("{name}.weight")].clone();
                let map = LinearWeights::new(weight, bias.filter(|_| use_bias)).unwrap();
                linear(x, &map, Activation::Identity).unwrap()
            };
            let packed = map(&nodes, "in_proj");
            let part = |i: usize| packed.narrow(1, i * WIDTH, WIDTH).unwrap();
            let key = rotation.key.as_ref().unwrap();
            let attended = attention(AttentionInput {
                query: &rotate(&part(0), &rotation.query, pairs, 2).unwrap(),
                key: &rotate(&part(1), key, pairs, 2).unwrap(),
                value: &part(2),
                node_ptr: &node_ptr(&sizes),
                heads: 2,
                scale: 1.0 / 3f64.sqrt(),
                bias: Some(&bias),
            });
            let expected = map(&attended.unwrap(), "out_proj").to_vec2().unwrap();
            assert!(close(&found.unwrap().to_vec2().unwrap(), &expected));
        }
    }
}

#[test]
fn gradients_reach_coordinates_and_frequencies() {
    for config in kinds() {
        let layer = load(&config, tensors(&config)).unwrap();
        let var = |tensor: &Tensor| Var::from_tensor(tensor).unwrap();
        let pairs = RotaryPairs::FullWidth;
        let vars = [
            var(&coordinates(19)),
            var(&frequencies(&config, pairs)),
            var(&frequencies(&config, pairs)),
        ];
        let [t, query, key] = &vars;
        let rotary = rotary(&config, pairs, query.as_tensor(), Some(key.as_tensor()));
        let rotation = rotary.rotation(t.as_tensor()).unwrap();
        let nodes = random(&[19, WIDTH]);
        let out = layer.forward(&nodes, &node_ptr(&[16, 3]), None, Some(&rotation));
        let loss = (out.unwrap() * random(&[19, WIDTH])).unwrap().sum_all();
        let gradients = loss.unwrap().backward().unwrap();
        for var in &vars {
            let gradient = gradients.get(var.as_tensor()).unwrap().abs().unwrap();
            let rows: Vec<f32> = gradient.sum(1).unwrap().to_vec1().unwrap();
            assert!(rows.iter().all(|g| g.is_finite() && *g > 0.0), "{config:?}");
        }
    }
}

#[test]
fn rotations_that_do_not_fit_are_refused_by_name() {
    for (config, without_features) in [
        (AttentionConfig::softmax(2), Some("softmax")),
        (performer(), None),
        (big_bird(BigBirdLayout::Graph), Some("BigBird")),
    ] {
        let layer = load(&config, tensors(&config)).unwrap();
        let rotary = random_rotary(&config, RotaryPairs::FullWidth, false);
        let nodes = random(&[5, WIDTH]);
        let refused = |rotation: &Rotation, words: &str| {
            let found = layer.forward(&nodes, &node_ptr(&[5]), None, Some(rotation));
            let message = found.unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        };
        let of_fewer = rotary.rotation(&coordinates(4)).unwrap();
        refused(&of_fewer, "for 5 nodes");
        let fitting = rotary.rotation(&coordinates(5)).unwrap();
        let other_pairs = Rotation {
            pairs: RotaryPairs::SharedByHeads,
            ..fitting.clone()
        };
        refused(&other_pairs, "pairs of");
        if let Some(name) = without_features {
            let of_features = Rotation {
                modulation: RotaryModulation::AfterFeatures,
                ..fitting
            };
            let words = format!("{name} attention does not rotate features");
            refused(&of_features, &words);
        }
    }
}
