//! `convert`: official checkpoints to model folders, official options to configurations.

use std::fmt::Write;

use anyhow::bail;
use candle_graph::encodings::{EigenvectorScale, Rotational};
use candle_graph::spectral::LaplacianNorm;
use candle_graph_weights::checkpoint::{CONFIG_FILE, WEIGHTS_FILE};
use candle_graph_weights::convert::graphgym::{self, GraphGymOptions};
use candle_graph_weights::convert::haiku;
use candle_graph_weights::{Limits, sharded};

use crate::args::{ConvertArgs, Layout};
use crate::console;

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<()> {
    let present = |name: &str| args.output.join(name).exists();
    if !args.force
        && let Some(name) = [CONFIG_FILE, WEIGHTS_FILE]
            .iter()
            .find(|name| present(name))
    {
        bail!(
            "{}: there is a checkpoint already; give --force to replace it",
            args.output.join(name).display()
        );
    }
    if present(sharded::INDEX_FILE) {
        bail!(
            "{}: the folder holds a checkpoint in shards; choose another folder or remove it first",
            args.output.join(sharded::INDEX_FILE).display()
        );
    }
    if args.from != Layout::Graphgym && has_graphgym_options(args) {
        bail!(
            "--read-rwpse-as-rrwp, --pretrained-options, --laplacian-coordinates and \
             --features-begin-with-coordinates are for --from graphgym"
        );
    }
    let mut text = String::new();
    let Some(ckpt) = &args.checkpoint else {
        let configured = match args.from {
            Layout::Graphgym => graphgym::configure(&args.options, &graphgym_options(args))?,
            Layout::Haiku => haiku::configure(&args.options)?,
        };
        let path = configured.config.write(&args.output)?;
        write_notes(&mut text, &configured.notes)?;
        writeln!(text, "wrote {}", path.display())?;
        let model = configured.config.model.model_type();
        writeln!(text, "{model} without weights")?;
        return console::print(&text);
    };
    let limits = Limits::default();
    let converted = match args.from {
        Layout::Graphgym => {
            graphgym::convert(ckpt, &args.options, &graphgym_options(args), &limits)?
        }
        Layout::Haiku => haiku::convert(ckpt, &args.options, &limits)?,
    };
    let written = converted.checkpoint.write(&args.output)?;
    write_notes(&mut text, &converted.notes)?;
    if !converted.ignored.is_empty() {
        let count = converted.ignored.len();
        writeln!(text, "left out {count} tensors that have no effect")?;
        if args.verbose {
            for name in &converted.ignored {
                writeln!(text, "  {name}")?;
            }
        }
    }
    for path in written {
        writeln!(text, "wrote {}", path.display())?;
    }
    let config = converted.checkpoint.config();
    writeln!(
        text,
        "{} with {} parameters",
        config.model.model_type(),
        converted.checkpoint.num_parameters()
    )?;
    console::print(&text)
}

fn has_graphgym_options(args: &ConvertArgs) -> bool {
    args.read_rwpse_as_rrwp
        || args.pretrained_options.is_some()
        || args.laplacian_coordinates.is_some()
        || args.features_begin_with_coordinates
}

fn graphgym_options(args: &ConvertArgs) -> GraphGymOptions {
    GraphGymOptions {
        read_rwpse_as_rrwp: args.read_rwpse_as_rrwp,
        pretrained_options: args.pretrained_options.clone(),
        coordinates: args
            .laplacian_coordinates
            .map(|count| Rotational::Eigenvectors {
                count,
                trivial: true,
                laplacian_norm: LaplacianNorm::None,
                scale: EigenvectorScale::Unit,
            }),
        features_begin_with_coordinates: args.features_begin_with_coordinates,
    }
}

fn write_notes(text: &mut String, notes: &[String]) -> std::fmt::Result {
    notes
        .iter()
        .try_for_each(|note| writeln!(text, "note: {note}"))
}
