// Squared distances of the ends of edges: COLUMNS threads of a warp share the coordinates of an edge.

KERNEL(squared_distances, OUT(scalar, out), IN(scalar, positions), IN(uint, sources),
       IN(uint, targets), VALUE(uint, edges), VALUE(uint, width), VALUE(uint, stride)) {
    const uint edge = ROW;
    float sum = 0.0f;
    if (edge < edges) {
        for (uint column = THREAD % COLUMNS; column < width; column += COLUMNS) {
            const float target = LOAD(positions, targets[edge] * stride + column);
            const float difference = target - LOAD(positions, sources[edge] * stride + column);
            sum = FMA(difference, difference, sum);
        }
    }
    for (uint lanes = COLUMNS / 2u; lanes > 0u; lanes /= 2u) {
        sum += SHUFFLE_XOR(sum, lanes);
    }
    if (edge < edges && THREAD % COLUMNS == 0u) {
        STORE(out, edge, sum);
    }
}
