//! The cache that callers use.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use super::directory::{Catalogue, Listing, Location, strike};
use super::index::ShardName;
use super::key::{EntryKey, structure};
use super::record::{Record, Stored, decode, layout, total_bytes};
use super::report::{CacheFault, CacheReport, CacheStats, VerifyReport};
use super::shard::{self, Damage, Reader};
use super::verify::verify;
use crate::encodings::spectra::Spectra;
use crate::encodings::{EncodingArray, EncodingPlan, EncodingRecipe, GraphEncoding};
use crate::error::{Error, Result};
use crate::graph::Graph;

/// Entries of one shard that one task reads with one open file.
const READ_TOGETHER: usize = 64;

/// What happens when computed entries cannot be stored (folder not writable, disk full).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnWriteError {
    /// The encodings are returned all the same and [`CacheReport::write_error`] tells why they were
    /// not stored. Nothing more is stored through this [`EncodingCache`] then.
    #[default]
    Report,
    /// The call fails.
    Fail,
}

/// How a cache is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes of entries that are gathered in memory before they are written as a shard. While a
    /// shard is written, twice as many are held, and up to as many again that other threads gather
    /// meanwhile. Default 32 MiB.
    pub shard_bytes: u64,
    /// Never write: the folder must exist, computed entries are not stored. Default false.
    pub read_only: bool,
    /// What happens when entries cannot be stored.
    pub on_write_error: OnWriteError,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            shard_bytes: 32 << 20,
            read_only: false,
            on_write_error: OnWriteError::default(),
        }
    }
}

/// Precomputed encodings in a folder.
///
/// Every entry is one recipe's arrays for one graph, found by its
/// [`EntryKey`]: a hash of the graph's structure, the recipe and the version of its algorithm. Two
/// models that share a recipe share its entries.
///
/// | file | content |
/// |---|---|
/// | `<hash>.safetensors` | a *shard*: tensors `<key>/<array>`, f32 `[rows, width]`; named by the blake3 hash of the file as written |
/// | `<hash>.index.jsonl` | its *index*: a header line with the hash of what follows, then one line an entry with key, place, shapes and checksum |
/// | `.encoding-….tmp` | a file being written, or what is left of one |
///
/// Files are written under a temporary name, synchronised and renamed, the shard before its index,
/// and no process ever adds to a file: a torn write leaves nothing that an index speaks of, and
/// any number of processes may fill one folder at once. Both may then store the same entry, which
/// costs space and nothing else.
///
/// Nothing read is trusted. An index must match its own hash, and its name alone says which shard
/// it describes; an entry must have the shapes that the graph and the recipe imply, lie inside its
/// shard, and match its checksum, which covers key, names, shapes and values. What fails is
/// computed again, reported, struck from the index and stored anew. This finds damage of any kind;
/// it cannot find values that somebody has replaced together with their checksum and index, so a
/// folder that strangers can write to is as trustworthy as they are.
///
/// All methods take `&self`; threads may share one cache, and processes one folder. Encodings from
/// the cache are bit-equal to computed ones. Entries gathered but not yet written are written when
/// the cache is dropped; call [`flush`](Self::flush) to learn whether that worked.
#[derive(Debug)]
pub struct EncodingCache {
    dir: PathBuf,
    options: CacheOptions,
    state: Mutex<State>,
    /// Held while entries that left [`State::pending`] are not yet in the catalogue.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    catalogue: Catalogue,
    pending: BTreeMap<EntryKey, Record>,
    pending_bytes: u64,
    /// Faults that no report has told yet.
    faults: Vec<CacheFault>,
    /// Why storing was given up.
    given_up: Option<String>,
}

/// One recipe of one graph of a call.
struct Slot<'a> {
    key: EntryKey,
    recipe: &'a EncodingRecipe,
    graph: &'a Graph,
}

/// A slot that a shard holds.
struct Stock {
    slot: usize,
    shard: ShardName,
    location: Location,
}

enum Lookup {
    Pending(Vec<EncodingArray>),
    OnDisk(ShardName, Location),
    Missing,
}

