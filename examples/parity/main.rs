//! Runs recorded cases of official implementations in this engine and prints the largest
//! difference of the prediction and of every recorded activation.
//!
//! ```text
//! cargo run --release --example parity -- FOLDER...
//! ```
//!
//! [`parity`](candle_graph_examples::parity) says what a case is. Where encodings can be computed
//! value by value, a case runs twice: with the encodings as recorded and with encodings computed
//! here. The program ends with an error if any difference exceeds the tolerance; see
//! [`Difference::passes`](candle_graph_examples::parity::Difference::passes) for the one exception,
//! which is printed whenever it is made.

use std::path::PathBuf;

use anyhow::{Result, bail};
use candle_graph::ops::force_reference;
#[cfg(feature = "host-kernels")]
use candle_graph::ops::on_kernels;
use candle_graph_examples::parity;
use clap::Parser;

/// Compares recorded official results with this engine.
#[derive(Parser)]
struct Args {
    /// Case folders; anything that is not one is passed over.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// Largest difference, absolute for values up to 1 and relative above.
    #[arg(long, default_value_t = 1e-5)]
    tolerance: f64,
    /// Run the reference operations instead of the fused ones.
    #[arg(long)]
    reference: bool,
    /// Run the kernels of GPUs, on the CPU: slow.
    #[cfg(feature = "host-kernels")]
    #[arg(long, conflicts_with = "reference")]
    kernels: bool,
    /// Print every activation, not only the worst of each kind.
    #[arg(long)]
    verbose: bool,
}

/// What the operations run.
enum Path {
    Fused,
    Reference,
    #[cfg(feature = "host-kernels")]
    Kernels,
}

impl Args {
    fn path(&self) -> Path {
        #[cfg(feature = "host-kernels")]
        if self.kernels {
            return Path::Kernels;
        }
        match self.reference {
            true => Path::Reference,
            false => Path::Fused,
        }
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let (mut cases, mut failed) = (0, 0);
    for folder in &args.folders {
        if !parity::is_case(folder) {
            eprintln!("{}: no recorded case, passed over", folder.display());
            continue;
        }
        cases += 1;
        let run = || parity::run(folder, args.tolerance);
        let report = match args.path() {
            Path::Fused => run(),
            Path::Reference => force_reference(run),
            #[cfg(feature = "host-kernels")]
            Path::Kernels => on_kernels(run),
        };
        let passed = match report {
            Ok(report) => {
                report.print(args.tolerance, args.verbose);
                report.passes(args.tolerance)
            }
            Err(error) => {
                println!("{}: FAILED: {error:#}", folder.display());
                false
            }
        };
        failed += usize::from(!passed);
    }
    println!("{} passed, {failed} failed", cases - failed);
    if cases == 0 {
        bail!("no case was found");
    }
    if failed > 0 {
        bail!("{failed} of {cases} cases differ by more than the tolerance");
    }
    Ok(())
}
