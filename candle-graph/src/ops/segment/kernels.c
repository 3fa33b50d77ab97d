// Reductions and softmax over consecutive segments of rows, whose rows the lanes of a group share
// (columns.h).

#define REDUCE_SUM 0
#define REDUCE_MEAN 1
#define REDUCE_MAX 2

#if REDUCTION == REDUCE_MAX
#define NOTHING LOWEST
#define JOIN(a, b) MAX(a, b)
#else
#define NOTHING 0.0f
#define JOIN(a, b) ADD(a, b)
#endif

// Reduces the rows `from..to` of a column into the first COLUMNS places of `meeting`.
#define REDUCE_ROWS(from, to)                                                                      \
    float joined = NOTHING;                                                                        \
    if (column < width) {                                                                          \
        for (uint row = (from) + lane; row < (to); row += LANES) {                                 \
            joined = JOIN(joined, LOAD(values, row * width + column));                             \
        }                                                                                          \
    }                                                                                              \
    meeting[THREAD] = joined;                                                                      \
    JOIN_LANES(meeting, JOIN)

// The reduction of a segment of `length` rows from that of its rows.
FUNCTION float finished(float joined, uint length) {
#if REDUCTION == REDUCE_MEAN
    return length > 0u ? joined / (float)length : 0.0f;
#elif REDUCTION == REDUCE_MAX
    return length > 0u ? joined : 0.0f;
#else
    return joined;
#endif
}

KERNEL(segment_reduce, OUT(scalar, out), IN(scalar, values), IN(uint, ptr), VALUE(uint, width)) {
    SHARED(float, meeting, THREADS);
    const uint column = COLUMN;
    const uint lane = LANE;
    const uint first = ptr[GROUP_X], end = ptr[GROUP_X + 1u];
    REDUCE_ROWS(first, end)
    if (lane == 0u && column < width) {
        STORE(out, GROUP_X * width + column, finished(meeting[THREAD], end - first));
    }
}

// Long segments in pieces of `rows_of_piece` rows, the last ones shorter or empty: `parts` is
// [segments, pieces, width].
KERNEL(segment_pieces, OUT(float, parts), IN(scalar, values), IN(uint, ptr), VALUE(uint, width),
       VALUE(uint, pieces), VALUE(uint, rows_of_piece)) {
    SHARED(float, meeting, THREADS);
    const uint column = COLUMN;
    const uint lane = LANE;
    const uint first = ptr[GROUP_X / pieces], end = ptr[GROUP_X / pieces + 1u];
    const uint skipped = GROUP_X % pieces * rows_of_piece;
    const uint from = skipped < end - first ? first + skipped : end;
    const uint to = end - from > rows_of_piece ? from + rows_of_piece : end;
    REDUCE_ROWS(from, to)
    if (lane == 0u && column < width) {
        parts[GROUP_X * width + column] = meeting[THREAD];
    }
}

// Joins the pieces of every segment.
KERNEL(segment_join, OUT(scalar, out), IN(float, values), IN(uint, ptr), VALUE(uint, width),
       VALUE(uint, pieces)) {
    const uint column = GROUP_Y * THREADS + THREAD;
    if (column < width) {
        float joined = NOTHING;
        for (uint piece = 0u; piece < pieces; piece++) {
            joined = JOIN(joined, values[(GROUP_X * pieces + piece) * width + column]);
        }
        const uint length = ptr[GROUP_X + 1u] - ptr[GROUP_X];
        STORE(out, GROUP_X * width + column, finished(joined, length));
    }
}

// Softmax over the rows of every segment, column by column.
KERNEL(segment_softmax, OUT(scalar, out), IN(scalar, values), IN(uint, ptr), VALUE(uint, width)) {
    SHARED(float, meeting, THREADS);
    SHARED(float, total, THREADS);
    const uint column = COLUMN;
    const uint lane = LANE;
    const uint first = ptr[GROUP_X], end = ptr[GROUP_X + 1u];

    float largest = LOWEST;
    if (column < width) {
        for (uint row = first + lane; row < end; row += LANES) {
            largest = MAX(largest, LOAD(values, row * width + column));
        }
    }
    meeting[THREAD] = largest;
    JOIN_LANES(meeting, MAX)
    BARRIER();
    largest = meeting[THREAD % COLUMNS];

    float sum = 0.0f;
    if (column < width) {
        for (uint row = first + lane; row < end; row += LANES) {
            sum += EXP(LOAD(values, row * width + column) - largest);
        }
    }
    total[THREAD] = sum;
    JOIN_LANES(total, ADD)
    BARRIER();
    const float factor = 1.0f / (total[THREAD % COLUMNS] + 1e-16f);
    if (column < width) {
        for (uint row = first + lane; row < end; row += LANES) {
            STORE(out, row * width + column, EXP(LOAD(values, row * width + column) - largest) * factor);
        }
    }
}

// `base` with the rows k added at rows at[k]; `at` is in ascending order.
KERNEL(add_rows_at, OUT(scalar, out), IN(scalar, base), IN(scalar, rows), IN(uint, at),
       VALUE(uint, num_rows), VALUE(uint, width), VALUE(uint, to_add)) {
    const uint row = ROW;
    const uint column = COLUMN;
    if (row < num_rows && column < width) {
        uint low = 0u, high = to_add;
        while (low < high) {
            const uint middle = (low + high) / 2u;
            if (at[middle] < row) {
                low = middle + 1u;
            } else {
                high = middle;
            }
        }
        float sum = LOAD(base, row * width + column);
        for (; low < to_add && at[low] == row; low++) {
            sum += LOAD(rows, low * width + column);
        }
        STORE(out, row * width + column, sum);
    }
}
