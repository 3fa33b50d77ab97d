//! Checkpoints that PyTorch writes are read: real files, and hand-made ones for each feature.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use candle_core::{DType, Device};
use candle_graph_weights::{ElementType, Limits, torch};
use support::*;

#[test]
fn reads_a_real_graphgym_checkpoint() {
    let state =
        torch::read_state_dict(&fixture("grit-zinc/model.ckpt"), &Limits::default()).unwrap();
    // As PyTorch lists them.
    assert_eq!(state.len(), 139);
    assert_eq!(
        state.names().next(),
        Some("model.encoder.node_encoder.encoder.weight")
    );
    let shape = |name: &str| state.get(name).unwrap().shape().to_vec();
    assert_eq!(shape("model.layers.0.attention.Q.weight"), [64, 64]);
    assert_eq!(shape("model.layers.0.attention.Aw"), [8, 8, 1]);
    assert_eq!(shape("model.layers.0.attention.VeRow"), [8, 8, 8]);
    assert_eq!(shape("model.layers.0.deg_coef"), [1, 64, 2]);
    let counter = state
        .get("model.layers.0.batch_norm1_h.num_batches_tracked")
        .unwrap();
    assert_eq!(
        (counter.element(), counter.shape().len()),
        (ElementType::I64, 0)
    );
    assert_eq!(counter.bytes(), 5321i64.to_le_bytes());
    let values = floats(&state, "model.layers.0.attention.Q.weight");
    assert_eq!(values[..3], [0.021_791_296, -0.099_530_57, 0.072_244_726]);
    let values = floats(&state, "model.layers.0.attention.VeRow");
    assert_eq!(values[..3], [-0.257_280_95, -0.007_437_615, 0.093_920_104]);
}

/// Every reference checkpoint on this machine, if there are any beside the repository.
#[test]
fn reads_every_shared_checkpoint() {
    let Some(shared) = shared() else { return };
    for path in find(&shared, "model.ckpt") {
        let state = torch::read_state_dict(&path, &Limits::default())
            .unwrap_or_else(|error| panic!("{error}"));
        let mut tensors = 0;
        for (name, tensor) in state.iter() {
            let tensor = tensor.to_tensor(&Device::Cpu).unwrap();
            let values = tensor.flatten_all().unwrap().to_dtype(DType::F64).unwrap();
            let finite = values
                .to_vec1::<f64>()
                .unwrap()
                .iter()
                .all(|v| v.is_finite());
            assert!(finite, "{}: {name}", path.display());
            tensors += 1;
        }
        assert!(tensors > 20, "{}: {tensors} tensors", path.display());
    }
}

#[test]
fn gathers_strided_and_shared_views() {
    let base = Spec::default();
    let pickle = checkpoint_pickle(&[
        ("plain", base),
        (
            "transposed",
            Spec {
                shape: &[3, 2],
                strides: &[1, 3],
                ..base
            },
        ),
        (
            "row",
            Spec {
                offset: 3,
                shape: &[3],
                strides: &[1],
                ..base
            },
        ),
        (
            "column",
            Spec {
                offset: 1,
                shape: &[2],
                strides: &[3],
                ..base
            },
        ),
        (
            "expanded",
            Spec {
                shape: &[2, 2],
                strides: &[0, 1],
                ..base
            },
        ),
        (
            "scalar",
            Spec {
                offset: 5,
                shape: &[],
                strides: &[],
                ..base
            },
        ),
        (
            "empty",
            Spec {
                shape: &[0, 3],
                strides: &[3, 1],
                ..base
            },
        ),
        (
            "unit",
            Spec {
                shape: &[2, 1, 3],
                strides: &[3, 77, 1],
                ..base
            },
        ),
    ]);
    let state = read(&container(&pickle, &[("0", &counting(6))])).unwrap();
    assert_eq!(floats(&state, "plain"), [0., 1., 2., 3., 4., 5.]);
    assert_eq!(floats(&state, "transposed"), [0., 3., 1., 4., 2., 5.]);
    assert_eq!(floats(&state, "row"), [3., 4., 5.]);
    assert_eq!(floats(&state, "column"), [1., 4.]);
    assert_eq!(floats(&state, "expanded"), [0., 1., 0., 1.]);
    assert_eq!(floats(&state, "scalar"), [5.]);
    assert_eq!(floats(&state, "empty"), [0f32; 0]);
    assert_eq!(floats(&state, "unit"), [0., 1., 2., 3., 4., 5.]);
    assert_eq!(state.get("unit").unwrap().shape(), [2, 1, 3]);
    let order: Vec<&str> = state.names().collect();
    let expected = "plain transposed row column expanded scalar empty unit";
    assert_eq!(order.join(" "), expected);
}

