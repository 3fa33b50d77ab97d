//! Nothing damaged or forged is believed, and damage heals.

use std::fs;
use std::io::Write;

use serde_json::{Value, json};

use super::*;
use crate::encodings::EntryKey;

const SHARD: &str = ".safetensors";
const INDEX: &str = ".index.jsonl";

/// Asks for all graphs: `damaged` entries must be reported, each with shard and key, and computed
/// again, the others found; afterwards the folder must be sound and hold everything.
fn heals(dir: &Path, graphs: &[Graph], damaged: usize, problem: &str) {
    let shard = files(dir, INDEX)
        .first()
        .map(|i| i.to_string_lossy().replace(INDEX, SHARD));
    let cache = open(dir);
    let report = ask(&cache, graphs);
    assert_eq!((report.computed, report.faults.len()), (damaged, damaged));
    for fault in &report.faults {
        assert!(fault.problem.contains(problem), "{fault}");
        assert_eq!(fault.file.to_str(), shard.as_deref());
        let known = |key| {
            let keys = |g| [rrwp(5), rwse(7)].map(|r| EntryKey::new(&r, g).unwrap());
            graphs.iter().any(|g| keys(g).contains(&key))
        };
        assert!(fault.key.is_some_and(known));
    }
    assert_eq!(ask(&cache, graphs).computed, 0);
    drop(cache);
    let again = open(dir);
    assert_eq!(again.verify().unwrap().faults, []);
    let report = ask(&again, graphs);
    assert_eq!((report.computed, report.faults), (0, vec![]));
}

/// Replaces the entries of the only index by what `edit` makes of them, with a matching header.
fn forge(dir: &Path, edit: impl FnOnce(&mut Vec<Value>)) {
    let path = only(dir, INDEX);
    let text = fs::read_to_string(&path).unwrap();
    let mut entries: Vec<Value> = text
        .lines()
        .skip(1)
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    edit(&mut entries);
    let body: String = entries.iter().map(|e| format!("{e}\n")).collect();
    let mut header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    header["entries"] = json!(entries.len());
    header["blake3"] = json!(blake3::hash(body.as_bytes()).to_hex().to_string());
    fs::write(path, format!("{header}\n{body}")).unwrap();
}

/// Asks for all graphs where the index cannot be used: told once, all computed, and stored anew.
fn skips_index(dir: &Path, graphs: &[Graph], file: &Path) -> String {
    let cache = open(dir);
    let report = ask(&cache, graphs);
    assert_eq!(report.computed, 2 * graphs.len());
    assert_eq!(report.faults.len(), 1, "{:?}", report.faults);
    assert_eq!(
        (&*report.faults[0].file, report.faults[0].key),
        (file, None)
    );
    assert_eq!(ask(&cache, graphs).faults, []);
    report.faults[0].problem.clone()
}

#[test]
fn a_flipped_bit_in_any_entry_costs_that_entry() {
    let graphs = rings(0..3);
    let places: Vec<(u64, u64)> = {
        let dir = filled(&graphs);
        let text = fs::read_to_string(only(dir.path(), INDEX)).unwrap();
        let entry = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            let size =
                |a: &Value| 4 * a["shape"][0].as_u64().unwrap() * a["shape"][1].as_u64().unwrap();
            let bytes = line["arrays"].as_array().unwrap().iter().map(size).sum();
            (line["start"].as_u64().unwrap(), bytes)
        };
        text.lines().skip(1).map(entry).collect()
    };
    assert_eq!(places.len(), 6);
    for (start, bytes) in places {
        for at in [start, start + bytes / 2, start + bytes - 1] {
            let dir = filled(&graphs);
            let path = only(dir.path(), SHARD);
            let mut content = fs::read(&path).unwrap();
            content[at as usize] ^= 1;
            fs::write(&path, content).unwrap();
            assert_eq!(open(dir.path()).verify().unwrap().faults.len(), 1);
            heals(dir.path(), &graphs, 1, "checksum");
        }
    }
}

