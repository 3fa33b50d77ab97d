// Softmax aggregation of what neighbours send. A group is a node, whose incoming edges its lanes
// share: each lane keeps the largest message, the sum of the weights relative to it and that of the
// weighted messages. ACTIVATION is that of the messages.

KERNEL(neighbour_softmax, OUT(scalar, out), IN(scalar, nodes), IN(scalar, states),
       IN(uint, sources), IN(uint, ptr), VALUE(uint, width), VALUE(uint, node_stride),
       VALUE(uint, state_stride), VALUE(float, message_eps)) {
    SHARED(float, highest, THREADS);
    SHARED(float, totals, THREADS);
    SHARED(float, sums, THREADS);
    const uint node = GROUP_X, column = COLUMN;
    const uint first = ptr[node], end = ptr[node + 1u];
    float largest = LOWEST, total = 0.0f, sum = 0.0f;
    if (column < width) {
        for (uint block = first + LANE; block < end; block += TERMS_OF_BLOCK) {
            const uint until = END_OF_BLOCK(block, end);
            float block_total = 0.0f, block_sum = 0.0f;
            for (uint edge = block; edge < until; edge += LANES) {
                const float state = LOAD(states, edge * state_stride + column);
                const float sent = LOAD(nodes, sources[edge] * node_stride + column);
                const float message = activate(sent + state) + message_eps;
                if (!(message <= largest)) {
                    const float factor = EXP(largest - message);
                    largest = message;
                    total *= factor;
                    sum *= factor;
                    block_total *= factor;
                    block_sum *= factor;
                }
                const float weight = EXP(message - largest);
                block_total += weight;
                block_sum = FMA(weight, message, block_sum);
            }
            total += block_total;
            sum += block_sum;
        }
    }
    highest[THREAD] = largest;
    totals[THREAD] = total;
    sums[THREAD] = sum;
    for (uint half_of = LANES / 2u; half_of > 0u; half_of /= 2u) {
        BARRIER();
        if (LANE < half_of) {
            const uint other = THREAD + half_of * COLUMNS;
            const float both = MAX(highest[THREAD], highest[other]);
            const float own = EXP(highest[THREAD] - both), added = EXP(highest[other] - both);
            highest[THREAD] = both;
            totals[THREAD] = totals[THREAD] * own + totals[other] * added;
            sums[THREAD] = sums[THREAD] * own + sums[other] * added;
        }
    }
    if (LANE == 0u && column < width) {
        STORE(out, node * width + column, sums[THREAD] / (totals[THREAD] + 1e-16f));
    }
}
