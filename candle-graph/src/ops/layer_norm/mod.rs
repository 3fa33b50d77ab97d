//! LayerNorm with the residual sum before it, in one pass over memory. The caller checks shapes,
//! chooses the path and has the reference.

pub(super) mod cpu;
pub(super) mod gpu;
