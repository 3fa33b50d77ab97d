//! How entries get to disk, and what happens when they cannot.

use std::time::{Duration, SystemTime};

use super::*;
use crate::encodings::OnWriteError;
use crate::error::Error;

#[test]
fn a_shard_is_written_whenever_its_bytes_are_gathered() {
    let (graphs, dir) = (rings(0..40), tempfile::tempdir().unwrap());
    let one = plan().bytes(&graphs[0]);
    let options = CacheOptions {
        shard_bytes: 10 * one,
        ..CacheOptions::default()
    };
    let cache = EncodingCache::open(dir.path(), options).unwrap();
    ask(&cache, &graphs[..39]);
    let stats = cache.stats();
    assert_eq!(
        (stats.shards, stats.pending_entries),
        (3, 2 * 39 - stats.entries)
    );
    assert!(stats.pending_bytes < 10 * one);
    cache.flush().unwrap();
    assert_eq!(files(dir.path(), ".safetensors").len(), 4);
    assert_eq!(files(dir.path(), ".index.jsonl").len(), 4);
    assert_eq!(files(dir.path(), "").len(), 8, "no temporary file is left");
    let sound = cache.verify().unwrap();
    assert_eq!(
        (sound.entries, sound.bytes, sound.leftovers),
        (78, 39 * one, 0)
    );
    assert_eq!(sound.faults, []);
    assert_eq!(cache.stats().entries, 78);
    assert_eq!(cache.stats().bytes, 39 * one);
}

#[test]
fn shards_are_safetensors_with_the_arrays_by_key_and_name() {
    let graphs = rings(0..2);
    let dir = filled(&graphs);
    let content = std::fs::read(only(dir.path(), ".safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&content).unwrap();
    let key = crate::encodings::EntryKey::new(&rrwp(5), &graphs[1]).unwrap();
    let pair = tensors.tensor(&format!("{key}/rrwp.pair")).unwrap();
    assert_eq!(pair.shape(), [400, 5]);
    let expected = plan().compute(&graphs[1], 0).unwrap();
    let values: Vec<u8> = expected
        .get("rrwp.pair")
        .unwrap()
        .data
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    assert_eq!(pair.data(), values);
}

#[test]
fn threads_share_a_cache() {
    let (graphs, dir) = (rings(0..60), tempfile::tempdir().unwrap());
    let options = CacheOptions {
        shard_bytes: 30_000,
        ..CacheOptions::default()
    };
    let cache = EncodingCache::open(dir.path(), options).unwrap();
    std::thread::scope(|scope| {
        for first in [0, 10, 20, 30] {
            let (cache, graphs) = (&cache, &graphs);
            scope.spawn(move || {
                for part in graphs[first..first + 30].chunks(4) {
                    assert_eq!(ask(cache, part).faults, []);
                }
            });
        }
    });
    cache.flush().unwrap();
    assert_eq!(cache.verify().unwrap().faults, []);
    assert_eq!(ask(&open(dir.path()), &graphs).hits, 120);
}

#[test]
fn a_folder_that_cannot_be_written_costs_the_cache_and_not_the_encodings() {
    let graphs = rings(0..4);
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("cache");
    let options = CacheOptions {
        shard_bytes: 1,
        ..CacheOptions::default()
    };
    let cache = EncodingCache::open(&at, options.clone()).unwrap();
    std::fs::remove_dir(&at).unwrap();
    let report = ask(&cache, &graphs[..2]);
    let message = report.write_error.unwrap();
    assert!(
        message.contains("the encoding cache cannot be written"),
        "{message}"
    );
    assert!(message.contains("cache"), "{message}");
    // It is told once, later calls still answer, nothing is hoarded, and flush does not pretend.
    assert_eq!(ask(&cache, &graphs[2..]).write_error, None);
    assert_eq!(cache.stats().pending_entries, 0);
    assert!(matches!(cache.flush(), Err(Error::Io { path, .. }) if path == at));

    let strict = CacheOptions {
        on_write_error: OnWriteError::Fail,
        ..options
    };
    let cache = EncodingCache::open(&at, strict).unwrap();
    std::fs::remove_dir(&at).unwrap();
    let error = cache.get_or_compute(&plan(), &graphs, 0).unwrap_err();
    assert!(matches!(error, Error::Io { path, .. } if path == at));
}

#[test]
fn a_read_only_cache_answers_and_leaves_the_folder_as_it_is() {
    let graphs = rings(0..4);
    let dir = filled(&graphs[..2]);
    let before = files(dir.path(), "");
    let options = CacheOptions {
        read_only: true,
        shard_bytes: 1,
        ..CacheOptions::default()
    };
    let cache = EncodingCache::open(dir.path(), options.clone()).unwrap();
    let report = ask(&cache, &graphs);
    assert_eq!((report.hits, report.computed), (4, 4));
    assert_eq!(report.write_error, None);
    cache.flush().unwrap();
    drop(cache);
    assert_eq!(files(dir.path(), ""), before);
    let missing = dir.path().join("missing");
    assert!(EncodingCache::open(&missing, options).is_err());
    assert!(!missing.exists());
}

#[test]
fn a_file_in_place_of_the_folder_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("notes.txt");
    std::fs::write(&at, "mine").unwrap();
    let error = EncodingCache::open(&at, CacheOptions::default()).unwrap_err();
    assert!(error.to_string().contains("notes.txt"), "{error}");
    assert_eq!(std::fs::read(&at).unwrap(), b"mine");
}

#[test]
fn leftovers_are_removed_only_when_they_are_old() {
    let graphs = rings(0..2);
    let dir = filled(&graphs);
    let names = [
        ".encoding-abc.tmp",
        &format!("{}.safetensors", "0".repeat(64)),
        "notes.txt",
    ];
    let (old, new) = (dir.path().join("old"), dir.path());
    std::fs::create_dir(&old).unwrap();
    for folder in [&old, new] {
        for name in names {
            let file = std::fs::File::create(folder.join(name)).unwrap();
            if folder == old {
                let days = Duration::from_secs(3 * 24 * 60 * 60);
                file.set_modified(SystemTime::now() - days).unwrap();
            }
        }
    }
    let fresh = open(new);
    assert_eq!(fresh.verify().unwrap().leftovers, 2);
    assert_eq!(ask(&fresh, &graphs).faults, []);
    assert!(names.iter().all(|name| new.join(name).exists()));
    open(&old);
    let left: Vec<_> = names
        .iter()
        .filter(|name| old.join(name).exists())
        .collect();
    assert_eq!(left, [&"notes.txt"]);
}
