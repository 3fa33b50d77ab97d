//! What is found, and what is not.

use super::*;
use crate::encodings::EntryKey;
use crate::graph::Features;

#[test]
fn entries_read_after_reopening_are_bit_equal() {
    let graphs = rings(0..150);
    let dir = filled(&graphs);
    let report = ask(&open(dir.path()), &graphs);
    assert_eq!((report.hits, report.computed), (300, 0));
    assert_eq!(report.faults, []);
}

#[test]
fn a_first_run_computes_and_a_second_finds_what_is_not_yet_written() {
    let (graphs, dir) = (rings(0..3), tempfile::tempdir().unwrap());
    let cache = open(dir.path());
    assert_eq!(ask(&cache, &graphs).computed, 6);
    assert_eq!(ask(&cache, &graphs).hits, 6);
    assert_eq!(
        files(dir.path(), "").len(),
        0,
        "nothing is due to be written"
    );
    assert_eq!(cache.stats().pending_entries, 6);
}

#[test]
fn dropping_the_cache_writes_what_was_gathered() {
    let (graphs, dir) = (rings(0..3), tempfile::tempdir().unwrap());
    ask(&open(dir.path()), &graphs);
    assert_eq!(ask(&open(dir.path()), &graphs).hits, 6);
}

#[test]
fn plans_share_the_entries_of_common_recipes() {
    let graphs = rings(0..4);
    let dir = filled(&graphs);
    let other = EncodingPlan::new(vec![rwse(7), rrwp(6)]).unwrap();
    let (encodings, report) = open(dir.path()).get_or_compute(&other, &graphs, 0).unwrap();
    assert_eq!((report.hits, report.computed), (4, 4));
    assert_eq!(
        bits(&encodings),
        bits(&other.compute_all(&graphs, 0).unwrap())
    );
}

#[test]
fn entries_of_another_cache_on_the_folder_are_found_without_reopening() {
    let (graphs, dir) = (rings(0..3), tempfile::tempdir().unwrap());
    let reader = open(dir.path());
    assert_eq!(ask(&reader, &graphs[..1]).computed, 2);
    let writer = open(dir.path());
    ask(&writer, &graphs[1..]);
    writer.flush().unwrap();
    assert_eq!(ask(&reader, &graphs[1..]).hits, 4);
}

#[test]
fn the_key_tells_apart_what_changes_the_values_and_nothing_else() {
    let edges = [[0i64, 1], [1, 2], [2, 0], [2, 3]];
    let graph = |n: usize, edges: &[[i64; 2]]| {
        let edges = edges.iter().copied();
        Graph::builder(n).edges(edges).build().unwrap()
    };
    let base = graph(4, &edges);
    let key = |recipe: &EncodingRecipe, graph: &Graph| EntryKey::new(recipe, graph).unwrap();
    let same = [
        base.with_edge_order(&[3, 1, 0, 2]).unwrap(),
        Graph::builder(4)
            .edges(edges)
            .node_features(Features::categorical(1, vec![1, 2, 3, 4]))
            .id("named")
            .build()
            .unwrap(),
    ];
    for graph in &same {
        assert_eq!(key(&rrwp(5), graph), key(&rrwp(5), &base));
    }
    let spd = EncodingRecipe::Rrwp(Rrwp {
        steps: 5,
        shortest_path: true,
    });
    let keys = [
        key(&rrwp(5), &base),
        key(&rrwp(6), &base),
        key(&spd, &base),
        key(&rwse(5), &base),
        key(&lap_pe(5, LaplacianNorm::None, EigvecNorm::L2), &base),
        key(&lap_pe(6, LaplacianNorm::None, EigvecNorm::L2), &base),
        key(&lap_pe(5, LaplacianNorm::Sym, EigvecNorm::L2), &base),
        key(&lap_pe(5, LaplacianNorm::None, EigvecNorm::L1), &base),
        key(&sign_net(5, LaplacianNorm::None), &base),
        key(&EncodingRecipe::Rwse(Rwse { times: vec![5] }), &base),
        key(&heat_kernel(5), &base),
        key(&heat_kernel(6), &base),
        key(&ELECTROSTATIC, &base),
        key(&graphormer(5, true), &base),
        key(&graphormer(6, true), &base),
        key(&graphormer(5, false), &base),
        key(&rrwp(5), &graph(5, &edges)),
        key(&rrwp(5), &graph(4, &edges[..3])),
        // An edge more often, turned round, and other nodes.
        key(
            &rrwp(5),
            &graph(4, &[[0, 1], [1, 2], [2, 0], [2, 3], [2, 3]]),
        ),
        key(&rrwp(5), &graph(4, &[[0, 1], [1, 2], [2, 0], [3, 2]])),
        key(&rrwp(5), &base.renumbered(&[1, 2, 0, 3]).unwrap()),
        key(&rrwp(5), &base.renumbered(&[3, 1, 2, 0]).unwrap()),
    ];
    // Which of several shortest paths counts depends on the order of the edges.
    let turned = base.with_edge_order(&[3, 1, 0, 2]).unwrap();
    assert_ne!(
        key(&graphormer(5, true), &turned),
        key(&graphormer(5, true), &base)
    );
    assert_eq!(
        key(&graphormer(5, false), &turned),
        key(&graphormer(5, false), &base)
    );
    let distinct: std::collections::HashSet<_> = keys.iter().collect();
    // The cycle 0 -> 1 -> 2 with its tail has no symmetry but the identity.
    assert_eq!(distinct.len(), keys.len());
}

