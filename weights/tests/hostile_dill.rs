//! Hostile Haiku checkpoints: nothing is executed, nothing multiplies, and every refusal names what it refuses.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use candle_graph_weights::Limits;
use candle_graph_weights::haiku::{read_parameters, read_state_dict};
use support::haiku::{Layout, assert_says, checkpoint, matrix, read, refusal, sections};
use support::{Pickle, counting, file};

/// The refusal of a checkpoint whose only parameter is this.
fn refusal_of(w: &Pickle) -> String {
    refusal(&checkpoint(w))
}

/// The refusal of six floats that state this about themselves, in every layout.
fn refusals(shape: &[i64], kind: &str, byte_order: &str) -> Vec<String> {
    let refusal = |layout: Layout| {
        let data = counting(6);
        refusal_of(&layout.array(Pickle::new(), shape, kind, byte_order, false, &data))
    };
    Layout::ALL.map(refusal).to_vec()
}

#[test]
fn calls_are_described_and_never_made() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("executed");
    let command = format!("touch {}", witness.display());
    for (module, name) in [
        ("os", "system"),
        ("builtins", "eval"),
        ("subprocess", "call"),
        ("dill._dill", "_create_function"),
    ] {
        let call = |p: Pickle| p.global(module, name).str(&command).raw(b"\x85R");
        let shown = format!("{module}.{name}");
        assert_says(&refusal(&call(Pickle::new()).stop()), &[&shown, "`params`"]);
        let params = call(Pickle::new().raw(b"}").str("params")).raw(b"s").stop();
        assert_says(
            &refusal(&params),
            &["`params`", &shown, "nothing is ever executed"],
        );
        let module = Pickle::new()
            .raw(b"}")
            .str("params")
            .raw(b"}")
            .str("some/module");
        let module = call(module).raw(b"ss").stop();
        assert_says(&refusal(&module), &["`some/module`", &shown]);
        let array = refusal_of(&call(Pickle::new()));
        assert_says(&array, &["`module/w`", &shown, "nothing is ever executed"]);
        let state = call(sections(&matrix()).str("network_state"))
            .raw(b"s")
            .stop();
        assert_says(&refusal(&state), &["`network_state`", &shown]);
        // In the optimiser's state nobody looks.
        let optimiser = call(sections(&matrix()).str("opt_state")).raw(b"s").stop();
        assert_eq!(read(&optimiser).unwrap().len(), 1);
    }
    assert!(!witness.exists());
}

/// Calls in place of the parts of an array.
#[test]
fn arrays_are_made_by_the_known_constructors_only() {
    let state = |p: Pickle| {
        let p = p.raw(b"(").int(1).ints(&[6]).dtype("f4", "<").raw(b"\x89");
        p.bytes(&counting(6)).raw(b"t")
    };
    let jax = |function: (&str, &str), class: (&str, &str)| {
        let p = Pickle::new()
            .global("jax._src.array", "_reconstruct_array")
            .raw(b"(");
        let p = p.global(function.0, function.1).raw(b"(");
        let p = p.global(class.0, class.1).ints(&[0]).bytes(b"b").raw(b"t");
        state(p).raw(b"}tR")
    };
    let known = (
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
    );
    assert_eq!(read(&checkpoint(&jax(known.0, known.1))).unwrap().len(), 1);
    let function = refusal_of(&jax(("os", "system"), known.1));
    assert_says(
        &function,
        &["`module/w`", "os.system", "no array constructor"],
    );
    let class = refusal_of(&jax(known.0, ("numpy", "memmap")));
    assert_says(&class, &["`module/w`", "numpy.memmap"]);
    let dtype = Layout::Numpy.array(Pickle::new(), &[6], "O8", "|", false, &counting(6));
    assert_says(
        &refusal_of(&dtype),
        &["`module/w`", "`O8`", "not supported"],
    );
    let called = |p: Pickle| p.global("os", "system").str("true").raw(b"\x85R");
    for layout in Layout::ALL {
        let data = layout.array_of(Pickle::new(), &[6], "f4", "<", false, called);
        let message = refusal_of(&data);
        assert_says(&message, &["`module/w`", "should be bytes", "os.system"]);
    }
    let kind = Pickle::new()
        .global("numpy.core.multiarray", "scalar")
        .raw(b"(");
    let kind = called(kind).bytes(&[0; 4]).raw(b"tR");
    assert_says(&refusal_of(&kind), &["`numpy.dtype`", "os.system"]);
    let kind = Pickle::new()
        .global("numpy.core.multiarray", "scalar")
        .raw(b"(");
    let kind = kind.dtype_of(called, "<").bytes(&[0; 4]).raw(b"tR");
    assert_says(&refusal_of(&kind), &["element type", "os.system"]);
    for (module, name) in [
        ("numpy.core.multiarray", "fromfile"),
        ("numpy", "load"),
        ("jax._src.array", "make_array_from_callback"),
    ] {
        let other = Pickle::new()
            .global(module, name)
            .str("/etc/passwd")
            .raw(b"\x85R");
        assert_says(&refusal_of(&other), &["`module/w`", module, name]);
    }
    for (value, shown) in [
        (Pickle::new().int(3), "an int"),
        (Pickle::new().raw(b"N"), "None"),
        (Pickle::new().raw(b"]"), "a list"),
        (Pickle::new().bytes(&counting(6)), "bytes"),
        (
            Pickle::new().str("elsewhere").raw(b"Q"),
            "an external reference",
        ),
    ] {
        assert_says(&refusal_of(&value), &["`module/w`", "an array", shown]);
    }
}

