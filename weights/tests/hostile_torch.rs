//! Damaged and hostile PyTorch containers and tensors are refused with a message that says why, without allocating what
//! they ask for.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use candle_graph_weights::{Limits, torch};
use support::*;

/// The refusal of a file whose only tensor states this about itself; its storage really holds six floats.
fn refusal_of(spec: Spec) -> String {
    refusal(&container(
        &checkpoint_pickle(&[("w", spec)]),
        &[("0", &counting(6))],
    ))
}

#[test]
fn checkpoints_without_weights_name_what_they_hold() {
    let pickle = Pickle::new()
        .raw(b"}(")
        .str("epoch")
        .int(3)
        .str("optimizer_state")
        .raw(b"}u")
        .stop();
    let message = refusal(&container(&pickle, &[]));
    assert_says(
        &message,
        &[
            "no state dict",
            "model_state",
            "`epoch`",
            "`optimizer_state`",
        ],
    );
    let empty = Pickle::new().raw(b"}").str("model_state").raw(b"}s").stop();
    assert_says(&refusal(&container(&empty, &[])), &["empty"]);
    let number = Pickle::new()
        .raw(b"}")
        .str("model_state")
        .raw(b"}")
        .str("w")
        .int(1)
        .raw(b"ss")
        .stop();
    assert_says(&refusal(&container(&number, &[])), &["`w`", "an int"]);
    let twice = checkpoint_pickle(&[("w", Spec::default()), ("w", Spec::default())]);
    assert_says(
        &refusal(&container(&twice, &[("0", &counting(6))])),
        &["`w`", "twice"],
    );
}

#[test]
fn storages_must_have_their_stated_size() {
    let longer = Spec {
        length: 1000,
        shape: &[1000],
        strides: &[1],
        ..Spec::default()
    };
    assert_says(&refusal_of(longer), &["`w`", "4000 bytes", "24"]);
    let shorter = Spec {
        length: 3,
        shape: &[3],
        strides: &[1],
        ..Spec::default()
    };
    assert_says(&refusal_of(shorter), &["`w`", "12 bytes", "24"]);
    assert_says(
        &refusal_of(Spec {
            key: "7",
            ..Spec::default()
        }),
        &["`w`", "data/7", "missing"],
    );
    assert_says(
        &refusal_of(Spec {
            key: "../0",
            ..Spec::default()
        }),
        &["`w`", "plain name"],
    );
}

#[test]
fn views_must_stay_inside_their_storage() {
    let base = Spec::default();
    let beyond = "reaches element";
    assert_says(
        &refusal_of(Spec {
            shape: &[7],
            strides: &[1],
            ..base
        }),
        &["`w`", beyond],
    );
    assert_says(&refusal_of(Spec { offset: 1, ..base }), &["`w`", beyond]);
    assert_says(
        &refusal_of(Spec {
            strides: &[4, 1],
            ..base
        }),
        &["`w`", beyond],
    );
    assert_says(
        &refusal_of(Spec {
            shape: &[],
            strides: &[],
            offset: 6,
            ..base
        }),
        &["`w`", beyond],
    );
    assert_says(
        &refusal_of(Spec {
            shape: &[6],
            ..base
        }),
        &["`w`", "1 dimensions but 2 strides"],
    );
}

#[test]
fn negative_and_overflowing_extents_are_refused() {
    let base = Spec::default();
    let huge = i64::MAX;
    assert_says(&refusal_of(Spec { offset: -1, ..base }), &["`w`", "offset"]);
    assert_says(
        &refusal_of(Spec {
            offset: huge,
            ..base
        }),
        &["`w`"],
    );
    assert_says(
        &refusal_of(Spec {
            shape: &[-2, 3],
            ..base
        }),
        &["`w`", "shape"],
    );
    assert_says(
        &refusal_of(Spec {
            strides: &[3, -1],
            ..base
        }),
        &["`w`", "strides"],
    );
    assert_says(&refusal_of(Spec { length: -6, ..base }), &["`w`", "length"]);
    assert_says(
        &refusal_of(Spec {
            length: huge,
            ..base
        }),
        &["`w`"],
    );
    assert_says(
        &refusal_of(Spec {
            shape: &[huge, huge],
            ..base
        }),
        &["`w`", "overflows"],
    );
    assert_says(
        &refusal_of(Spec {
            strides: &[huge, huge],
            ..base
        }),
        &["`w`", "overflows"],
    );
    let deep = [1i64; 65];
    assert_says(
        &refusal_of(Spec {
            shape: &deep,
            strides: &deep,
            ..base
        }),
        &["`w`"],
    );
}

/// Stride zero makes a tensor of any size out of one number.
#[test]
fn expanded_views_may_not_outgrow_their_file() {
    let tera = Spec {
        shape: &[1 << 20, 1 << 20],
        strides: &[0, 0],
        ..Spec::default()
    };
    assert_says(&refusal_of(tera), &["`w`", "tensor_bytes"]);
    let wide = Spec {
        shape: &[64 << 20],
        strides: &[0],
        ..Spec::default()
    };
    assert_says(&refusal_of(wide), &["`w`", "expansion"]);
    let some = Spec {
        shape: &[1 << 20],
        strides: &[0],
        ..Spec::default()
    };
    let names: Vec<String> = (0..20).map(|i| format!("w{i}")).collect();
    let many: Vec<(&str, Spec)> = names.iter().map(|name| (name.as_str(), some)).collect();
    let bytes = container(&checkpoint_pickle(&many), &[("0", &counting(6))]);
    assert_says(&refusal(&bytes), &["`w4`", "expansion"]);
}