impl EncodingCache {
    /// Opens the cache in `dir`, and makes the folder if it does not exist. Index files that cannot
    /// be used are left alone and told by the first [`CacheReport`]. Files that an interrupted
    /// process left a day ago or earlier are removed.
    ///
    /// # Errors
    /// The folder cannot be made or listed.
    pub fn open(dir: impl Into<PathBuf>, options: CacheOptions) -> Result<Self> {
        let dir = dir.into();
        if !options.read_only {
            std::fs::create_dir_all(&dir).map_err(|e| Error::io(&dir, e))?;
        }
        let listing = Listing::new(&dir)?;
        if !options.read_only {
            listing.remove_stale(&dir);
        }
        let mut state = State::default();
        state.faults = state.catalogue.read(&dir, &listing);
        Ok(Self {
            dir,
            options,
            state: Mutex::new(state),
            writing: Mutex::new(()),
        })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The encodings of `graphs` after `plan`, in input order, as
    /// [`EncodingPlan::compute_all`] gives them: read where the cache has them, computed on all
    /// cores and stored where it has not. `first` is the position of `graphs[0]` in the whole input.
    ///
    /// # Errors
    /// As [`EncodingPlan::compute_all`]; and, under [`OnWriteError::Fail`], computed entries
    /// cannot be stored.
    pub fn get_or_compute<G: AsRef<Graph> + Sync>(
        &self,
        plan: &EncodingPlan,
        graphs: &[G],
        first: usize,
    ) -> Result<(Vec<GraphEncoding>, CacheReport)> {
        for (at, graph) in graphs.iter().enumerate() {
            plan.check_bytes(graph.as_ref(), first.saturating_add(at))?;
        }
        let slots = slots(plan, graphs)?;
        let mut found: Vec<Option<Vec<EncodingArray>>> = Vec::new();
        found.resize_with(slots.len(), || None);
        let mut report = CacheReport::default();

        let stock = self.look_up(&slots, &mut found);
        let damaged = self.read(&slots, stock, &mut found);
        self.forget(&slots, damaged, &mut report);
        report.hits = found.iter().flatten().count();

        let missing: Vec<usize> = (0..slots.len()).filter(|&s| found[s].is_none()).collect();
        report.computed = missing.len();
        let position = |s: usize| s.checked_div(plan.recipes().len()).unwrap_or(0);
        // The recipes of one graph share its spectra.
        let by_graph: Vec<&[usize]> = missing
            .chunk_by(|&a, &b| position(a) == position(b))
            .collect();
        let computed: Vec<Vec<Vec<EncodingArray>>> = by_graph
            .par_iter()
            .map(|of_graph| {
                let at = of_graph.first().map_or(0, |&s| position(s));
                let of_graph: Vec<&Slot<'_>> = of_graph.iter().map(|&s| &slots[s]).collect();
                compute(&of_graph, first.saturating_add(at))
            })
            .collect::<Result<_>>()?;
        let computed: Vec<Vec<EncodingArray>> = computed.into_iter().flatten().collect();
        if let Err(error) = self.keep(missing.iter().map(|&s| &slots[s]).zip(&computed)) {
            match self.options.on_write_error {
                OnWriteError::Report => report.write_error = Some(error.to_string()),
                OnWriteError::Fail => return Err(error),
            }
        }
        for (slot, arrays) in missing.into_iter().zip(computed) {
            found[slot] = Some(arrays);
        }
        report.faults.append(&mut self.state().faults);
        Ok((assemble(plan, graphs.len(), found), report))
    }

    /// Writes what was gathered. After success, all that was computed through this cache before the
    /// call is on disk.
    ///
    /// # Errors
    /// The folder cannot be written, now or at an earlier attempt.
    pub fn flush(&self) -> Result<()> {
        self.write_pending(false)?;
        match &self.state().given_up {
            Some(reason) => Err(Error::io(&self.dir, std::io::Error::other(reason.clone()))),
            None => Ok(()),
        }
    }

    /// How much the cache holds, as far as this process knows.
    pub fn stats(&self) -> CacheStats {
        let state = self.state();
        let (entries, bytes, shards) = state.catalogue.totals();
        CacheStats {
            entries,
            bytes,
            shards,
            pending_entries: state.pending.len(),
            pending_bytes: state.pending_bytes,
        }
    }

    /// Reads and checks everything in the folder; changes nothing. Entries that are not yet
    /// written do not take part.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn verify(&self) -> Result<VerifyReport> {
        verify(&self.dir)
    }

