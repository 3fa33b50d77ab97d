//! Cached equals computed, for any graphs.

use proptest::prelude::*;

use super::*;

/// Graphs of 1 to 24 nodes with any directed edges: loops, repeats, several components, none.
fn any_graph() -> impl Strategy<Value = Graph> {
    (1usize..25).prop_flat_map(|n| {
        let node = 0..n as i64;
        proptest::collection::vec([node.clone(), node], 0..60)
            .prop_map(move |edges| Graph::builder(n).edges(edges).build().unwrap())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn cached_equals_on_the_fly(
        graphs in proptest::collection::vec(any_graph(), 1..8),
        steps in 1usize..8,
        shortest_path: bool,
        shard_bytes in 1u64..20_000,
    ) {
        let recipe = EncodingRecipe::Rrwp(Rrwp { steps, shortest_path });
        let plan = EncodingPlan::new(vec![rwse(steps), recipe]).unwrap();
        let expected = bits(&plan.compute_all(&graphs, 0).unwrap());
        let dir = tempfile::tempdir().unwrap();
        let options = CacheOptions { shard_bytes, ..CacheOptions::default() };
        let cache = EncodingCache::open(dir.path(), options).unwrap();
        let (computed, _) = cache.get_or_compute(&plan, &graphs, 0).unwrap();
        prop_assert_eq!(&bits(&computed), &expected);
        let (kept, report) = cache.get_or_compute(&plan, &graphs, 0).unwrap();
        prop_assert_eq!(&bits(&kept), &expected);
        prop_assert_eq!(report.computed, 0);
        drop(cache);
        // The same graphs with their edges in reverse order.
        let turned: Vec<Graph> = graphs
            .iter()
            .map(|g| {
                let order: Vec<u32> = (0..g.num_edges() as u32).rev().collect();
                g.with_edge_order(&order).unwrap()
            })
            .collect();
        let (read, report) = open(dir.path()).get_or_compute(&plan, &turned, 0).unwrap();
        prop_assert_eq!(&bits(&read), &expected);
        prop_assert_eq!(&bits(&plan.compute_all(&turned, 0).unwrap()), &expected);
        prop_assert_eq!(report.computed, 0);
        prop_assert_eq!(report.faults, vec![]);
    }
}
