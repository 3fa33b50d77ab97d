// Softmax attention among the nodes of every graph, without padding.
//
// A group answers the queries of one tile, up to 32 rows of one graph, in one head: every thread holds
// a query and its running sum, the warps of the group share out the keys and meet in the end.
// HEAD_DIM and VALUE_DIM are the widths of a head, KEYS the keys that a warp stages at a time.

#define WARPS (THREADS / WARP)

// `tiles` holds segment and first row of every tile, `pair_ptr` where the n·n logits of every graph
// begin in `bias` [pairs, heads].
KERNEL(attention, OUT(scalar, out), IN(scalar, query), IN(scalar, key), IN(scalar, value),
       IN(scalar, bias), IN(uint, tiles), IN(uint, node_ptr), IN(uint, pair_ptr), VALUE(uint, heads),
       VALUE(uint, query_stride), VALUE(uint, key_stride), VALUE(uint, value_stride),
       VALUE(float, scale)) {
    SHARED(float, keys, WARPS *KEYS *HEAD_DIM);
    SHARED(float, values, WARPS *KEYS *VALUE_DIM);
    // Of one warp: running maxima, sums and weighted values of its queries.
    SHARED(float, met, WARP *(VALUE_DIM + 2));
    const uint graph = tiles[2u * GROUP_X], head = GROUP_Y;
    const uint first = node_ptr[graph], end = node_ptr[graph + 1u];
    const uint row = tiles[2u * GROUP_X + 1u] + THREAD % WARP;
    const uint warp = THREAD / WARP;

    float own[HEAD_DIM];
    float sum[VALUE_DIM];
    UNROLL
    for (uint d = 0u; d < HEAD_DIM; d++) {
        own[d] = row < end ? scale * LOAD(query, row * query_stride + head * HEAD_DIM + d) : 0.0f;
    }
    UNROLL
    for (uint d = 0u; d < VALUE_DIM; d++) {
        sum[d] = 0.0f;
    }
    float largest = LOWEST, total = 0.0f;

    for (uint from = first; from < end; from += WARPS * KEYS) {
        BARRIER();
        for (uint i = THREAD; i < WARPS * KEYS * HEAD_DIM; i += THREADS) {
            const uint source = from + i / HEAD_DIM;
            keys[i] = source < end
                          ? LOAD(key, source * key_stride + head * HEAD_DIM + i % HEAD_DIM)
                          : 0.0f;
        }
        for (uint i = THREAD; i < WARPS * KEYS * VALUE_DIM; i += THREADS) {
            const uint source = from + i / VALUE_DIM;
            values[i] = source < end
                            ? LOAD(value, source * value_stride + head * VALUE_DIM + i % VALUE_DIM)
                            : 0.0f;
        }
        BARRIER();
        for (uint k = 0u; k < KEYS; k++) {
            const uint staged = warp * KEYS + k;
            const uint source = from + staged;
            if (source >= end || row >= end) {
                break;
            }
            float logit = 0.0f;
            UNROLL
            for (uint d = 0u; d < HEAD_DIM; d++) {
                logit = FMA(own[d], keys[staged * HEAD_DIM + d], logit);
            }
#if WITH_BIAS
            const uint pair = pair_ptr[graph] + (row - first) * (end - first) + (source - first);
            logit += LOAD(bias, pair * heads + head);
#endif
            // Minus infinity takes the pair out; what is not a number stays and shows.
            if (logit < LOWEST) {
                continue;
            }
            if (!(logit <= largest)) {
                const float factor = EXP(largest - logit);
                largest = logit;
                total *= factor;
                UNROLL
                for (uint d = 0u; d < VALUE_DIM; d++) {
                    sum[d] *= factor;
                }
            }
            const float weight = EXP(logit - largest);
            total += weight;
            UNROLL
            for (uint d = 0u; d < VALUE_DIM; d++) {
                sum[d] = FMA(weight, values[staged * VALUE_DIM + d], sum[d]);
            }
        }
    }

    for (uint other = 1u; other < WARPS; other++) {
        BARRIER();
        if (warp == other) {
            met[THREAD % WARP] = largest;
            met[WARP + THREAD % WARP] = total;
            UNROLL
            for (uint d = 0u; d < VALUE_DIM; d++) {
                met[(2u + d) * WARP + THREAD % WARP] = sum[d];
            }
        }
        BARRIER();
        if (warp == 0u) {
            const float both = MAX(largest, met[THREAD]);
            const float factor = EXP(largest - both), added = EXP(met[THREAD] - both);
            largest = both;
            total = total * factor + met[WARP + THREAD] * added;
            UNROLL
            for (uint d = 0u; d < VALUE_DIM; d++) {
                sum[d] = sum[d] * factor + met[(2u + d) * WARP + THREAD] * added;
            }
        }
    }
    if (warp == 0u && row < end) {
        UNROLL
        for (uint d = 0u; d < VALUE_DIM; d++) {
            const float result = total == 0.0f ? 0.0f : sum[d] / total;
            STORE(out, (row * heads + head) * VALUE_DIM + d, result);
        }
    }
}
