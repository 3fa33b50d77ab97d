//! Outputs appear complete or not at all, whatever ends the run.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use support::{listing, model, molecule_lines, molecules, objects, program};
use tempfile::TempDir;

#[test]
fn places_that_cannot_be_written() {
    let folder = TempDir::new().unwrap();
    let blocked = folder.path().join("blocked.npz");
    std::fs::create_dir(&blocked).unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    for (output, part) in [
        (blocked.clone(), "blocked.npz"),
        (folder.path().join("none/a.npz"), "none"),
        (file.join("a.jsonl"), "file"),
    ] {
        for command in ["predict", "embed"] {
            let level: &[&str] = match command {
                "embed" => &["--level", "node"],
                _ => &[],
            };
            let mut program = program();
            program.arg(command).args(level).arg("--model").arg(model());
            program.arg("--input").arg(molecules());
            program.arg("--output").arg(&output);
            support::run_command(&mut program, b"").fails(1, &[part]);
        }
    }
    let into_file = file.join("cache");
    run!(
        "encode",
        "--recipe",
        "rrwp:4",
        "--input",
        molecules(),
        "--cache",
        into_file
    )
    .fails(1, &["file"]);
    let output = folder.path().join("none/a.safetensors");
    run!(
        "encode",
        "--recipe",
        "rrwp:4",
        "--input",
        molecules(),
        "--output",
        output
    )
    .fails(1, &["none"]);
    assert_eq!(listing(folder.path()), ["blocked.npz", "file"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
}

/// A rename would replace the device by a file.
#[cfg(unix)]
#[test]
fn devices_are_not_replaced() {
    let folder = TempDir::new().unwrap();
    let link = folder.path().join("null.jsonl");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    run!(
        "predict",
        "--model",
        model(),
        "--input",
        molecules(),
        "--output",
        link
    )
    .fails(1, &["null.jsonl", "no ordinary file"]);
    assert_eq!(listing(folder.path()), ["null.jsonl"]);
    assert!(link.is_symlink());
}

#[test]
fn a_failed_run_keeps_the_file_of_the_last() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("a.jsonl");
    let args = [
        "predict",
        "--model",
        model().to_str().unwrap(),
        "--output",
        output.to_str().unwrap(),
    ];
    support::run_with(args, molecule_lines()[0].as_bytes()).ok();
    let before = std::fs::read_to_string(&output).unwrap();
    support::run_with(args, b"{").fails(1, &["line 1"]);
    assert_eq!(std::fs::read_to_string(&output).unwrap(), before);
    support::run_with(args, molecule_lines()[1].as_bytes()).ok();
    assert_ne!(std::fs::read_to_string(&output).unwrap(), before);
    assert_eq!(listing(folder.path()), ["a.jsonl"]);
}

/// With batches of one, every graph is answered before the next is sent.
#[test]
fn results_stream() {
    let mut child = program()
        .args(["predict", "--quiet", "--batch-graphs", "1", "--model"])
        .arg(model())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for (at, line) in molecule_lines().iter().take(3).enumerate() {
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).unwrap();
        let sent = &objects(line)[0]["id"];
        assert_eq!(&objects(&answer)[0]["id"], sent, "answer {at}");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

/// Ends a run that is under way (its temporary file is there, standard input still open).
fn ended_midway(name: &str, end: impl FnOnce(&mut std::process::Child)) -> (TempDir, Option<i32>) {
    let folder = TempDir::new().unwrap();
    let mut child = program()
        .args(["predict", "--batch-graphs", "1", "--model"])
        .arg(model())
        .arg("--output")
        .arg(folder.path().join(name))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for line in molecule_lines() {
        writeln!(stdin, "{line}").unwrap();
    }
    stdin.flush().unwrap();
    while listing(folder.path()).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    end(&mut child);
    let code = child.wait().unwrap().code();
    drop(stdin);
    (folder, code)
}

#[test]
fn a_killed_run_leaves_nothing_under_the_name() {
    for name in ["a.jsonl", "a.npz", "a.safetensors"] {
        let (folder, _) = ended_midway(name, |child| child.kill().unwrap());
        let left = listing(folder.path());
        assert!(
            left.iter().all(|file| file.starts_with(".writing-")),
            "{left:?}"
        );
    }
}

/// Ctrl-C and a polite kill leave not even a temporary file.
#[cfg(unix)]
#[test]
fn an_interrupted_run_cleans_up() {
    for signal in ["INT", "TERM"] {
        for name in ["a.jsonl", "a.npz"] {
            let (folder, code) = ended_midway(name, |child| {
                let kill = std::process::Command::new("kill")
                    .args(["-s", signal, &child.id().to_string()])
                    .status();
                assert!(kill.unwrap().success());
            });
            assert_eq!(code, Some(130), "{signal}");
            assert_eq!(listing(folder.path()), [""; 0], "{signal}");
        }
    }
}

/// `| head`: the reader goes away, and that is no failure.
#[test]
fn a_closed_pipe_ends_quietly() {
    let lines = molecule_lines().join("\n");
    let mut child = program()
        .args(["predict", "--quiet", "--batch-graphs", "1", "--model"])
        .arg(model())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    writeln!(stdin, "{lines}").unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(objects(&line).len(), 1);
    drop(stdout);
    // More than a pipe holds, so that the program must write to the closed one.
    for _ in 0..50 {
        if writeln!(stdin, "{lines}").is_err() {
            break;
        }
    }
    drop(stdin);
    let mut stderr = String::new();
    let mut pipe = child.stderr.take().unwrap();
    pipe.read_to_string(&mut stderr).unwrap();
    assert_eq!(stderr, "");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_a_failure() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = program()
        .arg("predict")
        .arg("--model")
        .arg(model())
        .arg("--input")
        .arg(molecules())
        .stdin(Stdio::null())
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("cannot write to standard output"),
        "{stderr}"
    );
}
