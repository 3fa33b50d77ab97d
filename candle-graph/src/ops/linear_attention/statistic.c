// A number for the columns of every row: what features are scaled by. MAP is the feature map, STAT
// the statistic.

#define MAP_POSITIVE_RANDOM 0
#define MAP_RELU 1
#define MAP_SIMPLE 2

// A row, or some columns of it, belongs to one warp.
#define WARPS (THREADS / WARP)

#define STAT_LARGEST 0
#define STAT_LARGEST_SIZE 1
#define STAT_SQUARES 2

// A number for every `columns` adjacent columns of every row: `out` is [rows, parts]. The largest
// element; the largest magnitude; or the sum of the squares of the row over what `by` [graphs] has for
// its graph.
KERNEL(row_statistic, OUT(float, out), IN(scalar, x), IN(float, by), IN(uint, graph_of_node),
       VALUE(uint, rows), VALUE(uint, parts), VALUE(uint, columns), VALUE(uint, stride),
       VALUE(float, eps)) {
    const uint at = GROUP_X * WARPS + THREAD / WARP;
    const uint row = at / parts;
    const uint first = row * stride + at % parts * columns;
#if STAT == STAT_SQUARES
    float factor = 0.0f;
    if (row < rows && by[graph_of_node[row]] > 0.0f) {
        factor = 1.0f / by[graph_of_node[row]];
    }
    float found = 0.0f;
#elif STAT == STAT_LARGEST_SIZE
    float found = 0.0f;
#else
    float found = LOWEST;
#endif
    for (uint column = THREAD % WARP; row < rows && column < columns; column += WARP) {
        const float value = LOAD(x, first + column);
#if STAT == STAT_SQUARES
        found = FMA(value * factor, value * factor, found);
#elif STAT == STAT_LARGEST_SIZE
        found = MAX(found, ABS(value));
#elif MAP == MAP_RELU
        found = MAX(found, (value > 0.0f ? value : 0.0f) + eps);
#else
        found = MAX(found, value);
#endif
    }
#if STAT == STAT_SQUARES
    WARP_SUM(found)
#else
    WARP_MAX(found)
#endif
    if (row < rows && THREAD % WARP == 0u) {
        out[at] = found;
    }
}
