//! Timing models from the command line. Nothing here judges a time; the figures must fit each other.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use serde_json::Value;
use support::run_with;
use tempfile::TempDir;

/// One timed run of cases that take a millisecond.
fn bench(more: &[&str]) -> support::Run {
    let quick = ["bench", "--runs", "1", "--seconds", "0", "--threads", "1"];
    run_with(quick.iter().chain(more), b"")
}

fn number(value: &Value, name: &str) -> f64 {
    let found = value.pointer(name).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number {name} in {value}"))
}

#[track_caller]
fn assert_equal(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} {b}");
}

#[test]
fn json_carries_figures_that_fit_each_other_and_the_plot_is_written() {
    let folder = TempDir::new().unwrap();
    let plot = folder.path().join("roofline.svg");
    let case = "grit-zinc forward, batch 1";
    let arguments = ["--case", case, "--batch", "2", "--compare", "--json"];
    let place = ["--roofline", plot.to_str().unwrap()];
    let run = bench(&[arguments.as_slice(), &place].concat()).ok();
    let [line] = run.lines().collect::<Vec<_>>()[..] else {
        panic!("one case: {run}")
    };
    let figures: Value = serde_json::from_str(line).unwrap();
    assert_eq!(figures["case"], format!("{case} -> 2 graphs"));
    assert_eq!(figures["graphs"], 2);
    assert_eq!(figures["nodes"], 46);
    assert_eq!(
        (&figures["device"], &figures["dtype"]),
        (&"cpu".into(), &"f32".into())
    );

    let of = |name: &str| number(&figures, name);
    let (milliseconds, gflop) = (of("/milliseconds_median"), of("/achieved/gflop"));
    // GRIT's layers alone have 6·D² FLOP a pair.
    let least = 10.0 * 2.0 * 23.0 * 23.0 * 6.0 * 64.0 * 64.0 / 1e9;
    assert!((least..1.5 * least).contains(&gflop), "{gflop} {least}");
    assert_equal(of("/achieved/gflop_per_second"), gflop / milliseconds * 1e3);
    let gigabytes = of("/achieved/gigabytes");
    assert_equal(
        of("/achieved/gigabytes_per_second"),
        gigabytes / milliseconds * 1e3,
    );
    assert_equal(of("/achieved/flop_per_byte"), gflop / gigabytes);
    let limit = gflop / of("/peaks/gflop_per_second") * 1e3;
    assert_equal(of("/achieved/limit_milliseconds"), limit);
    let of_memory = gigabytes / of("/peaks/gigabytes_per_second") * 1e3;
    assert_equal(of("/achieved/memory_milliseconds"), of_memory);
    let bound = if of_memory > limit {
        "memory"
    } else {
        "arithmetic"
    };
    assert_eq!(figures["achieved"]["bound"], bound);
    assert_equal(of("/achieved/times_limit"), milliseconds / limit);
    assert_equal(
        of("/reference/ratio"),
        of("/reference/milliseconds_median") / milliseconds,
    );
    assert_eq!(figures["peaks"]["threads"], 1);
    if cfg!(target_os = "linux") {
        // Two states of 2·23² pairs and as many rows of 21 steps.
        let least = f64::from(2 * 23 * 23 * 4 * (2 * 64 + 21)) / 1e6;
        assert!(of("/memory/least_mb") > least);
        assert_equal(
            of("/memory/ratio"),
            of("/memory/used_mb") / of("/memory/least_mb"),
        );
    }

    let svg = std::fs::read_to_string(&plot).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for text in [
        case,
        "Forward passes (fused path, f32) on cpu, 1 threads",
        "GB/s",
        "GFLOP/s",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    let label = format!("({:.1})", of("/achieved/gflop_per_second"));
    assert!(svg.contains(&label), "{label}");
    assert_eq!(svg.matches("<circle").count(), 1);
    assert_eq!(
        folder.path().read_dir().unwrap().count(),
        1,
        "no temporary file"
    );
}

#[test]
fn the_table_tells_what_it_is_measured_against() {
    let text = bench(&["--case", "gps-zinc forward, batch 1", "--reference"]).ok();
    assert!(text.contains(" reference "), "{text}");
    for part in [
        "x limit",
        "GFLOP/s",
        "peaks of cpu (1 threads), measured now",
        "limit: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The work of encodings is not counted.
    let text = bench(&["--case", "rrwp 21 steps, 23 nodes"]).ok();
    let row = text.lines().find(|line| line.starts_with("rrwp")).unwrap();
    assert!(row.ends_with(" -"), "{row}");
}

#[test]
fn half_precision_runs_without_the_fused_path() {
    for dtype in ["bf16", "f16"] {
        let case = ["--case", "gps-zinc forward, batch 1", "--json"];
        let run = bench(&[case.as_slice(), &["--dtype", dtype]].concat()).ok();
        let figures: Value = serde_json::from_str(&run).unwrap();
        let [of_case, of_peak] = [&figures["dtype"], &figures["peaks"]["dtype"]];
        assert_eq!((of_case, of_peak), (&dtype.into(), &dtype.into()));
        assert_eq!(figures["path"], "reference");
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let refuse = |arguments: &[&str], code: i32, parts: &[&str]| {
        bench(arguments).fails(code, parts);
    };
    refuse(&["--dtype", "f64"], 2, &["f64", "bf16"]);
    refuse(&["--batch", "0"], 2, &["at least 1"]);
    refuse(&["--compare", "--reference"], 2, &["--reference"]);
    if !cfg!(feature = "cuda") {
        refuse(&["--device", "cuda"], 1, &["--device cuda:0", "feature"]);
    }
    refuse(&["--roofline", "plot.png"], 2, &["svg"]);
    refuse(&["--device", "tpu"], 2, &["cuda:N"]);
    refuse(&["--case", "no such case"], 1, &["no such case"]);
    refuse(&["--case", "rrwp", "--dtype", "f16"], 1, &["--dtype f32"]);
    let folder = TempDir::new().unwrap();
    let plot = folder.path().join("none.svg");
    let place = plot.to_str().unwrap();
    refuse(
        &["--case", "rrwp 21 steps, 23", "--roofline", place],
        1,
        &["forward pass"],
    );
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}
