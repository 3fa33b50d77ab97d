// The features of linear attention. MAP is the feature map, of FEATURES a head from HEAD_DIM columns.

#define MAP_POSITIVE_RANDOM 0
#define MAP_RELU 1
#define MAP_SIMPLE 2

#define FEATURE_EPS 1e-4f

// A node in a head belongs to one warp.
#define WARPS (THREADS / WARP)

// The features of queries or keys: [rows, heads, FEATURES]. `projected` are the products with the
// random directions [rows, heads, FEATURES] (for other maps, anything). `scales` has `scales_of_row`
// numbers, one a head or one for all, for every graph if BY_GRAPH or else for every row; `norms` one a
// graph, for the simple map.
KERNEL(attention_features, OUT(float, out), IN(scalar, x), IN(scalar, projected), IN(float, scales),
       IN(float, norms), IN(uint, graph_of_node), VALUE(uint, rows), VALUE(uint, heads),
       VALUE(uint, stride), VALUE(uint, scales_of_row), VALUE(float, root), VALUE(float, eps)) {
    const uint at = GROUP_X * WARPS + THREAD / WARP;
    const uint row = at / heads, head = at % heads, lane = THREAD % WARP;
    const uint first = row * stride + head * HEAD_DIM;
    float scale = 0.0f;
    if (row < rows) {
#if BY_GRAPH
        const uint of = graph_of_node[row];
#else
        const uint of = row;
#endif
        scale = scales[of * scales_of_row + (scales_of_row > 1u ? head : 0u)];
    }
#if MAP == MAP_POSITIVE_RANDOM
    float square = 0.0f;
    for (uint d = lane; row < rows && d < HEAD_DIM; d += WARP) {
        const float value = LOAD(x, first + d);
        square = FMA(value, value, square);
    }
    WARP_SUM(square)
    const float half_square = 0.5f * root * root * square;
    for (uint f = lane; row < rows && f < FEATURES; f += WARP) {
        const float product = LOAD(projected, at * FEATURES + f);
        out[at * FEATURES + f] = EXP(root * (product - scale) - half_square) + FEATURE_EPS;
    }
#else
    for (uint f = lane; row < rows && f < FEATURES; f += WARP) {
        const float value = LOAD(x, first + f);
#if MAP == MAP_RELU
        const float feature = (value > 0.0f ? value : 0.0f) + eps;
        out[at * FEATURES + f] = scale == 0.0f ? 0.0f : feature / scale;
#else
        const float norm = norms[graph_of_node[row]];
        out[at * FEATURES + f] = scale == 0.0f ? 0.0f : value / scale / SQRT(norm);
#endif
    }
#endif
}
