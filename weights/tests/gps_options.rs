//! Options of the official GraphGPS code: every published configuration makes a model, and what
//! cannot be followed is refused by name.
//!
//! `fixtures/gps-configs.json` holds the options of all files below `configs` of the official
//! repository (rampasek/GraphGPS, commit 2801570, MIT licence) by folder and name. Where the
//! environment variable `CANDLE_GRAPH_GPS_CONFIGS` names such a folder, its YAML files are read too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use candle_core::{DType, Device};
use candle_graph::encodings::EncodingRecipe;
use candle_graph::graph::FeatureSchema;
use candle_graph::nn::{FeatureEncoderConfig, HeadConfig};
use candle_graph::spectral::LaplacianNorm;
use candle_graph_models::ModelConfig;
use candle_graph_weights::convert::Options;
use candle_graph_weights::convert::graphgym::{
    Configured, GraphGymOptions, configure, configure_with,
};
use candle_graph_weights::{CheckpointConfig, Error, Limits, StateDict, load_strict};
use serde_json::{Value, json};
use support::fixture;
use tempfile::TempDir;

/// Options by `FOLDER/NAME`.
fn published() -> BTreeMap<String, Value> {
    let text = std::fs::read(fixture("gps-configs.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// The configurations that continue from a model trained with another one.
const CONTINUED: [(&str, &str); 2] = [
    ("GPS/pcqm4m-GPSdeep-inference", "GPS/pcqm4m-GPSdeep+RWSE"),
    ("GPS/zinc-GPS+RWSE-inference", "GPS/zinc-GPS+RWSE"),
];

/// The choices for the configuration `name`, and the folder with the files that they name.
fn choices(name: &str) -> (GraphGymOptions, TempDir) {
    let folder = TempDir::new().unwrap();
    let continued = CONTINUED.iter().find(|(from, _)| *from == name);
    let pretrained_options = continued.map(|(_, pretrained)| {
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, published()[*pretrained].to_string()).unwrap();
        path
    });
    let choices = GraphGymOptions {
        pretrained_options,
        ..GraphGymOptions::default()
    };
    (choices, folder)
}

fn configured(options: Value) -> Result<Configured, Error> {
    configure_with(
        Options::from_value(options, "test.yaml"),
        &GraphGymOptions::default(),
    )
}

/// The configuration `name` with `changes`: dotted paths and values; null removes the option.
fn changed(name: &str, changes: &[(&str, Value)]) -> Value {
    let mut options = published().remove(name).expect(name);
    for (path, value) in changes {
        let mut section = &mut options;
        let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
        for part in parents.split('.').filter(|part| !part.is_empty()) {
            let map = section.as_object_mut().unwrap();
            section = map.entry(part).or_insert_with(|| json!({}));
        }
        let map = section.as_object_mut().unwrap();
        match value {
            Value::Null => drop(map.remove(last)),
            value => drop(map.insert((*last).to_string(), value.clone())),
        }
    }
    options
}

fn refusal(options: Value) -> String {
    match configured(options) {
        Ok(found) => panic!("configured as {:?}", found.config.model),
        Err(error) => error.to_string(),
    }
}

/// Builds the model without weights: everything that it asks for is missing, and nothing else is
/// wrong.
fn build(name: &str, model: &ModelConfig) -> BTreeMap<String, Option<Vec<usize>>> {
    let limits = Limits::default();
    let nothing = StateDict::new("nothing");
    let built = load_strict(nothing, DType::F32, &Device::Cpu, &limits, |vb| {
        model.build(vb)
    });
    let Err(Error::Mismatch(mismatch)) = built else {
        panic!("{name}: {built:?}");
    };
    assert_eq!(mismatch.stopped, None, "{name}");
    assert!(mismatch.too_large.is_empty(), "{name}: {mismatch}");
    mismatch.missing
}

#[test]
fn every_published_configuration_makes_a_model() {
    let published = published();
    let count = |folder: &str| published.keys().filter(|k| k.starts_with(folder)).count();
    let counts = ["GINE/", "GPS/", "GatedGCN/", "Graphormer/", "SAN/"].map(count);
    assert_eq!(counts, [5, 57, 5, 7, 10]);
    for (name, options) in published {
        let (choices, _files) = choices(&name);
        let options = Options::from_value(options, "test.yaml");
        let Configured { config, .. } =
            configure_with(options, &choices).unwrap_or_else(|error| panic!("{name}: {error}"));
        build(&name, &config.model);
        // The file that is written is one that is read.
        let folder = TempDir::new().unwrap();
        let path = config.write(folder.path()).unwrap();
        assert_eq!(CheckpointConfig::read(&path).unwrap(), config, "{name}");
    }
}

#[test]
fn the_official_files_say_the_same_as_the_fixture() {
    let Some(folder) = std::env::var_os("CANDLE_GRAPH_GPS_CONFIGS") else {
        return;
    };
    for (name, options) in published() {
        let path = PathBuf::from(&folder).join(format!("{name}.yaml"));
        let (choices, _files) = choices(&name);
        let from_file = configure(&path, &choices).unwrap();
        let options = Options::from_value(options, "test.yaml");
        let from_fixture = configure_with(options, &choices).unwrap();
        assert_eq!(from_file.config, from_fixture.config, "{name}");
        assert_eq!(from_file.notes, from_fixture.notes, "{name}");
    }
}

#[test]
fn sizes_that_options_leave_open_are_those_of_the_data_set() {
    let schema = |name: &str| {
        let config = configured(changed(name, &[])).unwrap().config;
        let outputs = match &config.model {
            ModelConfig::Gps(gps) => gps.output.dim,
            ModelConfig::Mpnn(mpnn) => mpnn.output.dim,
            ModelConfig::San(san) => san.output.dim,
            ModelConfig::Graphormer(graphormer) => graphormer.output.dim,
            other => panic!("{other:?}"),
        };
        (config.features.node, outputs, config.training.dataset)
    };
    let float = |width| FeatureSchema::Float { width };
    let tables = |tables: &[usize]| FeatureSchema::Categorical {
        tables: tables.to_vec(),
    };
    let atoms = tables(&[119, 5, 12, 12, 10, 6, 6, 2, 2]);
    for (name, node, outputs, title) in [
        ("GPS/zinc-GPS", tables(&[28]), 1, "ZINC"),
        ("GPS/mnist-GPS", float(3), 10, "MNIST"),
        ("GPS/cifar10-GPS", float(5), 10, "CIFAR10"),
        // Two classes have one output.
        ("GPS/pattern-GPS", float(3), 1, "PATTERN"),
        ("GPS/cluster-GPS", float(7), 6, "CLUSTER"),
        ("GPS/malnettiny-GPS", float(5), 5, "MalNet-Tiny"),
        ("GPS/ogbg-molhiv-GPS", atoms.clone(), 1, "ogbg-molhiv"),
        ("GPS/ogbg-molpcba-GPS", atoms.clone(), 128, "ogbg-molpcba"),
        ("GPS/ogbg-ppa-GPS", FeatureSchema::Ignored, 37, "ogbg-ppa"),
        ("GPS/pcqm4m-GPS", atoms.clone(), 1, "PCQM4Mv2"),
        (
            "GINE/peptides-func-GINE",
            atoms.clone(),
            10,
            "Peptides-func",
        ),
        ("SAN/peptides-struct-SAN", atoms, 11, "Peptides-struct"),
        ("GPS/vocsuperpixels-GPS", float(14), 21, "PascalVOC-SP"),
        ("GPS/cocosuperpixels-GPS", float(14), 81, "COCO-SP"),
        ("GPS/actor-GPS", float(932), 5, "Actor"),
        ("Graphormer/webkb-tex-Graphormer", float(1703), 5, "Texas"),
        ("GPS/wn-chameleon-GPS", float(2325), 5, "Chameleon"),
        ("GPS/wn-squirrel-GPS", float(2089), 5, "Squirrel"),
    ] {
        assert_eq!(
            schema(name),
            (node, outputs, Some(title.to_string())),
            "{name}"
        );
    }
    let message = refusal(changed(
        "GPS/mnist-GPS",
        &[("dataset.name", json!("FACES"))],
    ));
    assert!(
        message.contains("a data set that is not known here") && message.contains("share.dim_in"),
        "{message}"
    );
    let known = [
        ("dataset.name", json!("FACES")),
        ("dataset.edge_encoder_name", json!("DummyEdge")),
        ("share.dim_in", json!(12)),
        ("share.dim_out", json!(4)),
    ];
    let config = configured(changed("GPS/mnist-GPS", &known)).unwrap().config;
    assert_eq!(config.features.node, float(12));
}

/// The options of one section after another, set to something else, change the model or are
/// refused; none is passed over.
#[test]
fn options_that_shape_the_model_reach_it() {
    let zinc = "GPS/zinc-GPS-LapPE+RWSE";
    let before = configured(changed(zinc, &[])).unwrap().config;
    for (path, value) in [
        ("gt.layer_type", json!("None+Transformer")),
        ("gt.layer_type", json!("GAT+Performer")),
        ("gt.layer_type", json!("PNA+BigBird")),
        ("gt.layer_type", json!("GENConv+None")),
        ("gt.layer_type", json!("GIN+Transformer")),
        ("gt.layers", json!(2)),
        ("gt.n_heads", json!(2)),
        ("gt.batch_norm", json!(false)),
        ("gnn.act", json!("gelu")),
        ("gnn.head", json!("inductive_node")),
        ("gnn.head", json!("default")),
        ("gnn.layers_pre_mp", json!(2)),
        ("model.graph_pooling", json!("max")),
        ("dataset.node_encoder_bn", json!(true)),
        ("dataset.edge_encoder_bn", json!(true)),
        ("dataset.node_encoder_num_types", json!(21)),
        ("dataset.edge_encoder_num_types", json!(5)),
        ("dataset.node_encoder_name", json!("TypeDictNode")),
        ("dataset.node_encoder_name", json!("TypeDictNode+RWSE")),
        ("dataset.node_encoder_name", json!("LapPE")),
        ("dataset.edge_encoder_name", json!("DummyEdge")),
        ("posenc_LapPE.eigen.laplacian_norm", json!("sym")),
        ("posenc_LapPE.eigen.laplacian_norm", json!("RW")),
        ("posenc_LapPE.eigen.eigvec_norm", json!("wavelength-asin")),
        ("posenc_LapPE.eigen.max_freqs", json!(3)),
        ("posenc_LapPE.model", json!("Transformer")),
        ("posenc_LapPE.dim_pe", json!(12)),
        ("posenc_LapPE.layers", json!(5)),
        ("posenc_LapPE.post_layers", json!(1)),
        ("posenc_LapPE.raw_norm_type", json!("BatchNorm")),
        ("posenc_RWSE.model", json!("mlp")),
        ("posenc_RWSE.raw_norm_type", json!("none")),
        ("posenc_RWSE.dim_pe", json!(4)),
        ("posenc_RWSE.kernel.times_func", json!("range(1, 30, 2)")),
    ] {
        let change = [(path, value)];
        let after = configured(changed(zinc, &change));
        let after = after.unwrap_or_else(|error| panic!("{change:?}: {error}"));
        assert_ne!(after.config.model, before.model, "{change:?}");
        build(path, &after.config.model);
    }
    let epsilon = [
        ("dataset.node_encoder_bn", json!(true)),
        ("bn.eps", json!("1e-3")),
    ];
    let ModelConfig::Gps(gps) = configured(changed(zinc, &epsilon)).unwrap().config.model else {
        panic!("not a GPS");
    };
    assert_eq!(gps.input.norm_eps, 1e-3);
}

#[test]
fn options_without_effect_leave_the_model_alone() {
    let zinc = "GPS/zinc-GPS+RWSE";
    let before = configured(changed(zinc, &[])).unwrap();
    assert_eq!(before.notes, Vec::<String>::new());
    for (path, value, noted) in [
        ("gt.dropout", json!(0.7), false),
        ("gt.attn_dropout", json!(0.7), false),
        ("gnn.dropout", json!(0.7), false),
        ("optim.base_lr", json!(1.0), false),
        ("train.mode", json!("standard"), false),
        ("gt.pna_degrees", json!([1, 2, 3]), false),
        ("gt.bigbird.block_size", json!(7), false),
        ("gnn.batchnorm", json!(false), false),
        ("pretrained.freeze_main", json!(true), false),
        ("gt.gamma", json!("1e-2"), true),
        ("gt.residual", json!(false), true),
        ("gt.full_graph", json!(false), true),
        ("posenc_HKdiagSE.enable", json!(true), true),
    ] {
        let after = configured(changed(zinc, &[(path, value)])).unwrap();
        assert_eq!(after.config, before.config, "{path}");
        assert_eq!(!after.notes.is_empty(), noted, "{path}: {:?}", after.notes);
    }
}

#[test]
fn unknown_options_are_refused_with_the_one_that_was_meant() {
    for (path, meant) in [
        ("gt.n_head", "gt.n_heads"),
        ("posenc_RWSE.dim_ep", "posenc_RWSE.dim_pe"),
        ("dataset.node_encoder_nam", "dataset.node_encoder_name"),
        (
            "posenc_LapPE.eigen.max_freq",
            "posenc_LapPE.eigen.max_freqs",
        ),
    ] {
        let message = refusal(changed("GPS/zinc-GPS+RWSE", &[(path, json!(1))]));
        let expected = format!("`{path}` (did you mean `{meant}`?)");
        assert!(message.contains(&expected), "{message}");
    }
    let message = refusal(changed(
        "SAN/zinc-SAN",
        &[("gt.magic", json!(1)), ("posenc_Spin.enable", json!(true))],
    ));
    assert!(
        message.contains("`gt.magic`, `posenc_Spin.enable`:"),
        "{message}"
    );
}

/// A configuration, changes of its options, the option that is refused, a part of the reason.
type Refused<'a> = (&'a str, &'a [(&'a str, Value)], &'a str, &'a str);

