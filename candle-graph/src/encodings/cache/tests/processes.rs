//! Several processes on one folder, and one that is killed. The processes are this test binary
//! again, told by an environment variable to play another part in the same test.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::super::index;
use super::*;

const PART: &str = "CANDLE_GRAPH_CACHE_TEST_DIR";

/// The folder, when this process is one of those that a test has started.
fn part() -> Option<PathBuf> {
    std::env::var_os(PART).map(PathBuf::from)
}

/// Starts the test called `name` in another process.
fn start(name: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .arg(format!("encodings::cache::tests::processes::{name}"))
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .env(PART, dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn small_shards(dir: &Path) -> EncodingCache {
    let options = CacheOptions {
        shard_bytes: 50_000,
        ..CacheOptions::default()
    };
    EncodingCache::open(dir, options).unwrap()
}

/// Every file under its final name is all there: shards are named by their content.
fn all_whole(dir: &Path) {
    for path in files(dir, ".safetensors") {
        let hash = blake3::hash(&std::fs::read(&path).unwrap()).to_hex();
        assert_eq!(path.file_stem().unwrap().to_str(), Some(&*hash));
    }
    for path in files(dir, ".index.jsonl") {
        index::read(&path).unwrap();
    }
}

#[test]
fn processes_fill_one_folder_at_once() {
    let graphs = rings(0..120);
    if let Some(dir) = part() {
        let cache = small_shards(&dir);
        for graphs in graphs.chunks(5) {
            let report = ask(&cache, graphs);
            assert_eq!((report.faults, report.write_error), (vec![], None));
        }
        return cache.flush().unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let children = [(); 3].map(|()| start("processes_fill_one_folder_at_once", dir.path()));
    for mut child in children {
        while child.try_wait().unwrap().is_none() {
            all_whole(dir.path());
        }
        assert!(child.wait().unwrap().success());
    }
    let cache = open(dir.path());
    let sound = cache.verify().unwrap();
    assert_eq!((sound.faults, sound.leftovers), (vec![], 0));
    assert!(
        sound.shards > 3 && sound.entries >= 240,
        "{} entries",
        sound.entries
    );
    let report = ask(&cache, &graphs);
    assert_eq!((report.hits, report.faults), (240, vec![]));
}

#[test]
fn a_process_killed_while_it_writes_leaves_a_sound_cache() {
    if let Some(dir) = part() {
        let cache = small_shards(&dir);
        // Far more than it lives for, and an end should the killer die first.
        for number in 0..50_000 {
            cache
                .get_or_compute(&plan(), &[ring(number, 20)], 0)
                .unwrap();
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for round in 0..6 {
        let before = files(dir.path(), ".index.jsonl").len();
        let mut child = start(
            "a_process_killed_while_it_writes_leaves_a_sound_cache",
            dir.path(),
        );
        // In even rounds between two files, in odd ones with a file half written if it can be had.
        loop {
            assert_eq!(
                child.try_wait().unwrap(),
                None,
                "it ended before it was killed"
            );
            let written = files(dir.path(), ".index.jsonl").len() - before;
            let caught = round % 2 == 0 || !files(dir.path(), ".tmp").is_empty();
            if written > round + 20 || (written > round && caught) {
                break;
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        all_whole(dir.path());

        let cache = open(dir.path());
        let sound = cache.verify().unwrap();
        assert_eq!(sound.faults, []);
        assert!(sound.shards > before && sound.entries > 0);
        let graphs: Vec<Graph> = (0..40).map(|number| ring(number, 20)).collect();
        let report = ask(&cache, &graphs);
        assert_eq!(report.faults, []);
        assert!(report.hits > 0);
    }
}
