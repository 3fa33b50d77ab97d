//! The vocabulary that the official code makes of the 21 functions.

use candle_graph::datasets::python::{PythonFunction, Vocabulary};
use serde_json::Value;

use crate::official::{fixture, names};

#[test]
fn vocabularies_are_counted_as_by_the_official_code() {
    let functions: Vec<PythonFunction> = names()
        .iter()
        .map(|name| PythonFunction::parse(fixture(name)["source"].as_str().unwrap()).unwrap())
        .collect();
    let graphs = functions.iter().map(PythonFunction::graph);
    let ours = serde_json::to_value(Vocabulary::of_graphs(graphs.clone(), 11_972)).unwrap();
    let official = &fixture("index")["vocabulary_of_this_corpus"];
    for (list, official) in [
        ("node_types", &official["node_type_to_idx"]),
        ("attributes", &official["node_value_to_idx"]),
        ("edge_names", &official["edge_name_to_idx"]),
    ] {
        let numbers = official.as_object().unwrap();
        let names = ours[list].as_array().unwrap();
        assert_eq!(names.len(), numbers.len(), "{list}");
        for (number, name) in names.iter().enumerate() {
            assert_eq!(numbers[name.as_str().unwrap()], number, "{list}: {name}");
        }
    }
    let few = serde_json::to_value(Vocabulary::of_graphs(graphs, 5)).unwrap();
    let first: Vec<Value> = ours["attributes"].as_array().unwrap()[..5].to_vec();
    assert_eq!(few["attributes"], Value::Array(first));
    assert_eq!(few["node_types"], ours["node_types"]);
}

/// Every function of a file by itself gives the graph of its own source.
#[test]
fn functions_of_a_file_are_read_one_by_one() {
    let file = "import os\n\nclass A(B):\n    x = 1\n\n    @property\n    def first(self):\n        def inner(): pass\n        return inner\n\n    async def second(self, y): return y\n\nif os:\n    def third(z): return third(z)\nelif B:\n    pass\nelse:\n    for i in x:\n        def fourth(): yield i\n\ndef fifth(): pass\n";
    let functions = PythonFunction::parse_all(file).unwrap();
    let found: Vec<_> = functions.iter().map(|f| (f.name(), f.line())).collect();
    let expected = [
        ("first", 7),
        ("second", 11),
        ("third", 14),
        ("fourth", 19),
        ("fifth", 21),
    ];
    assert_eq!(found, expected);
    for (function, alone) in functions.iter().zip([
        "@property\ndef first(self):\n    def inner(): pass\n    return inner\n",
        "async def second(self, y): return y\n",
        "def third(z): return third(z)\n",
        "def fourth(): yield i\n",
        "def fifth(): pass\n",
    ]) {
        let alone = PythonFunction::parse(alone).unwrap();
        assert_eq!(function.graph(), alone.graph(), "{}", function.name());
    }
}