#[test]
fn what_the_official_code_cannot_run_is_refused_by_name() {
    let gps = "GPS/zinc-GPS+RWSE";
    let stable = "GPS/zinc-GPS-ESLapPE";
    let biased = "GPS/zinc-GPSwGraphormer+VN";
    let rows: &[Refused] = &[
        (
            gps,
            &[("gt.layer_norm", json!(true))],
            "gt.layer_norm",
            "batch_norm",
        ),
        (
            gps,
            &[("gt.dim_hidden", json!(80))],
            "gnn.dim_inner",
            "must equal",
        ),
        (
            gps,
            &[("gt.n_heads", json!(7))],
            "gt.n_heads",
            "do not divide",
        ),
        (
            gps,
            &[("gt.layer_type", json!("SANLayer"))],
            "gt.layer_type",
            "joined by",
        ),
        (
            gps,
            &[("gt.layer_type", json!("SAGE+Transformer"))],
            "gt.layer_type",
            "SAGE",
        ),
        (
            gps,
            &[("gt.layer_type", json!("GINE+Mamba"))],
            "gt.layer_type",
            "Mamba",
        ),
        (
            gps,
            &[("gt.layer_type", json!("GINE+BiasedTransformer"))],
            "gt.layer_type",
            "Graphormer",
        ),
        (gps, &[("gnn.act", json!("prelu"))], "gnn.act", "prelu"),
        (
            gps,
            &[("gnn.head", json!("infer_links"))],
            "gnn.head",
            "infer_links",
        ),
        (
            gps,
            &[("model.type", json!("Performer"))],
            "model.type",
            "stack of attention",
        ),
        (
            gps,
            &[("model.type", json!("BigBird"))],
            "model.type",
            "stack of attention",
        ),
        (
            gps,
            &[("model.type", json!("gnn"))],
            "model.type",
            "GraphGym's own",
        ),
        (
            gps,
            &[("model.graph_pooling", json!("graph_token"))],
            "model.graph_pooling",
            "token",
        ),
        (
            gps,
            &[("posenc_RWSE.enable", json!(false))],
            "posenc_RWSE.enable",
            "off",
        ),
        (
            gps,
            &[("posenc_RWSE.dim_pe", json!(64))],
            "dataset.node_encoder_name",
            "none for",
        ),
        (
            gps,
            &[("posenc_RWSE.model", json!("GRU"))],
            "posenc_RWSE.model",
            "GRU",
        ),
        (
            gps,
            &[("posenc_RWSE.kernel.times_func", json!(""))],
            "posenc_RWSE.kernel.times",
            "absent",
        ),
        (
            gps,
            &[(
                "posenc_RWSE.kernel.times_func",
                json!("__import__('os').getcwd()"),
            )],
            "posenc_RWSE.kernel.times_func",
            "not done here",
        ),
        (
            gps,
            &[(
                "dataset.node_encoder_name",
                json!("TypeDictNode+RWSE+LapPE"),
            )],
            "dataset.node_encoder_name",
            "TypeDictNode+RWSE+LapPE",
        ),
        (
            gps,
            &[("dataset.node_encoder_num_types", json!(0))],
            "dataset.node_encoder_num_types",
            "at least 1",
        ),
        (
            gps,
            &[("posenc_EquivStableLapPE.enable", json!(true))],
            "posenc_EquivStableLapPE.enable",
            "does not make these positions",
        ),
        (
            stable,
            &[("gt.layer_type", json!("GAT+Transformer"))],
            "posenc_EquivStableLapPE.enable",
            "only the local models",
        ),
        (
            stable,
            &[
                ("posenc_LapPE.enable", json!(true)),
                ("posenc_LapPE.eigen.max_freqs", json!(3)),
            ],
            "posenc_EquivStableLapPE.eigen.max_freqs",
            "computes the 3",
        ),
        (
            biased,
            &[("gt.layer_type", json!("GINE+Transformer"))],
            "gt.layer_type",
            "does not read",
        ),
        (
            biased,
            &[("graphormer.num_heads", json!(2))],
            "graphormer.num_heads",
            "gt.n_heads 4",
        ),
        (
            biased,
            &[("posenc_GraphormerBias.num_spatial_types", Value::Null)],
            "posenc_GraphormerBias.num_spatial_types",
            "must be given",
        ),
        (
            biased,
            &[
                (
                    "dataset.node_encoder_name",
                    json!("TypeDictNode+GraphormerBias+RWSE"),
                ),
                ("posenc_RWSE.enable", json!(true)),
                ("posenc_RWSE.model", json!("Linear")),
                ("posenc_RWSE.kernel.times", json!([1, 2])),
            ],
            "graphormer.use_graph_token",
            "follow graph tokens",
        ),
        (
            "GINE/peptides-func-GINE",
            &[("gnn.layer_type", json!("sageconv"))],
            "gnn.layer_type",
            "sageconv",
        ),
        (
            "SAN/zinc-SAN",
            &[("gt.layer_type", json!("SAN3Layer"))],
            "gt.layer_type",
            "SAN3Layer",
        ),
        (
            "Graphormer/zinc-Graphormer",
            &[("graphormer.embed_dim", json!(64))],
            "gnn.dim_inner",
            "embed_dim",
        ),
    ];
    for (name, changes, option, reason) in rows {
        let message = refusal(changed(name, changes));
        assert!(
            message.contains(&format!("option `{option}`")) && message.contains(reason),
            "{changes:?}: {message}"
        );
    }
}