#[test]
fn shapes_must_fit_their_bytes() {
    for shape in [&[5][..], &[7], &[2, 4], &[], &[0], &[6, 1, 0]] {
        for message in refusals(shape, "f4", "<") {
            assert_says(&message, &["`module/w`", "bytes", "24"]);
        }
    }
    for message in refusals(&[6], "f8", "<") {
        assert_says(&message, &["`module/w`", "48 bytes", "24"]);
    }
}

#[test]
fn negative_huge_and_deep_shapes_are_refused() {
    let huge = i64::MAX;
    for shape in [&[-1][..], &[-2, -3], &[1; 65]] {
        for message in refusals(shape, "f4", "<") {
            assert_says(&message, &["`module/w`", "its shape is no tuple"]);
        }
    }
    for shape in [&[huge][..], &[huge, huge], &[1 << 32, 1 << 32, 1 << 32]] {
        for message in refusals(shape, "f4", "<") {
            assert_says(&message, &["`module/w`", "overflows"]);
        }
    }
    for message in refusals(&[1 << 40], "f4", "<") {
        assert_says(&message, &["`module/w`", "4398046511104 bytes", "24"]);
    }
}

#[test]
fn other_element_types_and_byte_orders_are_refused() {
    for kind in [
        "O8", "c8", "V8", "U3", "S4", "M8", "u2", "u8", ">f4", "", "float32",
    ] {
        for message in refusals(&[6], kind, "<") {
            assert_says(&message, &["`module/w`", "element type", "not supported"]);
        }
    }
    for message in refusals(&[6], &"f".repeat(100_000), "<") {
        assert_says(&message, &["`module/w`", "not supported"]);
    }
    for byte_order in ["=", "", "?"] {
        for message in refusals(&[6], "f4", byte_order) {
            assert_says(&message, &["`module/w`", "byte order"]);
        }
    }
    let scalar = |state: &dyn Fn(Pickle) -> Pickle| {
        let p = Pickle::new()
            .global("numpy.core.multiarray", "scalar")
            .raw(b"(");
        let p = p.global("numpy", "dtype").raw(b"(").str("f4").raw(b"tR");
        refusal_of(&state(p).bytes(&[0; 4]).raw(b"tR"))
    };
    assert_says(&scalar(&|p| p), &["`module/w`", "no byte order"]);
    let record = |p: Pickle| p.raw(b"(").int(3).str("|").raw(b"N").ints(&[]).raw(b"}tb");
    assert_says(&scalar(&record), &["`module/w`", "record"]);
    let bools = Layout::Jax.array(Pickle::new(), &[2], "b1", "|", false, &[1, 2]);
    assert_says(&refusal_of(&bools), &["`module/w`", "bool"]);
}

#[test]
fn checkpoints_without_parameters_name_what_they_hold() {
    let other = Pickle::new()
        .raw(b"}(")
        .str("step")
        .int(3)
        .str("weights")
        .raw(b"}u");
    assert_says(
        &refusal(&other.stop()),
        &["no parameters", "`params`", "`step`", "`weights`"],
    );
    let empty = Pickle::new().raw(b"}").str("params").raw(b"}s").stop();
    assert_says(&refusal(&empty), &["`params` is empty"]);
    let number = Pickle::new()
        .raw(b"}")
        .str("params")
        .raw(b"}")
        .int(1)
        .raw(b"}ss");
    assert_says(&refusal(&number.stop()), &["key of `params`", "an int"]);
    for bytes in [&b""[..], b"hello world, this is text", b"PK\x03\x04"] {
        let (_folder, path) = file("checkpoint.dill", bytes);
        let error = read_parameters(&path, &Limits::default()).unwrap_err();
        assert_says(&error.to_string(), &["neither"]);
    }
}

