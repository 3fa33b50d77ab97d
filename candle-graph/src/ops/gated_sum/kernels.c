// Gated sums over the neighbours of every node with the new edge states, behind the matrix product
// of the edge states (`gate_edge`). A group is a node, whose incoming edges its lanes share.

KERNEL(gated_sum, OUT(scalar, new_nodes), OUT(scalar, new_edges), IN(scalar, own), IN(scalar, sent),
       IN(scalar, gate_target), IN(scalar, gate_source), IN(scalar, gate_edge),
       IN(scalar, gate_bias), IN(scalar, edge_states), IN(scalar, weights), IN(scalar, node_scale),
       IN(scalar, node_shift), IN(scalar, edge_scale), IN(scalar, edge_shift), IN(scalar, residual),
       IN(uint, sources), IN(uint, ptr), VALUE(uint, width), VALUE(uint, own_stride),
       VALUE(uint, sent_stride), VALUE(uint, target_stride), VALUE(uint, source_stride),
       VALUE(uint, state_stride), VALUE(uint, residual_stride), VALUE(float, gate_eps)) {
    SHARED(float, sums, THREADS);
    SHARED(float, gates, THREADS);
    const uint node = GROUP_X, column = COLUMN;
    const uint first = ptr[node], end = ptr[node + 1u];
    float total = 0.0f, total_gate = 0.0f;
    if (column < width) {
        const float scale = LOAD(edge_scale, column), shift = LOAD(edge_shift, column);
        const float target = LOAD(gate_target, node * target_stride + column);
        for (uint block = first + LANE; block < end; block += TERMS_OF_BLOCK) {
            const uint until = END_OF_BLOCK(block, end);
            float sum = 0.0f, sum_gate = 0.0f;
            for (uint edge = block; edge < until; edge += LANES) {
                const uint source = sources[edge];
                float mapped = LOAD(gate_edge, edge * width + column);
#if WITH_BIAS
                mapped += LOAD(gate_bias, column);
#endif
                const float ends = target + LOAD(gate_source, source * source_stride + column);
                const float state = ends + mapped;
                float gate = logistic(state);
#if WITH_WEIGHTS
                gate *= LOAD(weights, edge);
#endif
                sum = FMA(gate, LOAD(sent, source * sent_stride + column), sum);
                sum_gate += gate;
                float result = activate(FMA(state, scale, shift));
#if WITH_RESIDUAL
                result += LOAD(edge_states, edge * state_stride + column);
#endif
                STORE(new_edges, edge * width + column, result);
            }
            total += sum;
            total_gate += sum_gate;
        }
    }
    sums[THREAD] = total;
    gates[THREAD] = total_gate;
    JOIN_LANES(sums, ADD)
    JOIN_LANES(gates, ADD)
    if (LANE == 0u && column < width) {
        const float received = sums[THREAD] / (gates[THREAD] + gate_eps);
        const float state = LOAD(own, node * own_stride + column) + received;
        float result = activate(FMA(state, LOAD(node_scale, column), LOAD(node_shift, column)));
#if WITH_RESIDUAL
        result += LOAD(residual, node * residual_stride + column);
#endif
        STORE(new_nodes, node * width + column, result);
    }
}
