"""Times the authors' code of "Transformers Meet Directed Graphs" on the cases of `candle-graph bench --peer`.

Reads one JSON object from standard input:

    {"task": "digraph" | "magnetic", "runs": 9, "seconds": 1.0, "threads": 2,
     "graphs": [{"num_nodes": 3, "edge_index": [[0, 1], [1, 0]]}, ...],
     "size": 25, "q": 0.25, "q_absolute": false, "symmetric_norm": true,
     "layers": 4, "channels": 256, "heads": 4}             (digraph)

and writes one: {"milliseconds_min": ..., "milliseconds_median": ..., "peer": "..."}, or null for a task that it does not
know.

`digraph` is the jitted transformer for sorting networks on random weights, all graphs padded to the next power of two as
the authors' data pipeline does, eigenvectors made before the clock starts. `magnetic` is their eigenvector routine (numba
and LAPACK), one graph after the other for one graph, all graphs of a batch side by side otherwise.

Needs jax, dm-haiku, jraph and numba in the versions that the authors' repository asks for, and the path of a checkout of
github.com/google-deepmind/digraph_transformer as its argument.
"""

import json
import os
import statistics
import sys
import time


def main():
    spec = json.load(sys.stdin)
    if spec["task"] not in ("digraph", "magnetic"):
        return json.dump(None, sys.stdout)
    for name in ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = str(spec["threads"])
    sys.path.insert(0, sys.argv[1])
    run, peer = (forward if spec["task"] == "digraph" else eigenvectors)(spec)
    for _ in range(3):
        run()
    times = []
    begin = time.perf_counter()
    while len(times) < spec["runs"] or time.perf_counter() - begin < spec["seconds"]:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    json.dump(
        {"milliseconds_min": min(times), "milliseconds_median": statistics.median(times), "peer": peer},
        sys.stdout,
    )


def padded(spec):
    """The edges of every graph, padded with -1, and the numbers of nodes, padding in the second column."""
    import numpy as np

    graphs = spec["graphs"]
    edges = max(len(g["edge_index"][0]) for g in graphs)
    edges = 1 << (edges - 1).bit_length() if edges else 1
    # One more node, which the token of the readout takes.
    nodes = 1 << max(g["num_nodes"] for g in graphs).bit_length()
    ends = np.full((2, len(graphs), edges), -1, dtype=np.int64)
    counts = np.zeros((len(graphs), 2), dtype=np.int64)
    for at, g in enumerate(graphs):
        ends[:, at, : len(g["edge_index"][0])] = g["edge_index"]
        counts[at] = g["num_nodes"], nodes - g["num_nodes"]
    return ends[0], ends[1], counts, nodes


def decompose(spec, senders, receivers, counts):
    import utils

    return utils.eigv_magnetic_laplacian_numba_batch(
        senders,
        receivers,
        counts,
        k=spec["size"],
        k_excl=0,
        q=spec["q"],
        q_absolute=spec["q_absolute"],
        norm_comps_sep=False,
        l2_norm=True,
        sign_rotate=True,
        use_symmetric_norm=spec["symmetric_norm"],
    )


def eigenvectors(spec):
    import numba
    import numpy

    senders, receivers, counts, _ = padded(spec)
    peer = f"digraph_transformer, numba {numba.__version__}, numpy {numpy.__version__}"
    return lambda: decompose(spec, senders, receivers, counts), peer


def forward(spec):
    import haiku as hk
    import jax
    import jax.numpy as jnp
    import jraph
    import numpy as np

    import config
    import models

    senders, receivers, counts, nodes = padded(spec)
    eigenvalues, eigenvectors = decompose(spec, senders, receivers, counts)
    vectors = np.zeros((len(counts), nodes, spec["size"]), dtype=np.complex64)
    vectors[:, : eigenvectors.shape[1]] = eigenvectors[:, :nodes]
    random = np.random.default_rng(0)
    dataset = config.Dataset(
        name="sn",
        num_train_samples=1,
        path="",
        sequence_length=1,
        num_classes=2,
        ast_depth=-1,
        num_nodetypes=-1,
        num_nodeattributes=26,
        edge_df_types=None,
        edge_ast_types=None,
        idx2vocab=None,
        vocab2idx=None,
    )
    graph = jraph.GraphsTuple(
        nodes={
            "node_feat": jnp.asarray(random.integers(0, 12, (len(counts), nodes, 3)), dtype=jnp.float32),
            "eigenvalues": jnp.asarray(eigenvalues, dtype=jnp.float32),
            "eigenvectors": jnp.asarray(vectors),
        },
        edges=jnp.zeros((len(counts), 0)),
        senders=jnp.asarray(senders, dtype=jnp.int32),
        receivers=jnp.asarray(receivers, dtype=jnp.int32),
        n_node=jnp.asarray(counts, dtype=jnp.float32),
        n_edge=jnp.asarray(counts, dtype=jnp.float32),
        globals=None,
    )

    def apply(graph):
        model = models.get_model(
            dataset,
            None,
            model_type="sat",
            num_layers=spec["layers"],
            d_model=spec["channels"],
            activation="gelu",
            deg_sensitive_residual=False,
            global_readout="cls",
            attention_config=dict(num_heads=spec["heads"], with_bias=True, with_attn_dropout=False),
            gnn_config=dict(se="", gnn_type="gnn", use_edge_attr=False, k_hop=3, mlp_layers=1, tightening_factor=2,
                            concat=True, residual=True, bidirectional=True),
            posenc_config=dict(posenc_type="maglap", exclude_canonical=True, relative_positional_encodings=False,
                               top_k_eigenvectors=spec["size"], excl_k_eigenvectors=0, concatenate_eigenvalues=True,
                               maglap_q=spec["q"], maglap_q_absolute=spec["q_absolute"], maglap_symmetric_norm=True,
                               maglap_transformer=True, maglap_use_gnn=False, maglap_use_signnet=False),
        )
        return model(graph, call_args=models.CallArgs(False))

    network = hk.transform(apply)
    weights = network.init(jax.random.PRNGKey(0), graph)
    step = jax.jit(lambda graph: network.apply(weights, jax.random.PRNGKey(1), graph))
    peer = f"digraph_transformer, jax {jax.__version__}"
    return lambda: step(graph).block_until_ready(), peer


if __name__ == "__main__":
    main()
