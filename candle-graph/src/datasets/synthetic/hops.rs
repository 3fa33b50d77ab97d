//! Distances in hops.

/// The number of hops from `source` to every node along the edges to the `neighbours` of each node,
/// none where no path leads.
pub(super) fn hops(neighbours: &[Vec<u32>], source: usize) -> Vec<Option<usize>> {
    let mut hops = vec![None; neighbours.len()];
    hops[source] = Some(0);
    let (mut reached, mut distance) = (vec![source], 0);
    while !reached.is_empty() {
        distance += 1;
        let mut next = Vec::new();
        for u in reached {
            for v in neighbours[u].iter().map(|&v| v as usize) {
                if hops[v].is_none() {
                    hops[v] = Some(distance);
                    next.push(v);
                }
            }
        }
        reached = next;
    }
    hops
}
