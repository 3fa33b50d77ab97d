//! Haiku checkpoints: pickled and flattened parameters are the same tensors, whatever the layout of the arrays.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::path::{Path, PathBuf};

use candle_graph_weights::haiku::read_parameters;
use candle_graph_weights::{ElementType, Limits, StateDict, TensorData};
use support::haiku::{Layout, checkpoint, matrix, sections};
use support::{Pickle, file, find, fixture, shared};

fn read(path: &Path) -> StateDict {
    read_parameters(path, &Limits::default()).unwrap()
}

fn read_bytes(bytes: &[u8]) -> StateDict {
    let (_folder, path) = file("checkpoint.dill", bytes);
    read(&path)
}

fn array(pickle: Vec<u8>) -> TensorData {
    let state = read_bytes(&pickle);
    assert_eq!(state.names().collect::<Vec<_>>(), ["module/w"]);
    state.get("module/w").unwrap().clone()
}

/// Cases with both forms: the copied ones, and all of them where they are.
fn cases() -> Vec<PathBuf> {
    let mut found = find(&fixture("digraph"), "checkpoint.dill");
    assert_eq!(found.len(), 2);
    if let Some(shared) = shared() {
        let all = find(&shared.join("goldens/digraph"), "checkpoint.dill");
        assert_eq!(all.len(), 7);
        found.extend(all);
        found.push(shared.join("checkpoints/digraph-sorting/checkpoint.dill"));
    }
    found
}

#[test]
fn pickled_and_flattened_parameters_are_the_same() {
    for dill in cases() {
        let pickled = read(&dill);
        let flattened = read(&dill.with_file_name("params.safetensors"));
        let name = dill.display();
        assert_eq!(pickled.len(), flattened.len(), "{name}");
        for (tensor, data) in flattened.iter() {
            assert_eq!(pickled.get(tensor), Some(data), "{name}: {tensor}");
        }
    }
}

#[test]
fn every_layout_of_an_array_gives_the_same_tensor() {
    let (values, columns) = ([0., 1., 2., 3., 4., 5.], [0., 3., 1., 4., 2., 5.]);
    let little = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let big = |values: &[f32]| values.iter().flat_map(|v| v.to_be_bytes()).collect();
    let bytes: [(bool, &str, Vec<u8>); 4] = [
        (false, "<", little(&values)),
        (true, "<", little(&columns)),
        (false, ">", big(&values)),
        (true, ">", big(&columns)),
    ];
    for layout in Layout::ALL {
        for (fortran, byte_order, data) in &bytes {
            let w = layout.array(Pickle::new(), &[2, 3], "f4", byte_order, *fortran, data);
            let tensor = array(checkpoint(&w));
            let expected = TensorData::from_f32(vec![2, 3], &values).unwrap();
            assert_eq!(tensor, expected, "{layout:?} {fortran} {byte_order}");
        }
    }
}

#[test]
fn three_dimensions_in_column_order_are_put_in_row_order() {
    // The value at [i, j, k] is 100 i + 10 j + k; the first index runs fastest.
    let mut columns = Vec::new();
    let mut rows = Vec::new();
    for k in 0..4 {
        for j in 0..3 {
            columns.extend((0..2).map(|i| 100 * i + 10 * j + k));
        }
    }
    for i in 0..2 {
        for j in 0..3 {
            rows.extend((0..4).map(|k| 100 * i + 10 * j + k));
        }
    }
    let bytes = |values: &[i64]| {
        values
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<_>>()
    };
    let w = Layout::Numpy.array(Pickle::new(), &[2, 3, 4], "i8", "<", true, &bytes(&columns));
    let expected = TensorData::new(ElementType::I64, vec![2, 3, 4], bytes(&rows));
    assert_eq!(Some(array(checkpoint(&w))), expected);
}

#[test]
fn all_element_types_and_scalars_are_read() {
    for (kind, element) in [
        ("f8", ElementType::F64),
        ("f4", ElementType::F32),
        ("f2", ElementType::F16),
        ("i8", ElementType::I64),
        ("i4", ElementType::I32),
        ("i2", ElementType::I16),
        ("i1", ElementType::I8),
        ("u4", ElementType::U32),
        ("u1", ElementType::U8),
        ("b1", ElementType::Bool),
    ] {
        let data = vec![1; 2 * element.size()];
        let byte_order = if element.size() == 1 { "|" } else { "<" };
        let w = Layout::Numpy.array(Pickle::new(), &[2], kind, byte_order, false, &data);
        let expected = TensorData::new(element, vec![2], data);
        assert_eq!(Some(array(checkpoint(&w))), expected);
    }
    let scalar = Pickle::new()
        .global("numpy.core.multiarray", "scalar")
        .raw(b"(")
        .dtype("i4", "<")
        .bytes(&7i32.to_le_bytes())
        .raw(b"tR");
    let expected = TensorData::new(ElementType::I32, Vec::new(), 7i32.to_le_bytes().to_vec());
    assert_eq!(Some(array(checkpoint(&scalar))), expected);
    let empty = Layout::Jax.array(Pickle::new(), &[0, 3], "f4", "<", true, b"");
    assert_eq!(
        array(checkpoint(&empty)),
        TensorData::from_f32(vec![0, 3], &[]).unwrap()
    );
}

/// bfloat16 is no type of NumPy's own; written by NumPy 2.4 with ml_dtypes 0.6.
#[test]
fn brain_floats_are_read() {
    let kind = |p: Pickle| p.global("ml_dtypes", "bfloat16");
    let w = Pickle::new()
        .global("numpy._core.multiarray", "_reconstruct")
        .raw(b"(")
        .global("numpy", "ndarray")
        .ints(&[0])
        .bytes(b"b")
        .raw(b"tR(")
        .int(1)
        .ints(&[2])
        .dtype_of(kind, "<")
        .raw(b"\x89")
        .bytes(b"\x80\x3f\x00\x40")
        .raw(b"tb");
    let tensor = array(checkpoint(&w));
    assert_eq!(tensor.element(), ElementType::BF16);
    assert_eq!(tensor.bytes(), b"\x80\x3f\x00\x40");
}

/// What dill writes for the state of an optimiser: classes made by calls, and objects of them.
#[test]
fn the_optimiser_and_the_step_are_skipped_and_the_network_state_is_read() {
    let zeros = |p| Layout::Jax.array(p, &[1], "f4", "<", false, &[0; 4]);
    let p = Pickle::new().raw(b"}(").str("global_step").int(6);
    let p = zeros(p.str("params").raw(b"}").str("m").raw(b"}").str("w")).raw(b"ss");
    let p = p
        .str("opt_state")
        .global("dill._dill", "_create_namedtuple")
        .raw(b"(")
        .str("ScaleByAdamState")
        .raw(b"(")
        .str("count")
        .raw(b"t")
        .str("optax._src.transform")
        .raw(b"tR");
    let p = zeros(p).raw(b"\x85\x81");
    let p = p
        .str("network_state")
        .raw(b"}")
        .str("m/~/mean_ema_1")
        .raw(b"}");
    let p = zeros(p.str("average")).raw(b"ss");
    let state = read_bytes(&p.raw(b"u").stop());
    let names: Vec<&str> = state.names().collect();
    assert_eq!(names, ["m/w", "m/~/mean_ema_1/average"]);
}

#[test]
fn an_absent_network_state_is_none() {
    let absent = sections(&matrix());
    let none = absent.clone().str("network_state").raw(b"Ns");
    let empty = absent.clone().str("network_state").raw(b"}s");
    for pickle in [absent, none, empty] {
        assert_eq!(read_bytes(&pickle.stop()).len(), 1);
    }
}
