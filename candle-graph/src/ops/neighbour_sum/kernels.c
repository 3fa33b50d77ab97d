// Weighted sums of what neighbours send. A group is a node, whose incoming edges its lanes share.
// ACTIVATION is that of messages with edge states.

KERNEL(neighbour_sum, OUT(scalar, out), IN(scalar, nodes), IN(scalar, states), IN(scalar, weights),
       IN(scalar, self_weight), IN(uint, sources), IN(uint, ptr), VALUE(uint, width),
       VALUE(uint, node_stride), VALUE(uint, state_stride), VALUE(uint, weight_stride),
       VALUE(uint, columns_of_weight)) {
    SHARED(float, meeting, THREADS);
    const uint node = GROUP_X, column = COLUMN;
    const uint first = ptr[node], end = ptr[node + 1u];
    float total = 0.0f;
    if (column < width) {
        for (uint block = first + LANE; block < end; block += TERMS_OF_BLOCK) {
            const uint until = END_OF_BLOCK(block, end);
            float sum = 0.0f;
            for (uint edge = block; edge < until; edge += LANES) {
                float message = LOAD(nodes, sources[edge] * node_stride + column);
#if WITH_STATES
                message = activate(message + LOAD(states, edge * state_stride + column));
#endif
#if WITH_WEIGHTS
                message *= LOAD(weights, edge * weight_stride + column / columns_of_weight);
#endif
                sum += message;
            }
            total += sum;
        }
    }
    meeting[THREAD] = total;
    JOIN_LANES(meeting, ADD)
    if (LANE == 0u && column < width) {
        total = meeting[THREAD];
#if WITH_SELF
        total = FMA(LOAD(self_weight, 0), LOAD(nodes, node * node_stride + column), total);
#endif
        STORE(out, node * width + column, total);
    }
}