#[test]
fn hostile_numbers_are_refused_before_anything_is_allocated() {
    let gps = "GPS/zinc-GPS-LapPE+RWSE";
    for value in [
        json!(-1),
        json!(1e30),
        json!(1u64 << 50),
        json!(1.5),
        json!("8"),
    ] {
        for path in [
            "gt.layers",
            "gt.n_heads",
            "gt.dim_hidden",
            "gnn.layers_pre_mp",
            "gnn.layers_post_mp",
            "dataset.node_encoder_num_types",
            "posenc_LapPE.dim_pe",
            "posenc_LapPE.layers",
            "posenc_LapPE.eigen.max_freqs",
            "posenc_LapPE.post_layers",
            "share.dim_out",
        ] {
            // GraphGym's MLP has a head of its own here, so that its number of layers is read.
            let change = [("gnn.head", json!("graph")), (path, value.clone())];
            let message = refusal(changed(gps, &change));
            assert!(
                message.contains(&format!("`{path}`")),
                "{path} = {value}: {message}"
            );
        }
    }
    let times = json!("range(1, 1000000000000000)");
    let message = refusal(changed(gps, &[("posenc_RWSE.kernel.times_func", times)]));
    assert!(
        message.contains("posenc_RWSE.kernel.times_func"),
        "{message}"
    );
}

