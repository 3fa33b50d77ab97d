// Linear attention from features: sums over the nodes of features times values, and the weighted
// values. FEATURES a head, values of VALUE_DIM; SIMPLE for SGFormer's map.

#define WARPS (THREADS / WARP)

// Products of the features of keys with values, summed over the rows of a tile:
// [tiles, heads, FEATURES, VALUE_DIM + 1], where the last column sums `plain`, the features that no
// rotation has turned. A group makes TILE_FEATURES rows of it.
#define TILE_FEATURES 32u
#define TILE_NODES 16u
#define COLUMN_LANES (THREADS / TILE_FEATURES)
#define COLUMNS_OF_THREAD ((VALUE_DIM + COLUMN_LANES) / COLUMN_LANES)

KERNEL(key_value_sums, OUT(float, out), IN(float, features), IN(float, plain), IN(scalar, value),
       IN(uint, tiles), IN(uint, node_ptr), VALUE(uint, heads), VALUE(uint, rows_of_tile),
       VALUE(uint, stride)) {
    SHARED(float, keys, TILE_NODES *TILE_FEATURES);
    SHARED(float, unturned, TILE_NODES *TILE_FEATURES);
    SHARED(float, values, TILE_NODES *VALUE_DIM);
    const uint blocks = (FEATURES + TILE_FEATURES - 1u) / TILE_FEATURES;
    const uint head = GROUP_Y / blocks;
    const uint base = GROUP_Y % blocks * TILE_FEATURES;
    const uint graph = tiles[2u * GROUP_X], first = tiles[2u * GROUP_X + 1u];
    const uint rest = node_ptr[graph + 1u] - first;
    const uint end = first + (rest < rows_of_tile ? rest : rows_of_tile);
    const uint feature = THREAD % TILE_FEATURES, lane = THREAD / TILE_FEATURES;

    float sums[COLUMNS_OF_THREAD];
    UNROLL
    for (uint c = 0u; c < COLUMNS_OF_THREAD; c++) {
        sums[c] = 0.0f;
    }
    for (uint from = first; from < end; from += TILE_NODES) {
        BARRIER();
        for (uint i = THREAD; i < TILE_NODES * TILE_FEATURES; i += THREADS) {
            const uint row = from + i / TILE_FEATURES, f = base + i % TILE_FEATURES;
            const int is = row < end && f < FEATURES;
            const uint at = (row * heads + head) * FEATURES + f;
            keys[i] = is ? features[at] : 0.0f;
            unturned[i] = is ? plain[at] : 0.0f;
        }
        for (uint i = THREAD; i < TILE_NODES * VALUE_DIM; i += THREADS) {
            const uint row = from + i / VALUE_DIM;
            values[i] = row < end ? LOAD(value, row * stride + head * VALUE_DIM + i % VALUE_DIM) : 0.0f;
        }
        BARRIER();
        for (uint n = 0u; n < TILE_NODES; n++) {
            const float key = keys[n * TILE_FEATURES + feature];
            UNROLL
            for (uint c = 0u; c < COLUMNS_OF_THREAD; c++) {
                const uint column = lane + c * COLUMN_LANES;
                if (column < VALUE_DIM) {
                    sums[c] = FMA(key, values[n * VALUE_DIM + column], sums[c]);
                } else if (column == VALUE_DIM) {
                    sums[c] += unturned[n * TILE_FEATURES + feature];
                }
            }
        }
    }
    UNROLL
    for (uint c = 0u; c < COLUMNS_OF_THREAD; c++) {
        const uint column = lane + c * COLUMN_LANES;
        if (column <= VALUE_DIM && base + feature < FEATURES) {
            const uint at = (GROUP_X * heads + head) * FEATURES + base + feature;
            out[at * (VALUE_DIM + 1u) + column] = sums[c];
        }
    }
}

// The weighted values of the rows of a tile of 32 in one head. `sums` is
// [graphs, heads, FEATURES, VALUE_DIM + 1]. The simple map adds n times the own value.
KERNEL(weighted_values, OUT(scalar, out), IN(float, features), IN(float, plain), IN(float, sums),
       IN(scalar, value), IN(uint, tiles), IN(uint, node_ptr), VALUE(uint, heads),
       VALUE(uint, stride)) {
    SHARED(float, staged, 8 * (VALUE_DIM + 1));
    SHARED(float, divisors, WARP);
    const uint graph = tiles[2u * GROUP_X], head = GROUP_Y;
    const uint end = node_ptr[graph + 1u];
    const uint row = tiles[2u * GROUP_X + 1u] + THREAD % WARP, lane = THREAD / WARP;

#define VALUES_OF_THREAD ((VALUE_DIM + WARPS) / WARPS)
    float results[VALUES_OF_THREAD];
    UNROLL
    for (uint c = 0u; c < VALUES_OF_THREAD; c++) {
        results[c] = 0.0f;
    }
    for (uint from = 0u; from < FEATURES; from += 8u) {
        BARRIER();
        for (uint i = THREAD; i < 8u * (VALUE_DIM + 1u); i += THREADS) {
            const uint f = from + i / (VALUE_DIM + 1u);
            const uint at = ((graph * heads + head) * FEATURES + f) * (VALUE_DIM + 1u);
            staged[i] = f < FEATURES ? sums[at + i % (VALUE_DIM + 1u)] : 0.0f;
        }
        BARRIER();
        for (uint f = 0u; f < 8u && from + f < FEATURES && row < end; f++) {
            const uint at = (row * heads + head) * FEATURES + from + f;
            const float feature = features[at];
            UNROLL
            for (uint c = 0u; c < VALUES_OF_THREAD; c++) {
                const uint column = lane + c * WARPS;
                if (column < VALUE_DIM) {
                    results[c] = FMA(feature, staged[f * (VALUE_DIM + 1u) + column], results[c]);
                } else if (column == VALUE_DIM) {
                    results[c] = FMA(plain[at], staged[f * (VALUE_DIM + 1u) + column], results[c]);
                }
            }
        }
    }
    const float own = SIMPLE ? (float)(end - node_ptr[graph]) : 0.0f;
    UNROLL
    for (uint c = 0u; c < VALUES_OF_THREAD; c++) {
        if (lane + c * WARPS == VALUE_DIM) {
            divisors[THREAD % WARP] = results[c] + own;
        }
    }
    BARRIER();
    UNROLL
    for (uint c = 0u; c < VALUES_OF_THREAD; c++) {
        const uint column = lane + c * WARPS;
        if (column < VALUE_DIM && row < end) {
            const float kept = LOAD(value, row * stride + head * VALUE_DIM + column);
            const float divisor = divisors[THREAD % WARP];
            float result = divisor == 0.0f ? 0.0f : (results[c] + own * kept) / divisor;
#if KEEPS_LONELY
            if (own == 1.0f) {
                result = kept;
            }
#endif
            STORE(out, (row * heads + head) * VALUE_DIM + column, result);
        }
    }
}
