//! Positional encodings (`model.posenc_config`).

use candle_graph::encodings::{DirectedWalk, Magnetic, Svd};
use candle_graph::nn::MagLapNetConfig;
use candle_graph::spectral::Potential;
use candle_graph_models::digraph::{DigraphEncoderConfig, DirectedPositionalConfig};
use serde_json::Value;

use crate::convert::options::Options;
use crate::error::Result;

/// Options of encodings that a model may have no use for.
const OPTIONS: [&str; 17] = [
    "model.posenc_config.concatenate_eigenvalues",
    "model.posenc_config.do_also_reverse",
    "model.posenc_config.excl_k_eigenvectors",
    "model.posenc_config.exclude_canonical",
    "model.posenc_config.maglap_l2_norm",
    "model.posenc_config.maglap_net_type",
    "model.posenc_config.maglap_norm_comps_sep",
    "model.posenc_config.maglap_q",
    "model.posenc_config.maglap_q_absolute",
    "model.posenc_config.maglap_sign_rotate",
    "model.posenc_config.maglap_symmetric_norm",
    "model.posenc_config.maglap_transformer",
    "model.posenc_config.maglap_use_gnn",
    "model.posenc_config.maglap_use_signnet",
    "model.posenc_config.ppr_restart_probability",
    "model.posenc_config.random_walk_steps",
    "model.posenc_config.relative_positional_encodings",
];

/// The same facts in the section `eigendecomposition` and in `model.posenc_config`.
const EIGENDECOMPOSITION: [(&str, &str); 8] = [
    ("k", "top_k_eigenvectors"),
    ("k_excl", "excl_k_eigenvectors"),
    ("q", "maglap_q"),
    ("q_absolute", "maglap_q_absolute"),
    ("norm_comps_sep", "maglap_norm_comps_sep"),
    ("sign_rotate", "maglap_sign_rotate"),
    ("use_symmetric_norm", "maglap_symmetric_norm"),
    ("l2_norm", "maglap_l2_norm"),
];

pub(super) fn positional_config(
    options: &Options,
    hidden_dim: usize,
    encoder: &DigraphEncoderConfig,
) -> Result<Option<DirectedPositionalConfig>> {
    options.without_effect(&OPTIONS);
    options.without_effect(&["model.posenc_config.top_k_eigenvectors"]);
    check_eigendecomposition(options)?;
    let option = "model.posenc_config.posenc_type";
    let kind = options.text(option, "")?;
    let positional = match kind.as_str() {
        "" => return Ok(None),
        "maglap" => magnetic(options, hidden_dim)?,
        "rw" => walk(options, true)?,
        "ppr" => walk(options, false)?,
        "svd" => {
            options.note(
                "singular vectors keep their signs; the official code multiplies them by random ones, \
                 in inference too",
            );
            DirectedPositionalConfig::Svd(Svd {
                rank: options.width("model.posenc_config.top_k_eigenvectors", 10)?,
            })
        }
        other => {
            return Err(options.refuse(
                option,
                format!("`{other}` is not known (maglap, rw, ppr, svd, or empty)"),
            ));
        }
    };
    let relative = match &positional {
        DirectedPositionalConfig::Magnetic { relative, .. }
        | DirectedPositionalConfig::Walk { relative, .. } => *relative,
        _ => false,
    };
    if relative && !matches!(encoder, DigraphEncoderConfig::Transformer(_)) {
        return Err(options.refuse(
            "model.posenc_config.relative_positional_encodings",
            "they take part in attention, and the layers of `model.model_type` have none",
        ));
    }
    Ok(Some(positional))
}

/// q of the Magnetic Laplacian.
pub(super) fn potential(options: &Options) -> Result<Potential> {
    let option = "model.posenc_config.maglap_q";
    let q = options.float(option, Some(0.25))?;
    let q = q.ok_or_else(|| options.refuse(option, "expected a number, found null"))?;
    let potential = match options.bool("model.posenc_config.maglap_q_absolute", true)? {
        true => Potential::Absolute(q),
        false => Potential::Relative(q),
    };
    match potential.check() {
        Ok(()) => Ok(potential),
        Err(error) => Err(options.refuse(option, error)),
    }
}

fn relative(options: &Options) -> Result<bool> {
    options.bool("model.posenc_config.relative_positional_encodings", true)
}

fn walk(options: &Options, steps: bool) -> Result<DirectedPositionalConfig> {
    let option = "model.posenc_config.ppr_restart_probability";
    let restart = options.float(option, Some(0.2))?;
    // Walks go without PageRank where there is no probability; PageRank alone does not.
    let restart = restart.filter(|&p| !steps || p != 0.0);
    if let Some(p) = restart.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
        return Err(options.refuse(option, format!("{p} is no probability above 0")));
    }
    if !steps && restart.is_none() {
        return Err(options.refuse(option, "personalised PageRank needs it"));
    }
    let steps = match steps {
        // The official code takes the first step in any case.
        true => options
            .layers("model.posenc_config.random_walk_steps", 3)?
            .max(1),
        false => 0,
    };
    Ok(DirectedPositionalConfig::Walk {
        walks: DirectedWalk {
            steps,
            restart,
            also_reverse: options.bool("model.posenc_config.do_also_reverse", true)?,
        },
        relative: relative(options)?,
    })
}