#[test]
fn the_upstream_quirks_are_followed_and_noted() {
    let notes = |options: Value| configured(options).unwrap().notes.join("; ");
    let recipes = |options: Value| {
        let plan = configured(options).unwrap().config.encodings;
        plan.recipes().to_vec()
    };
    // EquivStableLapPE takes its Laplacian from another section.
    let stable = changed("GPS/zinc-GPS-ESLapPE", &[]);
    let noted = notes(stable.clone());
    assert!(
        noted.contains("`posenc_EquivStableLapPE.eigen.laplacian_norm` (`none`)"),
        "{noted}"
    );
    assert!(noted.contains("node 1 of the whole batch"), "{noted}");
    let [EncodingRecipe::LapPe(lap_pe)] = <[EncodingRecipe; 1]>::try_from(recipes(stable)).unwrap()
    else {
        panic!("not one LapPE");
    };
    assert_eq!(lap_pe.laplacian_norm, LaplacianNorm::Sym);
    let change = [("posenc_LapPE.eigen.laplacian_norm", json!("none"))];
    let noted = notes(changed("GPS/cifar10-GPS-ESLapPE", &change));
    assert!(!noted.contains("laplacian_norm"), "{noted}");
    // The random walk Laplacian is not the one that is decomposed.
    let change = [("posenc_LapPE.eigen.laplacian_norm", json!("rw"))];
    let options = changed("GPS/zinc-GPS", &change);
    assert!(notes(options.clone()).contains("rw_lower_triangle"));
    let [EncodingRecipe::LapPe(lap_pe)] =
        <[EncodingRecipe; 1]>::try_from(recipes(options)).unwrap()
    else {
        panic!("not one LapPE");
    };
    assert_eq!(lap_pe.laplacian_norm, LaplacianNorm::RwLowerTriangle);
    // Edges beside a graph token.
    let noted = notes(changed("GPS/zinc-GPSwGraphormer+VN", &[]));
    assert!(noted.contains("does not renumber the edges"), "{noted}");
    let noted = notes(changed("GPS/zinc-GPSwGraphormer", &[]));
    assert!(!noted.contains("renumber"), "{noted}");
    // Any name of a norm but one means none.
    let change = [("posenc_LapPE.raw_norm_type", json!("LayerNorm"))];
    assert!(notes(changed("GPS/zinc-GPS", &change)).contains("takes `LayerNorm` for none"));
}