#[test]
fn coordinates_that_a_graph_carries_tell_apart_where_they_are_kept() {
    let graph = |t: Option<Features>| {
        let builder = Graph::builder(2).edges([[0, 1]]).rotational_features(t);
        builder.build().unwrap()
    };
    let graphs = [
        graph(None),
        graph(Some(Features::float(2, vec![0.0, 1.0, 2.0, 3.0]))),
        graph(Some(Features::float(2, vec![0.0, 1.0, 2.0, 3.5]))),
        graph(Some(Features::float(1, vec![0.0, 1.0]))),
    ];
    let keys = |recipe: &EncodingRecipe| -> std::collections::HashSet<EntryKey> {
        let keys = graphs.iter().map(|g| EntryKey::new(recipe, g).unwrap());
        keys.collect()
    };
    let rotational = [
        Rotational::Given { dim: 2 },
        Rotational::RandomWalk(Rwse { times: vec![1, 2] }),
    ]
    .map(EncodingRecipe::Rotational);
    for recipe in &rotational {
        assert_eq!(keys(recipe).len(), graphs.len());
    }
    let recipes = [
        rrwp(5),
        rwse(5),
        lap_pe(5, LaplacianNorm::None, EigvecNorm::L2),
        sign_net(5, LaplacianNorm::None),
        heat_kernel(5),
        ELECTROSTATIC,
        graphormer(5, true),
    ];
    for recipe in &recipes {
        assert_eq!(keys(recipe).len(), 1, "{recipe:?}");
    }
    // Keys that other versions have written stay valid.
    assert_eq!(
        EntryKey::new(&rwse(5), &graphs[1]).unwrap().to_string(),
        "b3b0ce86c74fc86b91979afd00c5857b9c3f9032b877a60ce65d72ce02a3c5de"
    );

    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path());
    let [given, walks] = rotational.map(|recipe| EncodingPlan::new(vec![recipe]).unwrap());
    let with = [&graphs[1..3], &graphs[..3]];
    for (plan, graphs) in [given, walks].iter().zip(with) {
        let expected = bits(&plan.compute_all(graphs, 0).unwrap());
        for hits in [0, graphs.len()] {
            let (found, report) = cache.get_or_compute(plan, graphs, 0).unwrap();
            assert_eq!((report.hits, bits(&found) == expected), (hits, true));
        }
    }
}

#[test]
fn values_of_a_version_never_change() {
    // A failure says that the values of a recipe have changed: raise the VERSION of that recipe,
    // so that old entries are not used, and put the new version and digest here.
    let graph = Graph::builder(19)
        .edges((0..60i64).map(|i| [(i * 7 + i / 5) % 18, (i * i + 3 * i) % 18]))
        .build()
        .unwrap();
    let digest = |recipe: EncodingRecipe| {
        let plan = EncodingPlan::new(vec![recipe.clone()]).unwrap();
        let mut hasher = blake3::Hasher::new();
        for array in plan.compute(&graph, 0).unwrap().arrays {
            hasher.update(array.name.as_bytes());
            for value in array.data {
                hasher.update(&value.to_le_bytes());
            }
        }
        (
            recipe.version(),
            hasher.finalize().to_hex()[..16].to_string(),
        )
    };
    assert_eq!(digest(rrwp(9)), (1, "b38c9add74217612".to_string()));
    assert_eq!(digest(rwse(9)), (1, "1202256a83723914".to_string()));
    assert_eq!(
        digest(graphormer(3, true)),
        (1, "dbeee3d7aceca9ff".to_string())
    );
}

