"""Times PyTorch Geometric on the cases of `candle-graph bench --peer`.

Reads one JSON object from standard input:

    {"task": "gps" | "rwse" | "lap_pe", "runs": 9, "seconds": 1.0, "threads": 2,
     "graphs": [{"num_nodes": 3, "edge_index": [[0, 1], [1, 0]]}, ...],
     "layers": 10, "channels": 64, "heads": 4,            (gps)
     "conv": "gine" | "gated", "attention": "multihead" | "performer",
     "size": 20}                                           (rwse: steps, lap_pe: eigenvectors)

and writes one: {"milliseconds_min": ..., "milliseconds_median": ..., "peer": "..."}, or null for a task that it does not
know.

`gps` is a stack of `torch_geometric.nn.GPSConv` on node and edge states of the given width, with sum pooling and the
three-layer head of GraphGPS, on random weights; graphs are batched before the clock starts. The encodings are PyG's
transforms, one graph after the other, as a data loader would run them.

Needs `torch` and `torch_geometric` (2.3 or newer).
"""

import json
import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore")

import torch
import torch_geometric
from torch.nn import Linear, ReLU, Sequential
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINEConv, GPSConv, ResGatedGraphConv, global_add_pool
from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE


class Gps(torch.nn.Module):
    def __init__(self, spec):
        super().__init__()
        width = spec["channels"]
        self.layers = torch.nn.ModuleList(
            GPSConv(width, self.conv(spec["conv"], width), heads=spec["heads"], attn_type=spec["attention"])
            for _ in range(spec["layers"])
        )
        self.head = Sequential(
            Linear(width, width // 2), ReLU(), Linear(width // 2, width // 4), ReLU(), Linear(width // 4, 1)
        )

    @staticmethod
    def conv(kind, width):
        if kind == "gine":
            return GINEConv(Sequential(Linear(width, width), ReLU(), Linear(width, width)))
        # PyG has no GatedGCN that passes edge states on; its nearest relative gates by node and edge states.
        return ResGatedGraphConv(width, width, edge_dim=width)

    def forward(self, x, edge_index, edge_attr, batch):
        for layer in self.layers:
            x = layer(x, edge_index, batch, edge_attr=edge_attr)
        return self.head(global_add_pool(x, batch))


def graph(spec, width):
    edge_index = torch.tensor(spec["edge_index"], dtype=torch.long)
    nodes = spec["num_nodes"]
    return Data(
        x=torch.randn(nodes, width),
        edge_index=edge_index,
        edge_attr=torch.randn(edge_index.size(1), width),
        num_nodes=nodes,
    )


def step(spec):
    width = spec.get("channels", 1)
    graphs = [graph(g, width) for g in spec["graphs"]]
    if spec["task"] == "gps":
        model = Gps(spec).eval()
        batch = Batch.from_data_list(graphs)
        return lambda: model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    if spec["task"] == "rwse":
        transform = AddRandomWalkPE(spec["size"])
    else:
        transform = AddLaplacianEigenvectorPE(spec["size"])
    return lambda: [transform(g.clone()) for g in graphs]


def main():
    spec = json.load(sys.stdin)
    if spec["task"] not in ("gps", "rwse", "lap_pe"):
        return json.dump(None, sys.stdout)
    torch.manual_seed(0)
    torch.set_num_threads(spec["threads"])
    times = []
    with torch.inference_mode():
        run = step(spec)
        for _ in range(3):
            run()
        begin = time.perf_counter()
        while len(times) < spec["runs"] or time.perf_counter() - begin < spec["seconds"]:
            start = time.perf_counter()
            run()
            times.append((time.perf_counter() - start) * 1e3)
    json.dump(
        {
            "milliseconds_min": min(times),
            "milliseconds_median": statistics.median(times),
            "peer": f"PyTorch {torch.__version__}, PyG {torch_geometric.__version__}",
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