#[test]
fn a_model_that_continues_from_another_has_its_layers_and_its_own_head() {
    let name = "GPS/zinc-GPS+RWSE-inference";
    let message = refusal(changed(name, &[]));
    assert!(
        message.contains("option `pretrained.dir`") && message.contains("ckptbest/config.yaml"),
        "{message}"
    );
    let (choices, _files) = choices(name);
    let with = |changes: &[(&str, Value)]| {
        let options = Options::from_value(changed(name, changes), "test.yaml");
        configure_with(options, &choices)
    };
    let own_head = [
        ("gnn.head", json!("graph")),
        ("gnn.layers_post_mp", json!(2)),
        ("gt.layers", json!(2)),
    ];
    let (continued, origin) = (
        with(&own_head).unwrap(),
        configured(changed("GPS/zinc-GPS+RWSE", &[])),
    );
    let (ModelConfig::Gps(mut continued), ModelConfig::Gps(origin)) =
        (continued.config.model, origin.unwrap().config.model)
    else {
        panic!("not two GPS");
    };
    assert_eq!(continued.output.head, HeadConfig::Graph { layers: 2 });
    continued.output.head = origin.output.head.clone();
    assert_eq!(continued, origin);
    let message = with(&[("gnn.act", json!("gelu"))]).unwrap_err().to_string();
    assert!(
        message.contains("option `gnn.act`") && message.contains("pre-trained"),
        "{message}"
    );
}

#[test]
fn defaults_fill_what_a_file_leaves_out() {
    let minimal = json!({
        "dataset": {"format": "PyG-ZINC", "name": "subset", "task": "graph", "task_type": "regression",
            "node_encoder": true, "node_encoder_name": "TypeDictNode",
            "node_encoder_num_types": 28, "edge_encoder": true},
        "model": {"type": "GPSModel"},
        "gt": {"layer_type": "GINE+Transformer"},
        "gnn": {"dim_inner": 64},
    });
    let ModelConfig::Gps(gps) = configured(minimal).unwrap().config.model else {
        panic!("not a GPS");
    };
    assert_eq!((gps.hidden_dim, gps.layers), (64, 3));
    // GraphGym switches both norms of the encoders on.
    assert!(gps.input.node_norm && gps.input.edge_norm);
    let bonds = FeatureEncoderConfig::Embedding {
        tables: vec![5, 6, 2],
    };
    assert_eq!(gps.input.edge_encoder, Some(bonds));
    assert_eq!(gps.output.head, HeadConfig::Graph { layers: 1 });
}