#[test]
fn unknown_storage_types_are_refused() {
    let complex = Spec {
        class: "ComplexFloatStorage",
        ..Spec::default()
    };
    assert_says(
        &refusal_of(complex),
        &["`w`", "torch.ComplexFloatStorage", "not supported"],
    );
    let bools = Spec {
        class: "BoolStorage",
        length: 24,
        shape: &[24],
        strides: &[1],
        ..Spec::default()
    };
    assert_says(&refusal_of(bools), &["`w`", "bool"]);
}

#[test]
fn other_formats_are_named_with_the_remedy() {
    let legacy = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.";
    assert_says(
        &refusal(legacy),
        &["legacy", "before PyTorch 1.6", "torch.save"],
    );
    assert_says(&refusal(b"\x80\x04}."), &["bare pickle"]);
    assert_says(&refusal(b""), &["empty"]);
    assert_says(
        &refusal(b"hello world, this is text"),
        &["not a PyTorch checkpoint"],
    );
    let other = zip(&[("readme.txt", b"hello")]);
    assert_says(&refusal(&other), &["data.pkl"]);
    let pickle = checkpoint_pickle(&[("w", Spec::default())]);
    let script = zip(&[("m/data.pkl", &pickle), ("m/constants.pkl", b"\x80\x02).")]);
    assert_says(&refusal(&script), &["TorchScript", "state_dict()"]);
    let big = zip(&[
        ("m/data.pkl", &pickle),
        ("m/byteorder", b"big"),
        ("m/data/0", &counting(6)),
    ]);
    assert_says(&refusal(&big), &["big-endian"]);
    let two = zip(&[("a/data.pkl", &pickle), ("b/data.pkl", &pickle)]);
    assert_says(&refusal(&two), &["several"]);
}

#[test]
fn every_truncation_is_refused() {
    let whole = container(
        &checkpoint_pickle(&[("w", Spec::default())]),
        &[("0", &counting(6))],
    );
    assert!(read(&whole).is_ok());
    for length in 0..whole.len() {
        let message = refusal(&whole[..length]);
        assert!(message.contains("model.ckpt"), "{message}");
    }
}

#[test]
fn changed_storage_bytes_are_noticed() {
    let mut bytes = container(
        &checkpoint_pickle(&[("w", Spec::default())]),
        &[("0", &counting(6))],
    );
    let at = bytes
        .windows(24)
        .position(|window| window == counting(6))
        .unwrap();
    bytes[at] ^= 1;
    assert_says(&refusal(&bytes), &["archive/data/0", "damaged"]);
}

/// Sizes in the directory that the file does not have: nothing of the claimed size may be reserved.
#[test]
fn huge_claimed_sizes_are_refused() {
    let whole = container(
        &checkpoint_pickle(&[("w", Spec::default())]),
        &[("0", &counting(6))],
    );
    // Sizes (compressed, uncompressed) of every directory entry stand 20 bytes behind its signature.
    let mut claimed = whole.clone();
    let entries: Vec<usize> = (0..whole.len() - 4)
        .filter(|&at| whole[at..].starts_with(b"PK\x01\x02"))
        .collect();
    for at in entries {
        claimed[at + 20..at + 28]
            .copy_from_slice(&[0xf0, 0xff, 0xff, 0xff, 0xf0, 0xff, 0xff, 0xff]);
    }
    assert_says(&refusal(&claimed), &[]);
    // And the number of entries, in the end record and its 64-bit form.
    let limits = {
        let mut limits = Limits::default();
        limits.archive_entries = 2;
        limits
    };
    let (_folder, path) = file("model.ckpt", &whole);
    let message = torch::read_state_dict(&path, &limits)
        .unwrap_err()
        .to_string();
    assert_says(&message, &["claims 3 entries", "archive_entries"]);
}

#[test]
fn limits_hold() {
    let bytes = container(
        &checkpoint_pickle(&[("w", Spec::default())]),
        &[("0", &counting(6))],
    );
    let (_folder, path) = file("model.ckpt", &bytes);
    let refused = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        torch::read_state_dict(&path, &limits)
            .unwrap_err()
            .to_string()
    };
    assert_says(&refused(|l| l.file_bytes = 100), &["file_bytes"]);
    assert_says(
        &refused(|l| l.pickle_bytes = 100),
        &["data.pkl", "pickle_bytes"],
    );
    assert_says(&refused(|l| l.tensor_bytes = 23), &["`w`", "tensor_bytes"]);
    assert_says(&refused(|l| l.total_bytes = 23), &["`w`", "total_bytes"]);
    assert_says(&refused(|l| l.pickle_values = 5), &["pickle_values"]);
}

/// A small compressed entry that unpacks to far more.
#[test]
fn zip_bombs_are_refused() {
    let zeros = vec![0u8; 80 << 20];
    let pickle = checkpoint_pickle(&[(
        "w",
        Spec {
            length: 20 << 20,
            ..Spec::default()
        },
    )]);
    let bytes = zip_with(
        &[("m/data.pkl", &pickle), ("m/data/0", &zeros)],
        zip::CompressionMethod::Deflated,
    );
    assert!(bytes.len() < 1 << 20);
    assert_says(&refusal(&bytes), &["`w`", "expansion"]);
    let pickle_bomb = zip_with(&[("m/data.pkl", &zeros)], zip::CompressionMethod::Deflated);
    assert_says(&refusal(&pickle_bomb), &["data.pkl", "pickle_bytes"]);
}

#[test]
fn missing_files_and_folders_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ckpt");
    let read = || {
        torch::read_state_dict(&path, &Limits::default())
            .unwrap_err()
            .to_string()
    };
    assert_says(&read(), &["cannot read"]);
    std::fs::create_dir(&path).unwrap();
    assert_says(&read(), &["not a regular file"]);
}
