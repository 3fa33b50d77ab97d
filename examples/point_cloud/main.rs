//! A point cloud through the transformer of the rotary paper (WIRE, section 4.2): its graph of 20
//! nearest neighbours, the 10 lowest Laplacian eigenvectors as coordinates, and 4 layers of width
//! 128.
//!
//! ```text
//! cargo run --release --example point_cloud
//! cargo run --release --example point_cloud -- --points scan.xyz --model my-checkpoint
//! cargo run --release --example point_cloud -- --attention performer --task segmentation
//! ```
//!
//! Without `--points` the cloud is a torus. No trained weights were released, so that without
//! `--model` the weights are untrained: the program then shows what the pipeline costs, and what a
//! rigid motion of the points does to the positions that rotate queries and keys. To the spectral
//! ones it does nothing (remark 2 of the paper); the Cartesian ones of ordinary rotary encodings
//! turn with the points.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use candle_core::{DType, Device};
use candle_graph::datasets::read_points;
use candle_graph::encodings::ROTATIONAL;
use candle_graph::graph::{Graph, PointCloud};
use candle_graph_models::wire_benchmarks::WireBenchmark;
use candle_graph_models::{PredictionLevel, Predictor, untrained};
use candle_graph_weights::load_model;
use clap::{Parser, ValueEnum};

/// Runs a point cloud transformer with rotary encodings.
#[derive(Parser)]
struct Args {
    /// Text file of points, `x y z` a line; further columns are passed over.
    #[arg(long)]
    points: Option<PathBuf>,
    /// Points of the torus.
    #[arg(long, default_value_t = 2048, conflicts_with = "points")]
    count: usize,
    /// Nearest neighbours of every point.
    #[arg(long, default_value_t = 20)]
    neighbours: usize,
    /// A checkpoint folder; without it the weights are untrained.
    #[arg(long, conflicts_with_all = ["task", "attention"])]
    model: Option<PathBuf>,
    /// What is predicted.
    #[arg(long, value_enum, default_value_t = Task::Classification)]
    task: Task,
    /// Attention of the layers.
    #[arg(long, value_enum, default_value_t = Attention::Softmax)]
    attention: Attention,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Task {
    /// One class for the cloud (ModelNet40).
    Classification,
    /// One part for every point (ShapeNet).
    Segmentation,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Attention {
    /// All points see all points.
    Softmax,
    /// ReLU linear attention.
    Performer,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let points = match &args.points {
        Some(path) => Points::read(path)?,
        None => Points::torus(args.count),
    };
    let predictor = predictor(&args)?;

    let (graph, built) = timed(|| points.graph(args.neighbours))?;
    let plan = predictor.model().encoding_plan();
    let (encodings, encoded) = timed(|| Ok(plan.compute_all(&[&graph], 0)?))?;
    let batch = predictor.batch(&[&graph], &encodings, 0)?;
    let (prediction, predicted) = timed(|| Ok(predictor.model().forward(&batch)?))?;
    println!(
        "{} points, {} directed edges",
        graph.num_nodes(),
        graph.num_edges()
    );
    println!("nearest neighbours {built:8.1} ms");
    println!("eigenvectors       {encoded:8.1} ms");
    println!("forward pass       {predicted:8.1} ms");

    let classes = prediction.argmax(1)?.to_vec1::<u32>()?;
    match predictor.model().prediction_level() {
        PredictionLevel::Graph => println!("class {}", classes.first().context("no prediction")?),
        _ => {
            let mut counts = vec![0usize; predictor.model().output_dim()];
            for class in classes {
                if let Some(count) = counts.get_mut(class as usize) {
                    *count += 1;
                }
            }
            let parts = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            let parts: Vec<String> = parts.map(|(p, count)| format!("{p}: {count}")).collect();
            println!("points of every part: {}", parts.join(", "));
        }
    }
    if args.model.is_none() {
        println!("(untrained weights: the class means nothing)");
    }

    let moved = points.moved();
    let coordinates = |graph: &Graph| -> Result<Vec<Vec<f64>>> {
        let encoding = plan.compute(graph, 0)?;
        let found = encoding
            .get(ROTATIONAL)
            .context("the model does not rotate")?;
        let rows = found.data.chunks_exact(found.width);
        Ok(rows
            .map(|row| row.iter().map(|&v| f64::from(v)).collect())
            .collect())
    };
    let before = coordinates(&graph)?;
    let after = coordinates(&moved.graph(args.neighbours)?)?;
    println!("a rigid motion changes positions, up to sign, by at most");
    println!(
        "  {:.1e} of their largest (spectral)",
        change(&before, &after)
    );
    let cartesian = |points: &Points| -> Vec<Vec<f64>> {
        points.0.iter().map(|point| point.to_vec()).collect()
    };
    println!(
        "  {:.1e} of their largest (Cartesian)",
        change(&cartesian(&points), &cartesian(&moved))
    );
    Ok(())
}

fn predictor(args: &Args) -> Result<Predictor> {
    let model = match &args.model {
        Some(folder) => load_model(folder, &Device::Cpu)?,
        None => {
            let dataset = match args.task {
                Task::Classification => "modelnet40",
                Task::Segmentation => "shapenet",
            };
            let attention = match args.attention {
                Attention::Softmax => "softmax",
                Attention::Performer => "performer",
            };
            let benchmark: WireBenchmark = format!("{dataset}/{attention}").parse()?;
            let weights = untrained(1, DType::F32, &Device::Cpu);
            benchmark.config().build(weights)?
        }
    };
    ensure!(
        model.prediction_level() != PredictionLevel::Edge,
        "the model scores pairs of nodes, and a point cloud has none to score"
    );
    Ok(Predictor::new(model, Device::Cpu))
}

/// What `work` gives, and how many milliseconds it took.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let start = Instant::now();
    let made = work()?;
    Ok((made, start.elapsed().as_secs_f64() * 1e3))
}

/// Points in space.
struct Points(Vec<[f64; 3]>);

impl Points {
    fn read(path: &std::path::Path) -> Result<Self> {
        let cloud = read_points(path, 3)?;
        let points = cloud.coordinates().chunks_exact(3);
        Ok(Self(points.map(|p| [p[0], p[1], p[2]]).collect()))
    }

