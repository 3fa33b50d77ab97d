//! Isomorphism of directed graphs with coloured nodes and edges: colour refinement, then search.

use std::collections::HashMap;

/// A graph whose nodes and edges have colours; parallel edges and self loops are legal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Coloured {
    pub(crate) nodes: Vec<String>,
    /// `(sender, receiver, colour)`.
    pub(crate) edges: Vec<(usize, usize, String)>,
}

/// Whether some renumbering of the nodes of `a` gives `b`, colours included.
pub(crate) fn isomorphic(a: &Coloured, b: &Coloured) -> bool {
    if a.nodes.len() != b.nodes.len() || a.edges.len() != b.edges.len() {
        return false;
    }
    let mut names = HashMap::new();
    let mut number = |text: &str| {
        let next = names.len();
        *names.entry(text.to_string()).or_insert(next)
    };
    let numbered = [a, b].map(|graph| Numbered {
        colours: graph.nodes.iter().map(|colour| number(colour)).collect(),
        edges: graph
            .edges
            .iter()
            .map(|(s, r, colour)| (*s, *r, number(colour)))
            .collect(),
    });
    search(&numbered[0], &numbered[1])
}

#[derive(Clone)]
struct Numbered {
    colours: Vec<usize>,
    edges: Vec<(usize, usize, usize)>,
}

/// Refines both graphs with one numbering of colours; `false` when they can be told apart.
fn refine(a: &mut Numbered, b: &mut Numbered) -> bool {
    loop {
        let mut seen = HashMap::new();
        let classes = a
            .colours
            .iter()
            .collect::<std::collections::HashSet<_>>()
            .len();
        let mut refined = |graph: &Numbered| -> Vec<usize> {
            let mut around = vec![Vec::new(); graph.colours.len()];
            for &(s, r, colour) in &graph.edges {
                around[s].push((0, colour, graph.colours[r]));
                around[r].push((1, colour, graph.colours[s]));
            }
            let signature = |(node, mut around): (usize, Vec<_>)| {
                around.sort_unstable();
                let next = seen.len();
                *seen.entry((graph.colours[node], around)).or_insert(next)
            };
            around.into_iter().enumerate().map(signature).collect()
        };
        (a.colours, b.colours) = (refined(a), refined(b));
        let sorted = |graph: &Numbered| {
            let mut colours = graph.colours.clone();
            colours.sort_unstable();
            colours
        };
        if sorted(a) != sorted(b) {
            return false;
        }
        if seen.len() == classes {
            return true;
        }
    }
}

fn search(a: &Numbered, b: &Numbered) -> bool {
    let (mut a, mut b) = (a.clone(), b.clone());
    if !refine(&mut a, &mut b) {
        return false;
    }
    let mut of_colour: HashMap<usize, Vec<usize>> = HashMap::new();
    for (node, &colour) in b.colours.iter().enumerate() {
        of_colour.entry(colour).or_default().push(node);
    }
    let several = (0..a.colours.len()).find(|&node| of_colour[&a.colours[node]].len() > 1);
    let Some(node) = several else {
        // Every colour is one node: the renumbering is known, and every edge is compared with it.
        let to = |node: usize| of_colour[&a.colours[node]][0];
        let mut edges: Vec<_> = a.edges.iter().map(|&(s, r, c)| (to(s), to(r), c)).collect();
        let mut expected = b.edges.clone();
        edges.sort_unstable();
        expected.sort_unstable();
        return edges == expected;
    };
    let fresh = a.colours.len() + of_colour.len();
    let candidates = &of_colour[&a.colours[node]];
    candidates.iter().any(|&candidate| {
        let (mut a, mut b) = (a.clone(), b.clone());
        a.colours[node] = fresh;
        b.colours[candidate] = fresh;
        search(&a, &b)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: &[&str], edges: &[(usize, usize)]) -> Coloured {
        Coloured {
            nodes: nodes.iter().map(|n| n.to_string()).collect(),
            edges: edges
                .iter()
                .map(|&(s, r)| (s, r, "e".to_string()))
                .collect(),
        }
    }

    #[test]
    fn regular_graphs_need_the_search() {
        let hexagon = graph(&["n"; 6], &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]);
        let other = graph(&["n"; 6], &[(3, 0), (0, 5), (5, 1), (1, 4), (4, 2), (2, 3)]);
        let triangles = graph(&["n"; 6], &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]);
        assert!(isomorphic(&hexagon, &other));
        assert!(!isomorphic(&hexagon, &triangles));
    }

    #[test]
    fn directions_colours_and_multiplicities_count() {
        let path = graph(&["a", "b", "b"], &[(0, 1), (1, 2)]);
        assert!(isomorphic(
            &path,
            &graph(&["b", "a", "b"], &[(1, 2), (2, 0)])
        ));
        assert!(!isomorphic(
            &path,
            &graph(&["a", "b", "b"], &[(1, 0), (1, 2)])
        ));
        assert!(!isomorphic(
            &path,
            &graph(&["b", "a", "b"], &[(0, 1), (1, 2)])
        ));
        let double = graph(&["a", "b"], &[(0, 1), (0, 1)]);
        assert!(!isomorphic(&double, &graph(&["a", "b"], &[(0, 1), (1, 0)])));
        let mut coloured = path.clone();
        coloured.edges[1].2 = "f".to_string();
        assert!(!isomorphic(&path, &coloured));
    }
}