#[test]
fn a_shard_cut_off_loses_what_lay_behind() {
    let graphs = rings(0..3);
    let dir = filled(&graphs);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(only(dir.path(), SHARD))
        .unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    heals(dir.path(), &graphs, 1, "out of range");
    let dir = filled(&graphs);
    fs::write(only(dir.path(), SHARD), "").unwrap();
    heals(dir.path(), &graphs, 6, "out of range");
}

#[test]
fn a_shard_that_is_gone_or_no_file_loses_all() {
    let graphs = rings(0..3);
    let dir = filled(&graphs);
    fs::remove_file(only(dir.path(), SHARD)).unwrap();
    assert_eq!(open(dir.path()).verify().unwrap().faults.len(), 1);
    heals(dir.path(), &graphs, 6, "missing");
}

#[cfg(unix)]
#[test]
fn a_shard_that_leads_elsewhere_is_not_followed() {
    let graphs = rings(0..3);
    let dir = filled(&graphs);
    let shard = only(dir.path(), SHARD);
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(&shard, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &shard).unwrap();
    heals(dir.path(), &graphs, 6, "not a regular file");
}

#[test]
fn damage_while_the_cache_is_open_is_found() {
    let graphs = rings(0..3);
    let dir = filled(&graphs);
    let cache = open(dir.path());
    assert_eq!(ask(&cache, &graphs).hits, 6);
    fs::remove_file(only(dir.path(), SHARD)).unwrap();
    let report = ask(&cache, &graphs);
    assert_eq!((report.computed, report.faults.len()), (6, 6));
}

#[test]
fn a_changed_byte_anywhere_in_an_index_costs_the_index() {
    let graphs = rings(0..1);
    let original = filled(&graphs);
    let text = fs::read(only(original.path(), INDEX)).unwrap();
    let name = only(original.path(), INDEX).file_name().unwrap().to_owned();
    for at in 0..text.len() {
        let dir = tempfile::tempdir().unwrap();
        let mut changed = text.clone();
        changed[at] ^= 1;
        let file = dir.path().join(&name);
        fs::write(&file, changed).unwrap();
        // Without its shard: an index that was believed would show as missing shards.
        skips_index(dir.path(), &graphs, &file);
    }
}

#[test]
fn garbage_and_cut_indices_are_skipped_and_told_once() {
    let graphs = rings(0..2);
    let whole = filled(&graphs);
    let text = fs::read(only(whole.path(), INDEX)).unwrap();
    let line = text.iter().position(|&b| b == b'\n').unwrap() + 1;
    let garbage: Vec<u8> = (0..5000u32).map(|i| (i * i % 251) as u8).collect();
    let contents: [&[u8]; 7] = [
        b"",
        b"\n",
        &garbage,
        &text[..line],
        &text[..text.len() / 2],
        &text[..text.len() - 1],
        b"{\"format\":\"candle-graph encoding index\",\"version\":2,\"entries\":0,\"blake3\":\"\"}\n",
    ];
    for content in contents {
        let dir = filled(&graphs);
        let file = only(dir.path(), INDEX);
        fs::write(&file, content).unwrap();
        skips_index(dir.path(), &graphs, &file);
        // The same entries made the same shard, so the index is now whole again.
        let report = ask(&open(dir.path()), &graphs);
        assert_eq!((report.computed, report.faults), (0, vec![]));
    }
}

#[test]
fn an_index_by_another_name_is_foreign() {
    let graphs = rings(0..2);
    for name in ["notes".to_string(), "..".to_string(), "A".repeat(64)] {
        let dir = filled(&graphs);
        let file = dir.path().join(name + INDEX);
        fs::rename(only(dir.path(), INDEX), &file).unwrap();
        let problem = skips_index(dir.path(), &graphs, &file);
        assert!(problem.contains("not named"), "{problem}");
    }
}

