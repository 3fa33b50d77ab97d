// GRIT's attention between the matrix products of its pair states.
//
// A group answers one target node: its threads are the columns, head after head. The sources go by in
// blocks: the activated states of a block are made by column, their logits by source and head, and
// the running softmax again by column, so that nothing but the states themselves is written.
// HEADS, HEAD_DIM, and SOURCES a block.

#define WIDTH (HEADS * HEAD_DIM)

// For every pair, `edge` holds head by head the factors and the offsets [pairs, heads, 2, head_dim].
// `states` are the activated states [pairs, width], if WITH_STATES, and `weights` those of the
// attention [pairs, heads], if WITH_WEIGHTS. Pairs whose `allowed` is 0 are out, if MASKED.
KERNEL(pair_attention, OUT(scalar, out), OUT(scalar, states), OUT(float, weights), IN(scalar, query),
       IN(scalar, key), IN(scalar, value), IN(scalar, edge), IN(scalar, logit_weight),
       IN(scalar, edge_value), IN(uint, allowed), IN(uint, graph_of_node), IN(uint, node_ptr),
       IN(uint, pair_ptr), VALUE(uint, query_stride), VALUE(uint, key_stride),
       VALUE(uint, value_stride), VALUE(float, clamp)) {
    SHARED(float, block, SOURCES *WIDTH);
    SHARED(float, logits, SOURCES *HEADS);
    SHARED(float, finished, 2 * HEADS);
    const uint target = GROUP_X;
    const uint graph = graph_of_node[target];
    const uint first = node_ptr[graph], end = node_ptr[graph + 1u];
    const uint pairs = pair_ptr[graph] + (target - first) * (end - first);
    const uint column = THREAD;
    const uint head = column / HEAD_DIM;
    const uint factors = head * 2u * HEAD_DIM + column % HEAD_DIM;

    const float own = column < WIDTH ? LOAD(query, target * query_stride + column) : 0.0f;
    float largest = LOWEST, total = 0.0f, values = 0.0f, edges = 0.0f;

    for (uint from = first; from < end; from += SOURCES) {
        float mine[SOURCES];
        UNROLL
        for (uint s = 0u; s < SOURCES; s++) {
            const uint source = from + s;
            mine[s] = 0.0f;
            if (source < end && column < WIDTH) {
                const uint pair = pairs + source - first;
                const float product = (LOAD(key, source * key_stride + column) + own) *
                                      LOAD(edge, pair * 2u * WIDTH + factors);
                const float root = SQRT(ABS(product));
                mine[s] = activate((product < 0.0f ? -root : root) +
                                   LOAD(edge, pair * 2u * WIDTH + factors + HEAD_DIM));
                block[s * WIDTH + column] = mine[s];
#if WITH_STATES
                STORE(states, pair * WIDTH + column, mine[s]);
#endif
            }
        }
        BARRIER();
        for (uint i = THREAD; i < SOURCES * HEADS; i += THREADS) {
            const uint source = from + i / HEADS;
            float logit = LOWEST;
            if (source < end) {
                const uint pair = pairs + source - first;
                const uint at = i / HEADS * WIDTH + i % HEADS * HEAD_DIM;
                float sum = 0.0f;
                for (uint d = 0u; d < HEAD_DIM; d++) {
                    sum = FMA(block[at + d], LOAD(logit_weight, d * HEADS + i % HEADS), sum);
                }
#if CLAMPED
                // What is not a number stays: MIN and MAX would hide it.
                sum = sum > clamp ? clamp : sum < -clamp ? -clamp : sum;
#endif
                logit = sum;
#if MASKED
                logit = allowed[pair] != 0u ? sum : LOWEST;
#endif
#if WITH_WEIGHTS
                weights[pair * HEADS + i % HEADS] = logit;
#endif
            }
            logits[i] = logit;
        }
        BARRIER();
        UNROLL
        for (uint s = 0u; s < SOURCES; s++) {
            // Behind the last source the logits are LOWEST.
            if (column < WIDTH) {
                const float logit = logits[s * HEADS + head];
                if (logit == LOWEST) {
                    continue;
                }
                if (!(logit <= largest)) {
                    const float factor = EXP(largest - logit);
                    largest = logit;
                    total *= factor;
                    values *= factor;
                    edges *= factor;
                }
                const float weight = EXP(logit - largest);
                total += weight;
                values = FMA(weight, LOAD(value, (from + s) * value_stride + column), values);
                edges = FMA(weight, mine[s], edges);
            }
        }
    }

    float result = values / total;
#if WITH_EDGE_VALUE
    // `block` has been read for the last time before the last barrier.
    if (column < WIDTH) {
        block[column] = edges / total;
    }
    BARRIER();
    if (column < WIDTH) {
        for (uint d = 0u; d < HEAD_DIM; d++) {
            const uint at = (d * HEADS + head) * HEAD_DIM + column % HEAD_DIM;
            result = FMA(block[head * HEAD_DIM + d], LOAD(edge_value, at), result);
        }
    }
#endif
    if (column < WIDTH) {
        STORE(out, target * WIDTH + column, result);
    }
#if WITH_WEIGHTS
    if (column < WIDTH && column % HEAD_DIM == 0u) {
        finished[head] = largest;
        finished[HEADS + head] = total;
    }
    BARRIER_OF_TENSORS();
    for (uint i = THREAD; i < (end - first) * HEADS; i += THREADS) {
        const float logit = weights[pairs * HEADS + i];
        const float weight = EXP(logit - finished[i % HEADS]) / finished[HEADS + i % HEADS];
        weights[pairs * HEADS + i] = logit == LOWEST ? 0.0f : weight;
    }
#endif
}
