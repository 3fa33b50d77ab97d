//! What the official loaders make of their data sets, for options without a checkpoint.

use crate::convert::options::Options;
use crate::error::Result;

/// One data set under its official name.
pub(super) struct DataSet {
    /// `dataset.format`.
    format: &'static str,
    /// `dataset.name`.
    name: &'static str,
    /// As the papers call it.
    title: &'static str,
    /// Columns of the node features (`share.dim_in`).
    pub(super) dim_in: usize,
    /// Outputs of the head: a classification into two classes has one.
    pub(super) dim_out: usize,
}

const fn set(
    format: &'static str,
    name: &'static str,
    title: &'static str,
    dim_in: usize,
    dim_out: usize,
) -> DataSet {
    DataSet {
        format,
        name,
        title,
        dim_in,
        dim_out,
    }
}

const BENCHMARK: &str = "PyG-GNNBenchmarkDataset";
const VOC: &str = "PyG-VOCSuperpixels";
const COCO: &str = "PyG-COCOSuperpixels";

/// The data sets of the published configurations and their variants. Images have the position
/// among their node features; `ogbg-code2` is predicted in words, whatever its `dim_out`.
const DATA_SETS: &[DataSet] = &[
    set("PyG-ZINC", "subset", "ZINC", 1, 1),
    set("PyG-ZINC", "full", "ZINC-full", 1, 1),
    set("PyG-AQSOL", "none", "AQSOL", 1, 1),
    set(BENCHMARK, "MNIST", "MNIST", 3, 10),
    set(BENCHMARK, "CIFAR10", "CIFAR10", 5, 10),
    set(BENCHMARK, "PATTERN", "PATTERN", 3, 1),
    set(BENCHMARK, "CLUSTER", "CLUSTER", 7, 6),
    set("PyG-MalNetTiny", "none", "MalNet-Tiny", 1, 5),
    set("PyG-MalNetTiny", "Constant", "MalNet-Tiny", 1, 5),
    set("PyG-MalNetTiny", "LocalDegreeProfile", "MalNet-Tiny", 5, 5),
    set(VOC, "edge_wt_only_coord", "PascalVOC-SP", 14, 21),
    set(VOC, "edge_wt_coord_feat", "PascalVOC-SP", 14, 21),
    set(VOC, "edge_wt_region_boundary", "PascalVOC-SP", 14, 21),
    set(COCO, "edge_wt_only_coord", "COCO-SP", 14, 81),
    set(COCO, "edge_wt_coord_feat", "COCO-SP", 14, 81),
    set(COCO, "edge_wt_region_boundary", "COCO-SP", 14, 81),
    set("PyG-Actor", "none", "Actor", 932, 5),
    set("PyG-WebKB", "cornell", "Cornell", 1703, 5),
    set("PyG-WebKB", "texas", "Texas", 1703, 5),
    set("PyG-WebKB", "wisconsin", "Wisconsin", 1703, 5),
    set("PyG-WikipediaNetwork", "chameleon", "Chameleon", 2325, 5),
    set("PyG-WikipediaNetwork", "squirrel", "Squirrel", 2089, 5),
    set("OGB", "ogbg-molhiv", "ogbg-molhiv", 9, 1),
    set("OGB", "ogbg-molpcba", "ogbg-molpcba", 9, 128),
    set("OGB", "ogbg-ppa", "ogbg-ppa", 1, 37),
    set("OGB", "ogbg-code2", "ogbg-code2", 2, 1),
    set("OGB", "PCQM4Mv2-full", "PCQM4Mv2", 9, 1),
    set("OGB", "PCQM4Mv2-subset", "PCQM4Mv2", 9, 1),
    set("OGB", "PCQM4Mv2-inference", "PCQM4Mv2", 9, 1),
    set("OGB", "PCQM4Mv2Contact-shuffle", "PCQM-Contact", 9, 1),
    set("OGB", "PCQM4Mv2Contact-num-atoms", "PCQM-Contact", 9, 1),
    set("OGB", "peptides-functional", "Peptides-func", 9, 10),
    set("OGB", "peptides-structural", "Peptides-struct", 9, 11),
];

/// The declared facts of the data set that the options name, if it is one of them.
pub(super) fn data_set(options: &Options) -> Result<Option<&'static DataSet>> {
    let format = options.text("dataset.format", "PyG")?;
    let name = options.text("dataset.name", "none")?;
    // The official loader reads both spellings.
    let name = match name.starts_with("ogbg") {
        true => name.replace('_', "-"),
        false => name,
    };
    Ok((DATA_SETS.iter()).find(|set| set.format == format && set.name == name))
}

/// The data set as the papers call it, or the name in the options.
pub(in crate::convert) fn dataset_title(options: &Options) -> Result<Option<String>> {
    if let Some(set) = data_set(options)? {
        return Ok(Some(set.title.to_string()));
    }
    let name = options.text("dataset.name", "")?;
    // GraphGym's default is the name "none".
    Ok(Some(name).filter(|name| !name.is_empty() && name != "none"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn every_data_set_stands_once() {
        let names: HashSet<_> = DATA_SETS.iter().map(|set| (set.format, set.name)).collect();
        assert_eq!(names.len(), DATA_SETS.len());
    }

    #[test]
    fn both_spellings_of_an_ogb_name_are_read() {
        for name in ["ogbg-molhiv", "ogbg_molhiv"] {
            let options = json!({"dataset": {"format": "OGB", "name": name}});
            let options = Options::from_value(options, "test");
            assert_eq!(data_set(&options).unwrap().unwrap().title, "ogbg-molhiv");
        }
    }
}