#[test]
fn reads_every_element_type() {
    let one = |class: &'static str, bytes: &[u8]| {
        let spec = Spec {
            class,
            length: 2,
            shape: &[2],
            strides: &[1],
            ..Spec::default()
        };
        let state = read(&container(
            &checkpoint_pickle(&[("t", spec)]),
            &[("0", bytes)],
        ))
        .unwrap();
        let tensor = state.get("t").unwrap().to_tensor(&Device::Cpu).unwrap();
        tensor
            .to_dtype(DType::F64)
            .unwrap()
            .to_vec1::<f64>()
            .unwrap()
    };
    let le = |pair: [[u8; 8]; 2]| pair.concat();
    assert_eq!(
        one("DoubleStorage", &le([1.5f64, -2.0].map(f64::to_le_bytes))),
        [1.5, -2.0]
    );
    assert_eq!(
        one(
            "FloatStorage",
            &[1.5f32, -2.0].map(f32::to_le_bytes).concat()
        ),
        [1.5, -2.0]
    );
    assert_eq!(one("HalfStorage", &[0x00, 0x3e, 0x00, 0xc0]), [1.5, -2.0]);
    assert_eq!(
        one("BFloat16Storage", &[0xc0, 0x3f, 0x00, 0xc0]),
        [1.5, -2.0]
    );
    assert_eq!(
        one("LongStorage", &le([7i64, -2].map(i64::to_le_bytes))),
        [7.0, -2.0]
    );
    assert_eq!(
        one("IntStorage", &[7i32, -2].map(i32::to_le_bytes).concat()),
        [7.0, -2.0]
    );
    assert_eq!(
        one("ShortStorage", &[7i16, -2].map(i16::to_le_bytes).concat()),
        [7.0, -2.0]
    );
    assert_eq!(one("CharStorage", &[7, 0xfe]), [7.0, -2.0]);
    assert_eq!(one("ByteStorage", &[7, 0xfe]), [7.0, 254.0]);
    assert_eq!(one("BoolStorage", &[0, 1]), [0.0, 1.0]);
}

#[test]
fn finds_the_state_dict_under_each_name_and_at_the_top() {
    let storage = counting(6);
    for section in ["model_state", "state_dict", "model"] {
        let pickle = Pickle::new()
            .raw(b"}(")
            .str("epoch")
            .int(3)
            .str(section)
            .raw(b"}")
            .str("w")
            .tensor(&Spec::default())
            .raw(b"su")
            .stop();
        let state = read(&container(&pickle, &[("0", &storage)])).unwrap();
        assert_eq!(state.names().collect::<Vec<_>>(), ["w"], "{section}");
    }
    let top = Pickle::new()
        .ordered_dict()
        .str("w")
        .tensor(&Spec::default())
        .raw(b"s")
        .stop();
    assert_eq!(read(&container(&top, &[("0", &storage)])).unwrap().len(), 1);
}

#[test]
fn reads_parameters_and_torch_sizes() {
    let pickle = Pickle::new()
        .ordered_dict()
        .str("w")
        .global("torch._utils", "_rebuild_parameter")
        .raw(b"(")
        .global("torch._utils", "_rebuild_tensor_v2")
        .raw(b"(")
        .storage("FloatStorage", "0", 6)
        .int(0)
        .global("torch", "Size")
        .ints(&[3, 2])
        .raw(b"\x85R")
        .ints(&[2, 1])
        .raw(b"\x89")
        .ordered_dict()
        .raw(b"tR\x88")
        .ordered_dict()
        .raw(b"tRs")
        .stop();
    let state = read(&container(&pickle, &[("0", &counting(6))])).unwrap();
    assert_eq!(state.get("w").unwrap().shape(), [3, 2]);
}

/// An optimizer section with objects of unknown classes beside the weights does not matter.
#[test]
fn unknown_objects_outside_the_state_dict_are_left_alone() {
    let pickle = Pickle::new()
        .raw(b"}(")
        .str("optimizer_state")
        .raw(b"}(")
        .str("lr")
        .global("numpy.core.multiarray", "scalar")
        .raw(b"(")
        .global("numpy", "dtype")
        .raw(b"(")
        .str("f8")
        .raw(b"\x89\x88tRC\x02abtR")
        .str("odd")
        .global("some.module", "Class")
        .raw(b")\x81}b")
        .raw(b"u")
        .str("model_state")
        .raw(b"}")
        .str("w")
        .tensor(&Spec::default())
        .raw(b"su")
        .stop();
    let state = read(&container(&pickle, &[("0", &counting(6))])).unwrap();
    assert_eq!(state.names().collect::<Vec<_>>(), ["w"]);
}

/// Protocol 4 frames its stream, memoises by position and names globals by text on the stack.
#[test]
fn reads_protocol_four() {
    let short = |p: Pickle, text: &str| {
        p.raw(&[0x8c, u8::try_from(text.len()).unwrap()])
            .raw(text.as_bytes())
            .raw(b"\x94")
    };
    let mut p = Pickle(vec![0x80, 4, 0x95, 0, 0, 0, 0, 0, 0, 0, 0]).raw(b"}\x94");
    p = short(p, "w");
    p = short(short(p, "torch._utils"), "_rebuild_tensor_v2").raw(b"\x93\x94((");
    p = short(p, "storage");
    p = short(short(p, "torch"), "FloatStorage").raw(b"\x93\x94");
    p = short(short(p, "0"), "cpu")
        .raw(b"K\x06t\x94QK\x00K\x02K\x03\x86K\x03K\x01\x86\x89}t\x94R\x94s");
    let state = read(&container(&p.stop(), &[("0", &counting(6))])).unwrap();
    assert_eq!(floats(&state, "w"), [0., 1., 2., 3., 4., 5.]);
}

#[test]
fn reads_compressed_containers() {
    let pickle = checkpoint_pickle(&[("w", Spec::default())]);
    let bytes = zip_with(
        &[
            ("m/data.pkl", &pickle),
            ("m/byteorder", b"little"),
            ("m/data/0", &counting(6)),
        ],
        zip::CompressionMethod::Deflated,
    );
    assert_eq!(
        floats(&read(&bytes).unwrap(), "w"),
        [0., 1., 2., 3., 4., 5.]
    );
}
