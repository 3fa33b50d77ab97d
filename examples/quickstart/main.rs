//! The library in twenty lines: load a checkpoint, build a molecule, predict and embed.
//!
//! ```text
//! cargo run --release --example quickstart
//! ```

use anyhow::Result;
use candle_core::Device;
use candle_graph::graph::{Features, Graph};
use candle_graph_models::Predictor;
use candle_graph_weights::load_model;

fn main() -> Result<()> {
    let model = load_model(&candle_graph_examples::zoo("grit-zinc"), &Device::Cpu)?;
    let predictor = Predictor::new(model, Device::Cpu);

    // Ethanol as the model's data set writes it: atom types C = 0 and O = 1, single bonds = 1.
    let ethanol = Graph::builder(3)
        .id("ethanol")
        .edges([[0, 1], [1, 2]])
        .undirected(true)
        .node_features(Features::categorical(1, vec![0, 0, 1]))
        .edge_features(Features::categorical(1, vec![1, 1]))
        .build()?;

    let prediction = predictor.predict(&[&ethanol])?;
    println!("penalised logP of ethanol: {:.4}", prediction[0].data[0]);
    let embedding = predictor.embed_graphs(&[&ethanol])?;
    println!("embedding of {} values", embedding[0].width);
    Ok(())
}