    /// The state. It is whole after every statement, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills in what waits to be written and returns what is on disk.
    fn look_up(&self, slots: &[Slot<'_>], found: &mut [Option<Vec<EncodingArray>>]) -> Vec<Stock> {
        let mut state = self.state();
        let mut stock = Vec::new();
        let mut missing: Vec<usize> = (0..slots.len()).collect();
        for refreshed in [false, true] {
            if refreshed && !missing.is_empty() {
                let faults = state.catalogue.refresh(&self.dir);
                state.faults.extend(faults);
            }
            missing.retain(|&slot| match state.look_up(&slots[slot]) {
                Lookup::Pending(arrays) => {
                    found[slot] = Some(arrays);
                    false
                }
                Lookup::OnDisk(shard, location) => {
                    stock.push(Stock {
                        slot,
                        shard,
                        location,
                    });
                    false
                }
                Lookup::Missing => true,
            });
        }
        stock
    }

    /// Reads from the shards; returns what is damaged.
    fn read(
        &self,
        slots: &[Slot<'_>],
        mut stock: Vec<Stock>,
        found: &mut [Option<Vec<EncodingArray>>],
    ) -> Vec<(Stock, Damage)> {
        stock.sort_unstable_by_key(|s| (s.location.shard, s.location.start));
        let parts: Vec<&[Stock]> = stock
            .chunk_by(|a, b| a.location.shard == b.location.shard)
            .flat_map(|same| same.chunks(READ_TOGETHER))
            .collect();
        let read: Vec<Result<Vec<EncodingArray>, Damage>> = parts
            .par_iter()
            .flat_map_iter(|part| read_part(&self.dir, slots, part))
            .collect();
        let mut damaged = Vec::new();
        for (stock, result) in stock.into_iter().zip(read) {
            match result {
                Ok(arrays) => found[stock.slot] = Some(arrays),
                Err(damage) => damaged.push((stock, damage)),
            }
        }
        damaged
    }

    /// Reports damaged entries and takes them out of the indices, in memory and on disk.
    fn forget(&self, slots: &[Slot<'_>], damaged: Vec<(Stock, Damage)>, report: &mut CacheReport) {
        let mut lost: HashMap<ShardName, HashSet<EntryKey>> = HashMap::new();
        for (stock, damage) in damaged {
            let key = slots[stock.slot].key;
            self.state().catalogue.forget(&key, &stock.location);
            report.faults.push(CacheFault {
                file: stock.shard.shard(&self.dir),
                key: Some(key),
                problem: damage.message().to_string(),
            });
            if matches!(damage, Damage::Lost(_)) {
                lost.entry(stock.shard).or_default().insert(key);
            }
        }
        if self.options.read_only {
            return;
        }
        for (shard, keys) in lost {
            // Failing costs only that the next process finds the entry damaged again. Writing what
            // replaces it meets the same trouble and tells.
            strike(&self.dir, &shard, &keys).ok();
        }
    }

    /// Gathers computed entries and writes shards as they fill.
    fn keep<'a, 'b: 'a>(
        &self,
        computed: impl Iterator<Item = (&'a Slot<'b>, &'a Vec<EncodingArray>)>,
    ) -> Result<()> {
        if self.options.read_only {
            return Ok(());
        }
        for (slot, arrays) in computed {
            let mut state = self.state();
            if state.given_up.is_some() {
                return Ok(());
            }
            if state.catalogue.contains(&slot.key) || state.pending.contains_key(&slot.key) {
                continue;
            }
            drop(state);
            let record = Record::new(&slot.key, slot.recipe, slot.graph, arrays);
            state = self.state();
            let bytes = record.bytes.len() as u64;
            if state.pending.insert(slot.key, record).is_none() {
                state.pending_bytes += bytes;
            }
            if self.is_full(&state) {
                drop(state);
                self.write_pending(true)?;
            }
        }
        Ok(())
    }

    fn is_full(&self, state: &State) -> bool {
        state.pending_bytes >= self.options.shard_bytes || state.pending.len() >= shard::MAX_ENTRIES
    }

    /// Writes what was gathered as a shard; with `only_full`, unless another thread just did.
    fn write_pending(&self, only_full: bool) -> Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        if state.pending.is_empty() || (only_full && !self.is_full(&state)) {
            return Ok(());
        }
        let records = std::mem::take(&mut state.pending);
        state.pending_bytes = 0;
        drop(state);
        let written = shard::write(&self.dir, &records);
        let mut state = self.state();
        match written {
            Ok((shard, entries)) => {
                state.catalogue.add(shard, entries);
                Ok(())
            }
            Err(error) => {
                state.given_up = Some(match &error {
                    Error::Io { source, .. } => source.to_string(),
                    other => other.to_string(),
                });
                Err(error)
            }
        }
    }
}

impl Drop for EncodingCache {
    fn drop(&mut self) {
        // Nobody is left to be told; the entries can be computed again.
        self.flush().ok();
    }
}

impl State {
    fn look_up(&self, slot: &Slot<'_>) -> Lookup {
        if let Some(record) = self.pending.get(&slot.key) {
            return Lookup::Pending(decode(slot.recipe, slot.graph, &record.bytes));
        }
        let place = self.catalogue.get(&slot.key);
        place
            .and_then(|at| Some(Lookup::OnDisk(self.catalogue.shard(&at)?, at)))
            .unwrap_or(Lookup::Missing)
    }
}

/// The arrays of `slots`, all of one graph, whose position is given.
fn compute(slots: &[&Slot<'_>], position: usize) -> Result<Vec<Vec<EncodingArray>>> {
    let Some(any) = slots.first() else {
        return Ok(Vec::new());
    };
    let spectra = Spectra::new(any.graph, slots.iter().map(|slot| slot.recipe));
    let computed = slots.iter().map(|slot| {
        let Slot { recipe, graph, .. } = slot;
        recipe.compute(graph, &spectra, position)
    });
    computed.collect()
}

/// Graph by graph the recipes of the plan.
fn slots<'a, G: AsRef<Graph> + Sync>(
    plan: &'a EncodingPlan,
    graphs: &'a [G],
) -> Result<Vec<Slot<'a>>> {
    let of_graphs: Vec<Vec<Slot<'a>>> = graphs
        .par_iter()
        .map(|graph| {
            let graph = graph.as_ref();
            let structure = structure(graph);
            let slot = |recipe| {
                let key = EntryKey::of(recipe, graph, &structure)?;
                Ok(Slot { key, recipe, graph })
            };
            plan.recipes().iter().map(slot).collect()
        })
        .collect::<Result<_>>()?;
    Ok(of_graphs.into_iter().flatten().collect())
}

/// Reads entries of one shard in the order of their places.
fn read_part(
    dir: &Path,
    slots: &[Slot<'_>],
    part: &[Stock],
) -> Vec<Result<Vec<EncodingArray>, Damage>> {
    let mut reader = part
        .first()
        .map(|first| Reader::open(&first.shard.shard(dir)));
    part.iter()
        .map(|stock| {
            let slot = &slots[stock.slot];
            let arrays = layout(slot.recipe, slot.graph);
            match &mut reader {
                Some(Ok(reader)) => read_one(reader, slot, &arrays, &stock.location),
                Some(Err(Damage::Unreadable(m))) => Err(Damage::Unreadable(m.clone())),
                Some(Err(Damage::Lost(m))) => Err(Damage::Lost(m.clone())),
                None => Ok(Vec::new()),
            }
        })
        .collect()
}

fn read_one(
    reader: &mut Reader,
    slot: &Slot<'_>,
    arrays: &[Stored],
    at: &Location,
) -> Result<Vec<EncodingArray>, Damage> {
    // Before anything is allocated: what the plan allows for this graph bounds the reading.
    if total_bytes(arrays) != Some(at.bytes) {
        return Err(Damage::Lost(format!(
            "it has {} bytes, not what the recipe makes for a graph of {} nodes",
            at.bytes,
            slot.graph.num_nodes()
        )));
    }
    let bytes = reader.read(&slot.key, arrays, (at.start, at.bytes), &at.checksum)?;
    Ok(decode(slot.recipe, slot.graph, &bytes))
}

/// Joins the slots of every graph.
fn assemble(
    plan: &EncodingPlan,
    graphs: usize,
    found: Vec<Option<Vec<EncodingArray>>>,
) -> Vec<GraphEncoding> {
    let mut found = found.into_iter();
    (0..graphs)
        .map(|_| GraphEncoding {
            arrays: found
                .by_ref()
                .take(plan.recipes().len())
                .flatten()
                .flatten()
                .collect(),
        })
        .collect()
}