    /// `count` points spread evenly over the angles of a torus.
    fn torus(count: usize) -> Self {
        // Multiples of powers of the plastic number's inverse fill the unit square evenly.
        const STEPS: [f64; 2] = [0.754_877_666_246_692_8, 0.569_840_290_998_053_3];
        let angle = |i: usize, step: f64| std::f64::consts::TAU * (i as f64 * step).fract();
        let points = (0..count).map(|i| {
            let (around, along) = (angle(i, STEPS[0]), angle(i, STEPS[1]));
            let radius = 1.0 + 0.4 * along.cos();
            [
                radius * around.cos(),
                radius * around.sin(),
                0.4 * along.sin(),
            ]
        });
        Self(points.collect())
    }

    /// The points turned about an oblique axis and moved.
    fn moved(&self) -> Self {
        let (sin, cos) = 0.9f64.sin_cos();
        let (sin_tilt, cos_tilt) = 0.5f64.sin_cos();
        let turn = |[x, y, z]: [f64; 3]| {
            let (x, y) = (cos * x - sin * y, sin * x + cos * y);
            let (y, z) = (cos_tilt * y - sin_tilt * z, sin_tilt * y + cos_tilt * z);
            [x + 3.0, y - 1.0, z + 0.5]
        };
        Self(self.0.iter().copied().map(turn).collect())
    }

    fn graph(&self, neighbours: usize) -> Result<Graph> {
        let cloud = PointCloud::new(3, self.0.iter().flatten().copied())?;
        Ok(cloud.nearest_neighbours(neighbours)?)
    }
}

/// The largest change of a column, whose sign is free, relative to the largest value.
fn change(before: &[Vec<f64>], after: &[Vec<f64>]) -> f64 {
    let columns = before.first().map_or(0, Vec::len);
    let largest = before.iter().flatten().fold(0.0f64, |m, v| m.max(v.abs()));
    let of_column = |column: usize| {
        let with_sign = |sign: f64| {
            let pairs = before.iter().zip(after);
            pairs.fold(0.0f64, |worst, (b, a)| {
                worst.max((b[column] - sign * a[column]).abs())
            })
        };
        with_sign(1.0).min(with_sign(-1.0))
    };
    (0..columns).map(of_column).fold(0.0, f64::max) / largest
}
