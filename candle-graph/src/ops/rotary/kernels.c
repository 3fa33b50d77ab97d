// Rotation of pairs of columns, a thread for every value, and the table of its angles.

// What lies in column `at`, the bias included.
#if WITH_BIAS
#define GIVEN(at) (LOAD(x, row * x_stride + (at)) + LOAD(bias, at))
#else
#define GIVEN(at) LOAD(x, row * x_stride + (at))
#endif

// Turns `value` if its column is among the `columns` from `start` on, which are groups of
// `group_width`: columns 2i and 2i + 1 of a group by its angle i, where the angles of a group are
// `step` behind those of the one before. An odd last column of a group stays.
#define TURN(cosines, sines, start, columns, group_width, step, angles)                            \
    if (column >= (start) && column - (start) < (columns)) {                                       \
        const uint group = (column - (start)) / (group_width);                                     \
        const uint within = (column - (start)) % (group_width);                                    \
        if (within / 2u < (group_width) / 2u) {                                                    \
            const uint angle = row * (angles) + group * (step) + within / 2u;                      \
            const float cosine = LOAD(cosines, angle), sine = LOAD(sines, angle);                  \
            value = within % 2u == 0u ? value * cosine - GIVEN(column + 1u) * sine                 \
                                      : value * cosine + GIVEN(column - 1u) * sine;                \
        }                                                                                          \
    }

// Up to two rotations of columns that the other does not touch.
KERNEL(rotate_columns, OUT(scalar, out), IN(scalar, x), IN(scalar, bias), IN(scalar, cosines),
       IN(scalar, sines), IN(scalar, other_cosines), IN(scalar, other_sines), VALUE(uint, rows),
       VALUE(uint, width), VALUE(uint, x_stride), VALUE(uint, start), VALUE(uint, columns),
       VALUE(uint, group_width), VALUE(uint, step), VALUE(uint, angles), VALUE(uint, other_start),
       VALUE(uint, other_columns), VALUE(uint, other_group_width), VALUE(uint, other_step),
       VALUE(uint, other_angles)) {
    const uint row = ROW, column = COLUMN;
    if (row < rows && column < width) {
        float value = GIVEN(column);
        TURN(cosines, sines, start, columns, group_width, step, angles)
#if ROTATIONS == 2
        TURN(other_cosines, other_sines, other_start, other_columns, other_group_width, other_step,
             other_angles)
#endif
        STORE(out, row * width + column, value);
    }
}

KERNEL(rotation_table, OUT(scalar, cosines), OUT(scalar, sines), IN(scalar, t),
       IN(scalar, frequencies), VALUE(uint, rows), VALUE(uint, pairs), VALUE(uint, coordinates),
       VALUE(uint, t_stride), VALUE(uint, frequency_stride)) {
    const uint row = ROW, pair = COLUMN;
    if (row < rows && pair < pairs) {
        float angle = 0.0f;
        for (uint i = 0u; i < coordinates; i++) {
            const float frequency = LOAD(frequencies, pair * frequency_stride + i);
            angle = FMA(LOAD(t, row * t_stride + i), frequency, angle);
        }
        STORE(cosines, row * pairs + pair, COS(angle));
        STORE(sines, row * pairs + pair, SIN(angle));
    }
}
