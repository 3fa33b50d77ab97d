// Groups of COLUMNS columns (a power of two) and LANES rows, for kernels whose file is put behind
// this one: either one row a lane, or lanes that share the rows of a segment and meet in a tree.

#define LANES (THREADS / COLUMNS)

// Of a thread: its column, its lane, and its row where every lane has one.
#define COLUMN (GROUP_Y * COLUMNS + THREAD % COLUMNS)
#define LANE (THREAD / COLUMNS)
#define ROW (GROUP_X * LANES + LANE)

// Long sums are taken in blocks of so many terms a lane: rounding errors then grow with the number
// of blocks, not of terms.
#define TERMS_OF_BLOCK (32u * LANES)
#define END_OF_BLOCK(from, end) ((end) - (from) > TERMS_OF_BLOCK ? (from) + TERMS_OF_BLOCK : (end))

#define ADD(a, b) ((a) + (b))

// Joins `meeting` over the lanes of every column; the result is in the first COLUMNS places, where
// lane 0 may read its own at once and others after a barrier.
#define JOIN_LANES(meeting, join)                                                                  \
    for (uint half_of = LANES / 2u; half_of > 0u; half_of /= 2u) {                                 \
        BARRIER();                                                                                 \
        if (LANE < half_of) {                                                                      \
            meeting[THREAD] = join(meeting[THREAD], meeting[THREAD + half_of * COLUMNS]);          \
        }                                                                                          \
    }
