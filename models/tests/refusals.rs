//! Configurations and batches that no model can take are refused by name, without a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use candle_core::{DType, Device, Tensor};
use candle_graph::encodings::RRWP_PAIR;
use candle_graph::graph::{BatchBudget, FeatureSchema, Features, Graph, InputSchema};
use candle_graph_models::{GraphModel, ModelConfig, Predictor};
use candle_nn::VarBuilder;
use serde_json::{Value, json};

fn config(change: impl FnOnce(&mut Value)) -> ModelConfig {
    let mut model = json!({
        "hidden_dim": 4, "layers": 1, "heads": 2, "output_dim": 1, "rrwp": {"steps": 3},
        "node_encoder": {"kind": "embedding", "tables": [3]},
        "attention": {"full": false}, "pooling": "mean", "head": {"kind": "graph", "layers": 2},
    });
    change(&mut model);
    serde_json::from_value(json!({"model_type": "grit", "model": model})).unwrap()
}

fn build(config: &ModelConfig) -> candle_graph::Result<Box<dyn GraphModel>> {
    config.build(VarBuilder::zeros(DType::F32, &Device::Cpu))
}

fn predictor() -> Predictor {
    Predictor::new(build(&config(|_| ())).unwrap(), Device::Cpu)
}

#[test]
fn sizes_out_of_range_are_refused_by_the_name_of_their_option() {
    let huge = u64::MAX;
    for (at, value, option) in [
        ("/hidden_dim", json!(0), "hidden_dim"),
        ("/hidden_dim", json!(huge), "hidden_dim"),
        ("/layers", json!(0), "layers"),
        ("/layers", json!(huge), "layers"),
        ("/heads", json!(3), "heads"),
        ("/output_dim", json!(huge), "output_dim"),
        ("/rrwp/steps", json!(0), "rrwp.steps"),
        ("/rrwp/steps", json!(huge), "rrwp.steps"),
        ("/pooling", json!("graph_token"), "pooling"),
        ("/head/layers", json!(0), "head.layers"),
        ("/head/layers", json!(huge), "head.layers"),
        (
            "/head",
            json!({"kind": "ogb_code_graph", "positions": 0}),
            "head.positions",
        ),
        (
            "/head",
            json!({"kind": "inductive_edge", "layers": 0, "decoding": "dot"}),
            "head.layers",
        ),
        ("/node_encoder/tables", json!([]), "node_encoder"),
        ("/node_encoder/tables", json!([3, 0]), "node_encoder"),
        ("/node_encoder/tables", json!([huge]), "node_encoder"),
        (
            "/node_encoder",
            json!({"kind": "linear", "width": huge}),
            "node_encoder",
        ),
    ] {
        let config = config(|model| *model.pointer_mut(at).unwrap() = value.clone());
        let message = build(&config).unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("{option}: ")),
            "{at} {value}: {message}"
        );
        assert_eq!(config.check().unwrap_err().option, option);
    }
}

#[test]
fn an_encoding_of_the_wrong_shape_is_refused() {
    let predictor = predictor();
    let graph = Graph::builder(3)
        .edges([[0, 1]])
        .node_features(Features::categorical(1, vec![0, 1, 2]))
        .build()
        .unwrap();
    let graphs = [graph];
    let plan = predictor.model().encoding_plan();
    let encodings = plan.compute_all(&graphs, 0).unwrap();
    let mut batch = predictor.batch(&graphs, &encodings, 0).unwrap();
    assert!(predictor.model().forward(&batch).is_ok());
    let short = Tensor::zeros((4, 3), DType::F32, &Device::Cpu).unwrap();
    batch.attach_encoding(RRWP_PAIR, short);
    let message = predictor.model().forward(&batch).unwrap_err().to_string();
    assert!(
        message.contains("`rrwp.pair` of shape [4, 3], expected [9, 3]"),
        "{message}"
    );
    let other = plan
        .compute_all(&[Graph::builder(2).build().unwrap()], 0)
        .unwrap();
    let message = predictor.batch(&graphs, &other, 0).unwrap_err().to_string();
    assert!(
        message.contains("graph 0 of the batch: `rrwp.node`"),
        "{message}"
    );
}

#[test]
fn graphs_that_do_not_fit_the_model_are_refused_by_name() {
    let predictor = predictor();
    let graph = |features: Option<Features>| {
        let builder = Graph::builder(2).node_features(features).id("odd");
        builder.build().unwrap()
    };
    for (features, problem) in [
        (
            None,
            "x: missing; the model needs 1 categorical column(s) with 3 categories",
        ),
        (
            Some(Features::categorical(2, vec![0; 4])),
            "x: 2 feature(s) per row, the model expects 1",
        ),
        (
            Some(Features::categorical(1, vec![0, 3])),
            "x: category 3 at row 1, column 0 is outside the model's table of 3 (0 to 2)",
        ),
        (
            Some(Features::float(1, vec![0.5, 1.0])),
            "x: value 0.5 at row 0, column 0 is not a category (a whole number from 0)",
        ),
    ] {
        let message = predictor
            .predict(&[graph(features)])
            .unwrap_err()
            .to_string();
        assert_eq!(message, format!("graph \"odd\": {problem}"));
    }
    let budget = BatchBudget {
        max_pairs: 3,
        ..BatchBudget::default()
    };
    let error = predictor
        .clone()
        .with_budget(budget)
        .predict(&[graph(None)]);
    let message = error.unwrap_err().to_string();
    assert!(
        message.starts_with("graph \"odd\" has 4 node pairs"),
        "{message}"
    );
    let none: [Graph; 0] = [];
    assert!(predictor.predict(&none).unwrap().is_empty());
}

#[test]
fn tables_that_no_graph_would_hold_do_no_harm() {
    let flat = Features::float(0, vec![0.5]);
    assert!(flat.to_categorical("x").is_err());
    assert!(Features::float(2, vec![0.5; 4]).row(usize::MAX).is_empty());
    let schema = InputSchema {
        node: FeatureSchema::Categorical { tables: vec![0] },
        ..InputSchema::default()
    };
    let graph = Graph::builder(1).node_features(Features::categorical(1, vec![0]));
    let message = schema
        .conform(&graph.build().unwrap(), 7)
        .unwrap_err()
        .to_string();
    assert!(message.starts_with("graph #7: x: category 0"), "{message}");
}
