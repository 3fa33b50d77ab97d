// Mean, largest value and sum of what neighbours send. A group is a node, whose incoming edges its
// lanes share.

KERNEL(neighbour_statistics, OUT(scalar, out), IN(scalar, of_targets), IN(scalar, of_sources),
       IN(scalar, states), IN(uint, sources), IN(uint, ptr), VALUE(uint, width),
       VALUE(uint, target_stride), VALUE(uint, source_stride), VALUE(uint, state_stride)) {
    SHARED(float, sums, THREADS);
    SHARED(float, highest, THREADS);
    const uint node = GROUP_X, column = COLUMN;
    const uint first = ptr[node], end = ptr[node + 1u];
    float total = 0.0f, largest = LOWEST;
    if (column < width) {
        const float own = LOAD(of_targets, node * target_stride + column);
        for (uint block = first + LANE; block < end; block += TERMS_OF_BLOCK) {
            const uint until = END_OF_BLOCK(block, end);
            float sum = 0.0f;
            for (uint edge = block; edge < until; edge += LANES) {
                const float sent = LOAD(of_sources, sources[edge] * source_stride + column);
                const float message = own + sent + LOAD(states, edge * state_stride + column);
                sum += message;
                largest = MAX(largest, message);
            }
            total += sum;
        }
    }
    sums[THREAD] = total;
    highest[THREAD] = largest;
    JOIN_LANES(sums, ADD)
    JOIN_LANES(highest, MAX)
    if (LANE == 0u && column < width) {
        const uint at = node * 3u * width + column;
        const uint received = end - first;
        STORE(out, at, received > 0u ? sums[THREAD] / (float)received : 0.0f);
        STORE(out, at + width, received > 0u ? highest[THREAD] : 0.0f);
        STORE(out, at + 2u * width, sums[THREAD]);
    }
}
