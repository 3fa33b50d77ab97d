//! Hostile pickle streams: nothing is executed, nothing multiplies, and every refusal says why and where.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use support::*;

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
