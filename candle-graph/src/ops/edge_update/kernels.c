// States of edges from those at their ends, a thread for every value.

KERNEL(edge_update, OUT(scalar, out), IN(scalar, states), IN(scalar, from_sources),
       IN(scalar, from_targets), IN(uint, sources), IN(uint, targets), VALUE(uint, edges),
       VALUE(uint, width), VALUE(uint, state_stride), VALUE(uint, source_stride),
       VALUE(uint, target_stride)) {
    const uint edge = ROW, column = COLUMN;
    if (edge < edges && column < width) {
        float sum = LOAD(from_sources, sources[edge] * source_stride + column) +
                    LOAD(from_targets, targets[edge] * target_stride + column);
#if WITH_STATES
        sum += LOAD(states, edge * state_stride + column);
#endif
        STORE(out, edge * width + column, activate(sum));
    }
}