#[test]
fn an_index_cannot_name_a_file() {
    let graphs = rings(0..1);
    let dir = filled(&graphs);
    forge(dir.path(), |entries| {
        entries[0]["shard"] = json!("../../secret")
    });
    let problem = skips_index(dir.path(), &graphs, &only(dir.path(), INDEX));
    assert!(problem.contains("shard"), "{problem}");
}

#[test]
fn sizes_that_cannot_be_counted_cost_the_index() {
    let graphs = rings(0..2);
    let shapes = [
        json!([u64::MAX, 2]),
        json!([1u64 << 62, 1]),
        json!([-1, 5]),
        json!([1.5, 5]),
    ];
    for shape in shapes {
        let dir = filled(&graphs);
        forge(dir.path(), |e| e[0]["arrays"][0]["shape"] = shape);
        let problem = skips_index(dir.path(), &graphs, &only(dir.path(), INDEX));
        assert!(problem.contains("line 2"), "{problem}");
    }
}

#[test]
fn forged_places_and_shapes_cost_the_entry() {
    let graphs = rings(0..2);
    let with_start = |start: u64| {
        move |e: &mut Vec<Value>| {
            e[0]["start"] = json!(start);
        }
    };
    for start in [u64::MAX, u64::MAX - 5000, 1 << 62, 1 << 40] {
        let dir = filled(&graphs);
        forge(dir.path(), with_start(start));
        heals(dir.path(), &graphs, 1, "out of range");
    }
    for start in [0, 8, 9] {
        let dir = filled(&graphs);
        forge(dir.path(), with_start(start));
        heals(dir.path(), &graphs, 1, "checksum");
    }
    // A shape that asks for an exabyte, or for less than there is.
    for rows in [1u64 << 56, 1, 0] {
        let dir = filled(&graphs);
        forge(dir.path(), |e| e[0]["arrays"][0]["shape"][0] = json!(rows));
        heals(dir.path(), &graphs, 1, "not what the recipe makes");
    }
}

#[test]
fn sound_values_under_the_wrong_key_are_not_believed() {
    let graphs = rings(0..3);
    let dir = filled(&graphs);
    // Of the six entries at least two have the same layout; exchange everything but the keys.
    forge(dir.path(), |entries| {
        let same = |a: &Value, b: &Value| a["arrays"] == b["arrays"];
        let other = (1..6).find(|&i| same(&entries[0], &entries[i])).unwrap();
        let (a, b) = (entries[0]["key"].clone(), entries[other]["key"].clone());
        entries[0]["key"] = b;
        entries[other]["key"] = a;
    });
    heals(dir.path(), &graphs, 2, "checksum");
}

#[test]
fn half_written_files_are_not_read() {
    let graphs = rings(0..2);
    let dir = filled(&graphs);
    let (shard, index) = (only(dir.path(), SHARD), only(dir.path(), INDEX));
    let half = |path: &Path| {
        let content = fs::read(path).unwrap();
        content[..content.len() / 2].to_vec()
    };
    let torn = tempfile::tempdir().unwrap();
    let name = |path: &Path| torn.path().join(path.file_name().unwrap());
    // Interrupted while writing the shard, then between shard and index, then in the index.
    for (file, content) in [
        (torn.path().join(".encoding-1.tmp"), half(&shard)),
        (name(&shard), half(&shard)),
        (torn.path().join(".encoding-2.tmp"), half(&index)),
    ] {
        fs::File::create(file).unwrap().write_all(&content).unwrap();
        let options = CacheOptions {
            read_only: true,
            ..CacheOptions::default()
        };
        let cache = EncodingCache::open(torn.path(), options).unwrap();
        let report = ask(&cache, &graphs);
        assert_eq!((report.computed, report.faults), (4, vec![]));
        assert_eq!(cache.verify().unwrap().faults, []);
    }
    ask(&open(torn.path()), &graphs);
    assert_eq!(ask(&open(torn.path()), &graphs).hits, 4);
}
