//! Damaged and hostile PyTorch files are refused with a message that says why, without executing or allocating what
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

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
    assert!(
        message.contains("model.ckpt"),
        "the file is not named: {message}"
    );
    assert!(
        message.len() < 2000,
        "the message has {} bytes",
        message.len()
    );
}

#[test]
fn calls_are_described_and_never_made() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("executed");
    let command = format!("touch {}", witness.display());
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("subprocess", "call"),
    ] {
        let call = |p: Pickle| p.global(module, name).str(&command).raw(b"\x85R");
        let shown = format!("{module}.{name}");
        let root = container(&call(Pickle::new()).stop(), &[]);
        assert_says(&refusal(&root), &[&shown, "instead of a dictionary"]);
        let section = call(Pickle::new().raw(b"}").str("model_state"))
            .raw(b"s")
            .stop();
        assert_says(&refusal(&container(&section, &[])), &[&shown]);
        let tensor = call(
            Pickle::new()
                .raw(b"}")
                .str("model_state")
                .raw(b"}")
                .str("w"),
        )
        .raw(b"ss")
        .stop();
        assert_says(
            &refusal(&container(&tensor, &[])),
            &["`w`", &shown, "nothing is ever executed"],
        );
        // The other opcodes that make objects: INST, OBJ, NEWOBJ.
        let inst = Pickle::new()
            .raw(b"(")
            .str(&command)
            .raw(format!("i{module}\n{name}\n").as_bytes());
        assert_says(&refusal(&container(&inst.stop(), &[])), &[&shown]);
        let obj = Pickle::new()
            .raw(b"(")
            .global(module, name)
            .str(&command)
            .raw(b"o")
            .stop();
        assert_says(&refusal(&container(&obj, &[])), &[&shown]);
        let newobj = Pickle::new()
            .global(module, name)
            .str(&command)
            .raw(b"\x85\x81")
            .stop();
        assert_says(&refusal(&container(&newobj, &[])), &[&shown]);
    }
    assert!(!witness.exists());
}

#[test]
fn other_functions_in_place_of_tensor_constructors_are_refused() {
    let pickle = Pickle::new()
        .raw(b"}")
        .str("w")
        .global("torch._utils", "_rebuild_sparse_tensor")
        .raw(b")Rs")
        .stop();
    assert_says(
        &refusal(&container(&pickle, &[])),
        &["`w`", "torch._utils._rebuild_sparse_tensor"],
    );
}

/// Lists that hold the one before twice: 2^200 elements if they were copied.
#[test]
fn doubling_through_the_memo_costs_nothing() {
    let mut pickle = Pickle::new().raw(b"]q\x00");
    for level in 0..200u8 {
        pickle = pickle.raw(&[
            b'0',
            b']',
            b'q',
            level + 1,
            b'(',
            b'h',
            level,
            b'h',
            level,
            b'e',
        ]);
    }
    assert_says(
        &refusal(&container(&pickle.stop(), &[])),
        &["a list", "instead of a dictionary"],
    );
}

#[test]
fn deep_nesting_needs_no_stack() {
    let nested = [b"(".repeat(300_000), b"N".to_vec(), b"t".repeat(300_000)].concat();
    let message = refusal(&container(&Pickle::new().raw(&nested).stop(), &[]));
    assert_says(&message, &["a tuple", "instead of a dictionary"]);
    let lists = [b"]".repeat(300_000), b"a".repeat(299_999)].concat();
    let message = refusal(&container(&Pickle::new().raw(&lists).stop(), &[]));
    assert_says(&message, &["a list", "instead of a dictionary"]);
}

#[test]
fn a_value_that_contains_itself_is_harmless() {
    let pickle = Pickle::new()
        .raw(b"}q\x00")
        .str("model_state")
        .raw(b"h\x00s")
        .stop();
    assert_says(
        &refusal(&container(&pickle, &[])),
        &["`model_state`", "a dict"],
    );
}

#[test]
fn too_many_values_are_refused() {
    let pickle = Pickle::new().raw(&b"N".repeat(2_100_000)).stop();
    assert_says(
        &refusal(&container(&pickle, &[])),
        &["too many values", "pickle_values"],
    );
    let dup = Pickle::new().raw(b"N").raw(&b"2".repeat(2_100_000)).stop();
    assert_says(&refusal(&container(&dup, &[])), &["too many values"]);
    let marks = Pickle::new().raw(&b"(".repeat(2_100_000)).stop();
    assert_says(&refusal(&container(&marks, &[])), &["too many values"]);
}

/// One long text, offered again and again by the memo as the name of a global.
#[test]
fn long_names_are_not_multiplied() {
    let long = "a".repeat(100_000);
    let mut pickle = Pickle::new().str(&long).raw(b"q\x00");
    for _ in 0..1000 {
        pickle = pickle.raw(b"h\x00h\x00\x93");
    }
    assert_says(&refusal(&container(&pickle.stop(), &[])), &["too long"]);
    let spec = Spec::default();
    let named = checkpoint_pickle(&[(long.as_str(), spec)]);
    assert_says(
        &refusal(&container(&named, &[("0", &counting(6))])),
        &["longer than"],
    );
}

#[test]
fn malformed_streams_are_refused_with_their_position() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "STOP"),
        (b"\x80\x02", "STOP"),
        (b"\x80\x09.", "protocol 9"),
        (b".", "stack is empty"),
        (b"R", "stack is empty"),
        (b"t", "no open mark"),
        (b"(NR.", "stack is empty"),
        (b"NN(R.", "stack is empty"),
        (b"h\x05.", "memo entry 5"),
        (b"X\xff\xff\xff\xffabc", "only 3 are left"),
        (
            b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc",
            "only 3 are left",
        ),
        (
            b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fabc",
            "only 3 are left",
        ),
        (b"\x8b\xff\xff\xff\xff", "only 0 are left"),
        (b"X\x02\x00\x00\x00\xff\xfe.", "UTF-8"),
        (b"I12x\n.", "integer"),
        (b"Fnope\n.", "float"),
        (b"cos\nsystem", "does not end"),
        (b"Kx(u.", "no dictionary"),
        (b"}(Nu.", "no value"),
        (b"NNs.", "stack is empty"),
        (b"NN\x86Nb.", "no object"),
        (b"N(Ne.", "no list"),
        (b"\x82\x01.", "EXT"),
        (b"\x97.", "buffers"),
        (b"\xff.", "0xff"),
        (b"NN\x93.", "no text"),
    ];
    for (stream, expected) in cases {
        assert_says(&refusal(&container(stream, &[])), &["byte ", expected]);
    }
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