#[test]
fn the_spectrum_of_a_version_never_changes() {
    // As above, but an eigensolver's last bits depend on the processor: values count in thousandths.
    // The graph has no symmetry, so that nothing but rounding is free.
    let graph = Graph::builder(9)
        .edges([
            [0, 1],
            [1, 2],
            [2, 3],
            [3, 4],
            [4, 5],
            [5, 0],
            [0, 2],
            [5, 6],
            [6, 7],
            [1, 8],
        ])
        .build()
        .unwrap();
    let thousandths = |recipe: EncodingRecipe| {
        let version = recipe.version();
        let plan = EncodingPlan::new(vec![recipe]).unwrap();
        let arrays = plan.compute(&graph, 0).unwrap().arrays;
        // Node 1.
        let rows = arrays
            .iter()
            .flat_map(|a| a.data[a.width..2 * a.width].to_vec());
        let rounded: Vec<i32> = rows.map(|v| (v * 1e3).round() as i32).collect();
        (version, rounded)
    };
    assert_eq!(
        thousandths(lap_pe(4, LaplacianNorm::None, EigvecNorm::L2)),
        (
            2,
            vec![
                333, -290, 204, 286, 0, 311, 677, 1586, 1000, 1000, 1000, 1000
            ]
        )
    );
    assert_eq!(
        thousandths(lap_pe(4, LaplacianNorm::Rw, EigvecNorm::WavelengthSoft)),
        (
            2,
            vec![
                1000, -2048, 1461, 131, 0, 196, 412, 797, 1000, 1000, 1000, 1000
            ]
        )
    );
    assert_eq!(
        thousandths(sign_net(4, LaplacianNorm::None)),
        (2, vec![333, -290, 204, 286])
    );
    assert_eq!(thousandths(heat_kernel(4)), (1, vec![112, 60, 39, 27]));
    assert_eq!(
        thousandths(ELECTROSTATIC),
        (
            1,
            vec![-1063, 0, -551, 360, -2222, 0, -774, 673, -370, -466]
        )
    );
}

#[test]
fn spectral_and_path_encodings_come_back_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let plan = EncodingPlan::new(vec![
        lap_pe(24, LaplacianNorm::Sym, EigvecNorm::Wavelength),
        sign_net(5, LaplacianNorm::None),
        heat_kernel(3),
        ELECTROSTATIC,
        graphormer(4, true),
    ]);
    let plan = plan.unwrap();
    let graphs = rings(0..3);
    let expected = bits(&plan.compute_all(&graphs, 0).unwrap());
    for hits in [0, 15] {
        let cache = open(dir.path());
        let (encodings, report) = cache.get_or_compute(&plan, &graphs, 0).unwrap();
        assert_eq!((report.hits, report.faults.len()), (hits, 0));
        assert_eq!(bits(&encodings), expected);
        cache.flush().unwrap();
    }
}

#[test]
fn a_graph_over_the_limit_fails_as_without_cache() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path());
    let large = [Graph::builder(100_000).build().unwrap()];
    let expected = plan().compute_all(&large, 7).unwrap_err().to_string();
    let error = cache.get_or_compute(&plan(), &large, 7).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn an_empty_plan_and_no_graphs_need_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path());
    let (encodings, report) = cache
        .get_or_compute(&EncodingPlan::default(), &rings(0..2), 0)
        .unwrap();
    assert_eq!(
        encodings,
        [GraphEncoding::default(), GraphEncoding::default()]
    );
    assert_eq!(report, CacheReport::default());
    assert_eq!(ask(&cache, &[]), CacheReport::default());
    cache.flush().unwrap();
    assert_eq!(files(dir.path(), "").len(), 0);
}