fn magnetic(options: &Options, hidden_dim: usize) -> Result<DirectedPositionalConfig> {
    let flag =
        |name: &str, default: bool| options.bool(&format!("model.posenc_config.{name}"), default);
    // Two defaults of the official code disagree about these.
    for name in ["top_k_eigenvectors", "excl_k_eigenvectors"] {
        let option = format!("model.posenc_config.{name}");
        if options.get(&option).is_none() {
            return Err(options.refuse(&option, "eigenvectors need it"));
        }
    }
    let q = potential(options)?;
    let complex = q.value() != 0.0;
    let l2_norm = flag("maglap_l2_norm", true)?;
    let data_flow = options.text("dataset.name", "")?.contains("-df");
    if !l2_norm && !data_flow {
        options.note(
            "option `model.posenc_config.maglap_l2_norm` has no effect in the official code for this data \
             set and none here: eigenvectors have unit length",
        );
    }
    let eigenvectors = Magnetic {
        k: options.width("model.posenc_config.top_k_eigenvectors", 10)?,
        excluded: options.bounded(
            "model.posenc_config.excl_k_eigenvectors",
            0,
            Options::MAX_WIDTH,
        )?,
        q,
        symmetric_norm: flag("maglap_symmetric_norm", false)?,
        sign_rotate: flag("maglap_sign_rotate", true)?,
        root: None,
        l2_norm: l2_norm || !data_flow,
        separate_parts: flag("maglap_norm_comps_sep", false)?,
    };
    let relative = relative(options)?;
    let naive = options.text("model.posenc_config.maglap_net_type", "signnet")? == "naive";
    if relative && (naive || !complex) {
        return Err(options.refuse(
            "model.posenc_config.relative_positional_encodings",
            "they are complex, which takes `maglap_q` above 0 and a `maglap_net_type` other than `naive`",
        ));
    }
    if naive && !complex {
        return Err(options.refuse(
            "model.posenc_config.maglap_net_type",
            "`naive` maps real and imaginary parts, and eigenvectors for `maglap_q` 0 are real",
        ));
    }
    let network = match naive {
        true => MagLapNetConfig::Naive,
        false => elementwise(options, hidden_dim, complex)?,
    };
    Ok(DirectedPositionalConfig::Magnetic {
        eigenvectors,
        network,
        relative,
    })
}

fn elementwise(options: &Options, hidden_dim: usize, complex: bool) -> Result<MagLapNetConfig> {
    let flag =
        |name: &str, default: bool| options.bool(&format!("model.posenc_config.{name}"), default);
    let sign_invariant = flag("maglap_use_signnet", true)?;
    if !complex && !sign_invariant {
        options.note(
            "eigenvectors keep their signs; the official code multiplies those of `maglap_q` 0 by random \
             ones, in inference too",
        );
    }
    // A thirty-second of the width, in the official code without an option.
    let element_dim = hidden_dim / 32;
    if element_dim == 0 {
        return Err(options.refuse(
            "model.d_model",
            format!("{hidden_dim}, but `maglap` needs a width of at least 32"),
        ));
    }
    let attention = flag("maglap_transformer", false)?;
    if attention && options.bool("model.batch_norm", false)? {
        return Err(options.refuse(
            "model.batch_norm",
            "with `maglap_transformer` the official code cannot run it",
        ));
    }
    let eigenvalues = flag("concatenate_eigenvalues", false)?;
    let values = element_dim * if complex { 2 } else { 1 } + usize::from(eigenvalues);
    let heads = options.width("model.attention_config.num_heads", 4)?;
    if attention && heads > values {
        options.note(format!(
            "the {heads} heads among eigenvectors of {values} values have width 0 in the official code, and \
             became one head with weights of 0, which does the same"
        ));
    }
    Ok(MagLapNetConfig::Elementwise {
        element_dim,
        message_passing: flag("maglap_use_gnn", false)?,
        sign_invariant,
        eigenvalues,
        attention_heads: attention.then_some(if heads > values { 1 } else { heads }),
    })
}

/// Refuses a description of the eigenvectors in use that contradicts the model's options.
fn check_eigendecomposition(options: &Options) -> Result<()> {
    let same = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    };
    for (name, option) in EIGENDECOMPOSITION {
        let (name, option) = (
            format!("eigendecomposition.{name}"),
            format!("model.posenc_config.{option}"),
        );
        if let (Some(used), Some(meant)) = (options.get(&name), options.get(&option))
            && !same(used, meant)
        {
            return Err(options.refuse(&name, format!("{used}, but `{option}` is {meant}")));
        }
    }
    Ok(())
}
