//! Strict loading: what fits loads, what does not is listed completely.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use candle_core::{DType, Device, Tensor};
use candle_graph_weights::{Error, Limits, StateDict, TensorData, load_strict};
use candle_nn::VarBuilder;

fn tensors(list: &[(&str, &[usize])]) -> StateDict {
    let mut state = StateDict::new("model.safetensors");
    for (name, shape) in list {
        let values: Vec<f32> = (0..shape.iter().product()).map(|v| v as f32).collect();
        let tensor = TensorData::from_f32(shape.to_vec(), &values).unwrap();
        state.insert((*name).to_string(), tensor).unwrap();
    }
    state
}

fn load<M>(
    state: StateDict,
    dtype: DType,
    build: impl FnOnce(VarBuilder<'static>) -> candle_core::Result<M>,
) -> Result<M, Error> {
    load_strict(state, dtype, &Device::Cpu, &Limits::default(), build)
}

fn linear(vb: VarBuilder<'static>) -> candle_core::Result<(Tensor, Tensor)> {
    Ok((
        vb.pp("a").get((2, 3), "weight")?,
        vb.pp("a").get(2, "bias")?,
    ))
}

#[test]
fn fitting_tensors_load_in_the_wanted_type() {
    let state = tensors(&[("a.weight", &[2, 3]), ("a.bias", &[2])]);
    let (weight, bias) = load(state, DType::F64, linear).unwrap();
    assert_eq!(
        weight.to_vec2::<f64>().unwrap(),
        [[0., 1., 2.], [3., 4., 5.]]
    );
    assert_eq!(bias.dtype(), DType::F64);
}

#[test]
fn all_differences_are_listed_at_once_and_sorted() {
    let state = tensors(&[
        ("z.extra", &[4]),
        ("b.extra", &[2, 2]),
        ("a.weight", &[3, 2]),
        ("node_encoder.embeddings.3.weight", &[64, 8]),
    ]);
    let error = load(state, DType::F32, |vb| {
        vb.get((119, 8), "node_encoder.embeddings.3.weight")?;
        vb.get(5, "layers.1.late")?;
        vb.get(5, "layers.0.early")?;
        linear(vb)
    })
    .unwrap_err();
    let expected = "\
the tensors of model.safetensors do not fit the model
  missing (3):
    a.bias: expected [2]
    layers.0.early: expected [5]
    layers.1.late: expected [5]
  unexpected (2):
    b.extra: found [2, 2]
    z.extra: found [4]
  wrong shape (2):
    a.weight: expected [2, 3], found [3, 2]
    node_encoder.embeddings.3.weight: expected [119, 8], found [64, 8]
  note: node_encoder.embeddings.3.weight: expected 119 rows, found 64: the feature table of column 3 in `node_encoder` \
differs; the checkpoint was trained on other categories than the configuration states";
    assert_eq!(error.to_string(), expected);
    let Error::Mismatch(mismatch) = error else {
        panic!("wrong kind of error");
    };
    assert_eq!(mismatch.missing["a.bias"], Some(vec![2]));
    assert_eq!(mismatch.stopped, None);
}

#[test]
fn each_kind_of_difference_is_enough() {
    let whole: &[(&str, &[usize])] = &[("a.weight", &[2, 3]), ("a.bias", &[2])];
    assert!(load(tensors(whole), DType::F32, linear).is_ok());
    assert!(
        load(tensors(&whole[..1]), DType::F32, linear).is_err(),
        "missing"
    );
    let extra = [whole, &[("c", &[1][..])]].concat();
    assert!(
        load(tensors(&extra), DType::F32, linear).is_err(),
        "unexpected"
    );
    assert!(
        load(
            tensors(&[whole[0], ("a.bias", &[1, 2])]),
            DType::F32,
            linear
        )
        .is_err(),
        "shape"
    );
}

#[test]
fn the_builders_own_error_comes_through() {
    #[derive(Debug, thiserror::Error)]
    #[error("heads 7 do not divide width 64")]
    struct BadConfig;
    let state = tensors(&[("a.weight", &[2, 3]), ("a.bias", &[2])]);
    let result: Result<(), Error> =
        load_strict(state, DType::F32, &Device::Cpu, &Limits::default(), |_| {
            Err(BadConfig)
        });
    let error = result.unwrap_err();
    let Error::Build(source) = &error else {
        panic!("wrong kind of error: {error}");
    };
    assert!(source.is::<BadConfig>());
    assert!(error.to_string().contains("heads 7 do not divide width 64"));
}

/// Differences found before the builder stopped are not lost, and tensors it never came to are not called unexpected.
#[test]
fn differences_before_a_stop_are_kept() {
    let error = load(tensors(&[("a.weight", &[2, 3])]), DType::F32, |vb| {
        vb.get(4, "first")?;
        vb.get_unchecked("second")
    })
    .unwrap_err();
    let Error::Mismatch(mismatch) = error else {
        panic!("wrong kind of error: {error}");
    };
    assert_eq!(mismatch.missing.len(), 2);
    assert_eq!(mismatch.missing["second"], None);
    assert!(mismatch.unexpected.is_empty());
    assert!(
        mismatch
            .to_string()
            .contains("building then stopped: cannot find tensor second")
    );
}

#[test]
fn optional_tensors_can_be_asked_about() {
    let with = tensors(&[("a", &[1])]);
    let ask = |vb: VarBuilder<'static>| {
        if vb.contains_tensor("a") {
            vb.get(1, "a").map(Some)
        } else {
            Ok(None)
        }
    };
    assert!(load(with, DType::F32, ask).unwrap().is_some());
    assert!(load(tensors(&[]), DType::F32, ask).unwrap().is_none());
}

#[test]
fn absurd_shapes_are_not_allocated() {
    for shape in [vec![1usize << 40, 1 << 10], vec![usize::MAX, usize::MAX]] {
        let error = load(tensors(&[]), DType::F32, |vb| vb.get(shape.clone(), "w")).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("too large to allocate (1)") && message.contains("w: "),
            "{message}"
        );
    }
    // Many that are each allowed: 64 × 1 GiB.
    let error = load(tensors(&[]), DType::F32, |vb| {
        (0..64)
            .map(|i| vb.get(1 << 28, &format!("w{i}")))
            .collect::<candle_core::Result<Vec<_>>>()
    })
    .unwrap_err();
    let Error::Mismatch(mismatch) = error else {
        panic!("wrong kind of error");
    };
    assert_eq!((mismatch.missing.len(), mismatch.too_large.len()), (8, 1));
}

#[test]
fn endless_layers_are_stopped() {
    let error = load(tensors(&[]), DType::F32, |vb| {
        for layer in 0..u64::MAX {
            vb.get(1, &format!("layers.{layer}"))?;
        }
        Ok(())
    })
    .unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("more than 10000 tensors do not fit"),
        "{message}"
    );
    assert!(message.len() < 20_000);
    let Error::Mismatch(mismatch) = error else {
        panic!("wrong kind of error");
    };
    assert_eq!(mismatch.missing.len(), 10_000);
}
