// Random walks on all graphs of a batch: a group walks from one start node, and its threads are the
// nodes that the walk may reach. The edges come by target, each with the probability that it is taken
// from its source.

// The probability of every node at the time of `step` from that at the time before.
#define STEP(before, result)                                                                       \
    {                                                                                              \
        float sum = 0.0f;                                                                          \
        for (uint edge = edge_ptr[first + node]; edge < edge_ptr[first + node + 1u]; edge++) {     \
            sum = FMA(probabilities[edge], before(sources[edge] - first), sum);                    \
        }                                                                                          \
        result = sum;                                                                              \
    }

// Of every pair (source, target), row target · n + source of its graph, the probabilities that a walk
// from the target is at the source after 0, 1, ... steps: [pairs, times].
KERNEL(pair_walks, OUT(float, out), IN(float, probabilities), IN(uint, sources), IN(uint, edge_ptr),
       IN(uint, graph_of_node), IN(uint, node_ptr), IN(uint, pair_ptr), VALUE(uint, times)) {
    const uint start = GROUP_X;
    const uint graph = graph_of_node[start];
    const uint first = node_ptr[graph], nodes = node_ptr[graph + 1u] - first;
    const uint pairs = pair_ptr[graph] + (start - first) * nodes;
    for (uint node = THREAD; node < nodes; node += THREADS) {
        out[(pairs + node) * times] = first + node == start ? 1.0f : 0.0f;
    }
    for (uint step = 1u; step < times; step++) {
        BARRIER_OF_TENSORS();
        for (uint node = THREAD; node < nodes; node += THREADS) {
#define BEFORE(at) out[(pairs + (at)) * times + step - 1u]
            STEP(BEFORE, out[(pairs + node) * times + step])
        }
    }
}

// Of every node, the probabilities that a walk is back after the steps of `columns`, which holds for
// every number of steps the column that it belongs to, or `width`: [nodes, width]. Graphs have at most
// MOST_NODES nodes.
KERNEL(returns, OUT(float, out), IN(float, probabilities), IN(uint, sources), IN(uint, edge_ptr),
       IN(uint, graph_of_node), IN(uint, node_ptr), IN(uint, columns), VALUE(uint, steps),
       VALUE(uint, width)) {
    SHARED(float, walks, 2 * MOST_NODES);
    const uint start = GROUP_X;
    const uint graph = graph_of_node[start];
    const uint first = node_ptr[graph], nodes = node_ptr[graph + 1u] - first;
    for (uint node = THREAD; node < nodes; node += THREADS) {
        walks[node] = first + node == start ? 1.0f : 0.0f;
    }
    for (uint step = 1u; step <= steps; step++) {
        const uint past = (step - 1u) % 2u * MOST_NODES, next = step % 2u * MOST_NODES;
        BARRIER();
        for (uint node = THREAD; node < nodes; node += THREADS) {
#define PAST(at) walks[past + (at)]
            STEP(PAST, walks[next + node])
            if (first + node == start && columns[step] < width) {
                out[start * width + columns[step]] = walks[next + node];
            }
        }
    }
}