#[test]
fn names_stand_once_and_are_short() {
    let two = |first: (&str, &str), second: (&str, &str)| {
        let p = Pickle::new().raw(b"}").str("params").raw(b"}(");
        let p = [first, second].iter().fold(p, |p, (module, name)| {
            p.str(module).raw(b"}").str(name).raw(&matrix().0).raw(b"s")
        });
        p.raw(b"us").stop()
    };
    assert_eq!(read(&two(("a", "w"), ("a", "b"))).unwrap().len(), 2);
    for second in [("a", "b/w"), ("a/b", "w")] {
        let message = refusal(&two(("a/b", "w"), second));
        assert_says(&message, &["`a/b/w`", "twice"]);
    }
    let long = "a".repeat(1020);
    assert_says(
        &refusal(&two(("a", "w"), (&long, "wxyz"))),
        &["longer than"],
    );
    let longer = "a".repeat(100_000);
    assert_says(&refusal(&two(("a", "w"), (&longer, "w"))), &["longer than"]);
}

/// One array of 64 KiB under ever more names, and one module of a thousand arrays under ever more paths:
/// a tensor is a copy, so that a small file would fill the memory.
#[test]
fn shared_arrays_may_not_outgrow_their_file() {
    let zeros = Layout::Jax.array(Pickle::new(), &[1 << 14], "f4", "<", false, &[0; 1 << 16]);
    let mut p = Pickle::new()
        .raw(&zeros.0)
        .raw(b"q\x000}")
        .str("params")
        .raw(b"}")
        .str("m");
    p = p.raw(b"}(");
    for i in 0..2000 {
        p = p.str(&format!("w{i}")).raw(b"h\x00");
    }
    let bytes = p.raw(b"uss").stop();
    assert!(bytes.len() < 1 << 17);
    assert_says(&refusal(&bytes), &["tensor `m/w2", "expansion"]);

    let empty = Layout::Jax.array(Pickle::new(), &[0], "f4", "<", false, &[]);
    let mut p = Pickle::new().raw(&empty.0).raw(b"q\x000}q\x01(");
    for i in 0..1000 {
        p = p.str(&format!("w{i}")).raw(b"h\x00");
    }
    p = p.raw(b"u0}").str("params").raw(b"}(");
    for i in 0..1000 {
        p = p.str(&format!("m{i}")).raw(b"h\x01");
    }
    let bytes = p.raw(b"us").stop();
    assert!(bytes.len() < 1 << 17);
    assert_says(&refusal(&bytes), &["expansion"]);
}

#[test]
fn values_that_contain_themselves_are_harmless() {
    let own = Pickle::new()
        .raw(b"}q\x00")
        .str("params")
        .raw(b"h\x00s")
        .stop();
    assert_says(&refusal(&own), &["`params/params`", "a dict"]);
    let nested = [b"(".repeat(300_000), b"N".to_vec(), b"t".repeat(300_000)].concat();
    let deep = sections(&matrix())
        .str("opt_state")
        .raw(&nested)
        .raw(b"s")
        .stop();
    assert_eq!(read(&deep).unwrap().len(), 1);
    assert_says(
        &refusal_of(&Pickle::new().raw(&nested)),
        &["`module/w`", "a tuple"],
    );
}

#[test]
fn every_truncation_is_refused() {
    let whole = checkpoint(&matrix());
    assert_eq!(read(&whole).unwrap().len(), 1);
    for length in 0..whole.len() {
        assert_says(&refusal(&whole[..length]), &[]);
    }
}

#[test]
fn limits_hold() {
    let (_folder, path) = file("checkpoint.dill", &checkpoint(&matrix()));
    let refused = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        read_state_dict(&path, &limits).unwrap_err().to_string()
    };
    assert_says(&refused(|l| l.file_bytes = 100), &["file_bytes"]);
    let tensor = refused(|l| l.tensor_bytes = 23);
    assert_says(&tensor, &["`module/w`", "tensor_bytes"]);
    let total = refused(|l| l.total_bytes = 23);
    assert_says(&total, &["`module/w`", "total_bytes"]);
    assert_says(&refused(|l| l.pickle_values = 5), &["pickle_values"]);
}
