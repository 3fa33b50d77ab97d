//! Whatever the bytes are, the readers answer with a result: no panic, no abort.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use candle_graph_weights::pickle::Tree;
use candle_graph_weights::{Limits, Result, StateDict, read_safetensors};
use proptest::prelude::*;
use support::*;

fn small_checkpoint() -> Vec<u8> {
    let base = Spec::default();
    let pickle = checkpoint_pickle(&[
        ("w", base),
        (
            "t",
            Spec {
                shape: &[3, 2],
                strides: &[1, 3],
                ..base
            },
        ),
    ]);
    container(&pickle, &[("0", &counting(6))])
}

fn small_safetensors() -> Vec<u8> {
    let header =
        r#"{"__metadata__":{"a":"b"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#;
    [
        &(header.len() as u64).to_le_bytes()[..],
        header.as_bytes(),
        &counting(6),
    ]
    .concat()
}

fn read_as_safetensors(bytes: &[u8]) -> Result<StateDict> {
    let (_folder, path) = file("model.safetensors", bytes);
    read_safetensors(&path, &Limits::default())
}

fn small_dill(layout: haiku::Layout) -> Vec<u8> {
    let data = counting(6);
    let w = layout.array(Pickle::new(), &[2, 3], "f4", "<", true, &data);
    haiku::checkpoint(&w)
}

/// Up to eight changes of a byte each, then possibly a cut.
fn mutate(
    mut bytes: Vec<u8>,
    changes: &[(prop::sample::Index, u8)],
    cut: Option<prop::sample::Index>,
) -> Vec<u8> {
    for (at, value) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *value;
    }
    if let Some(cut) = cut {
        bytes.truncate(cut.index(bytes.len()));
    }
    bytes
}

/// Whatever is read must be consistent.
fn check(result: Result<StateDict>) {
    if let Ok(state) = result {
        for (name, tensor) in state.iter() {
            let count: usize = tensor.shape().iter().product();
            assert_eq!(
                count * tensor.element().size(),
                tensor.bytes().len(),
                "{name}"
            );
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        check(read(&bytes));
        check(read_as_safetensors(&bytes));
    }

    #[test]
    fn random_streams(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = Tree::parse(&bytes, 1000);
        check(read(&container(&bytes, &[])));
    }

    /// Opcodes alone, so that more of them meet a filled stack.
    #[test]
    fn random_opcodes(ops in prop::collection::vec(prop::sample::select(&b"(N)]}tlduesab2R\x81o0qh\x85\x86\x94\x8f\x90\x91Q."[..]), 0..200)) {
        let _ = Tree::parse(&ops, 1000);
    }

    #[test]
    fn mutated_containers(changes in changes(), cut in any::<Option<prop::sample::Index>>()) {
        check(read(&mutate(small_checkpoint(), &changes, cut)));
    }

    /// Inside the container, so that checksums do not hide the change.
    #[test]
    fn mutated_streams(changes in changes(), cut in any::<Option<prop::sample::Index>>()) {
        let pickle = checkpoint_pickle(&[("w", Spec::default())]);
        let pickle = mutate(pickle, &changes, cut);
        check(read(&container(&pickle, &[("0", &counting(6))])));
    }

    #[test]
    fn mutated_dill(layout in prop::sample::select(&haiku::Layout::ALL[..]), changes in changes(), cut in any::<Option<prop::sample::Index>>()) {
        check(haiku::read(&mutate(small_dill(layout), &changes, cut)));
    }

    #[test]
    fn mutated_safetensors(changes in changes(), cut in any::<Option<prop::sample::Index>>()) {
        check(read_as_safetensors(&mutate(small_safetensors(), &changes, cut)));
    }
}

/// The unchanged files are valid, so the mutations above start from something that is read to its end.
#[test]
fn the_unchanged_files_are_valid() {
    assert_eq!(read(&small_checkpoint()).unwrap().len(), 2);
    assert_eq!(read_as_safetensors(&small_safetensors()).unwrap().len(), 1);
    for layout in haiku::Layout::ALL {
        assert_eq!(haiku::read(&small_dill(layout)).unwrap().len(), 1);
    }
}
