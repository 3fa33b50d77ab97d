//! Positional and structural encoders (`posenc_…`).

use candle_graph::encodings::{EigvecNorm, Electrostatic, Graphormer, HeatKernel, LapPe, Rwse};
use candle_graph::nn::{
    EigenvectorSet, KernelEncoder, LapPeEncoderConfig, PositionalEncoderConfig,
    RotationalFeaturesConfig, SignInvariantPooling,
};
use candle_graph::spectral::LaplacianNorm;

use super::times::times;
use crate::convert::options::Options;
use crate::error::Result;

/// The official names of the encoders, without `posenc_`.
pub(super) const POSITIONAL_ENCODERS: &[&str] = &[
    "LapPE",
    "RWSE",
    "HKdiagSE",
    "ElstaticSE",
    "SignNet",
    "EquivStableLapPE",
    "GraphormerBias",
];

/// The statistics of `posenc_ElstaticSE` are as many as these.
const ELECTROSTATIC_STATISTICS: usize = 10;

/// The positional encoder `name`, which the node encoder asks for.
pub(super) fn positional_encoder(options: &Options, name: &str) -> Result<PositionalEncoderConfig> {
    let section = format!("posenc_{name}");
    let enable = format!("{section}.enable");
    if !options.bool(&enable, false)? {
        return Err(options.refuse(
            &enable,
            format!(
                "off, but the node encoder asks for `{name}`; the official code stops for want of \
                 its values"
            ),
        ));
    }
    let section = Section {
        options,
        name: &section,
    };
    match name {
        "LapPE" => lap_pe(&section),
        "RWSE" => rwse(&section),
        "HKdiagSE" => heat_kernel(&section),
        "ElstaticSE" => electrostatic(&section),
        "SignNet" => sign_net(&section),
        "EquivStableLapPE" => equiv_stable(&section),
        "GraphormerBias" => graphormer(&section),
        other => Err(options.refuse(
            "dataset.node_encoder_name",
            format!("positional encoder `{other}` is not known"),
        )),
    }
}

/// One section of the options.
struct Section<'a> {
    options: &'a Options,
    name: &'a str,
}

impl Section<'_> {
    fn path(&self, option: &str) -> String {
        format!("{}.{option}", self.name)
    }

    fn refuse(&self, option: &str, problem: impl std::fmt::Display) -> crate::Error {
        self.options.refuse(&self.path(option), problem)
    }

    /// `dim_pe`.
    fn dim(&self) -> Result<usize> {
        self.options.width(&self.path("dim_pe"), 16)
    }

    /// `layers` of a perceptron: the official code makes one map for 1 and at least two for all
    /// other numbers.
    fn perceptron_layers(&self) -> Result<usize> {
        Ok(match self.options.layers(&self.path("layers"), 3)? {
            0 => 2,
            layers => layers,
        })
    }

    /// `raw_norm_type`: every name but `BatchNorm` means none.
    fn raw_norm(&self) -> Result<bool> {
        let path = self.path("raw_norm_type");
        let name = self.options.text(&path, "none")?;
        match name.to_lowercase().as_str() {
            "batchnorm" => Ok(true),
            "none" => Ok(false),
            _ => {
                self.options.note(format!(
                    "option `{path}`: the official code takes `{name}` for none, and so it is here"
                ));
                Ok(false)
            }
        }
    }

    /// The eigenvectors that the subsection `eigen` describes.
    fn eigen(&self) -> Result<LapPe> {
        // An approximation of what is computed here.
        let lanczos = self.path("eigen.use_lanczos");
        (self.options).without_effect_noted(&[(&lanczos, serde_json::json!(false))]);
        Ok(LapPe {
            frequencies: self.frequencies()?,
            laplacian_norm: self.laplacian_norm()?,
            eigvec_norm: self.eigvec_norm()?,
        })
    }

    fn frequencies(&self) -> Result<usize> {
        self.options.width(&self.path("eigen.max_freqs"), 10)
    }

    fn eigvec_norm(&self) -> Result<EigvecNorm> {
        let option = "eigen.eigvec_norm";
        let name = self.options.text(&self.path(option), "L2")?;
        name.parse().map_err(|error| self.refuse(option, error))
    }

    fn laplacian_norm(&self) -> Result<LaplacianNorm> {
        let option = "eigen.laplacian_norm";
        // YAML's own null stands for the name `none` as well.
        let name = match self.options.contains(&self.path(option)) {
            true => self.options.text(&self.path(option), "none")?,
            false => "sym".to_string(),
        };
        match name.to_lowercase().as_str() {
            "none" => Ok(LaplacianNorm::None),
            "sym" => Ok(LaplacianNorm::Sym),
            "rw" => {
                self.options.note(format!(
                    "option `{}`: the official code hands the random walk Laplacian, which is not \
                     symmetric, to a solver that reads its lower triangle only; \
                     `rw_lower_triangle` reproduces the numbers that the model was trained on, \
                     which depend on the numbering of the nodes",
                    self.path(option)
                ));
                Ok(LaplacianNorm::RwLowerTriangle)
            }
            _ => Err(self.refuse(option, format!("`{name}` is not known (none, sym, rw)"))),
        }
    }

    /// The encoder of a row of kernel values.
    fn kernel_encoder(&self) -> Result<KernelEncoder> {
        let name = self.options.text(&self.path("model"), "none")?;
        match name.to_lowercase().as_str() {
            "linear" => Ok(KernelEncoder::Linear),
            "mlp" => Ok(KernelEncoder::Mlp {
                layers: self.perceptron_layers()?,
            }),
            _ => Err(self.refuse("model", format!("`{name}` is not known (Linear, MLP)"))),
        }
    }
}

fn lap_pe(section: &Section<'_>) -> Result<PositionalEncoderConfig> {
    let (dim, set) = lap_pe_set(section)?;
    Ok(PositionalEncoderConfig::LapPe(LapPeEncoderConfig {
        recipe: section.eigen()?,
        dim,
        set,
        post_layers: section.options.layers(&section.path("post_layers"), 0)?,
        raw_norm: section.raw_norm()?,
    }))
}

/// Learned coordinates of rotary encodings (`LapRoPE`). The official code decomposes one Laplacian
/// for both; where `posenc_LapPE` is on, it is the one that is named there.
pub(super) fn lap_rope(options: &Options) -> Result<RotationalFeaturesConfig> {
    let section = Section {
        options,
        name: "posenc_LapRoPE",
    };
    let lap_pe = Section {
        options,
        name: "posenc_LapPE",
    };
    let enable = section.path("enable");
    let read_lap_pe = options.bool("posenc_LapPE.enable", false)?;
    if !options.bool(&enable, false)? && !read_lap_pe {
        return Err(options.refuse(
            &enable,
            "off, but gt.graphrope.encoder asks for `LapRoPE`; the official code stops for want of \
             its values",
        ));
    }
    let own = section.eigen()?;
    let recipe = match read_lap_pe {
        true => lap_pe.eigen()?,
        false => own.clone(),
    };
    if recipe != own {
        options.note(format!(
            "options `{}`: the official code computes eigenvectors as `posenc_LapPE` says, for \
             `posenc_LapRoPE` too, and so it is here",
            section.path("eigen")
        ));
    }
    let raw_norm = section.raw_norm()?;
    if raw_norm && recipe.frequencies != own.frequencies {
        return Err(section.refuse(
            "eigen.max_freqs",
            format!(
                "{} for a norm of the {} eigenvectors of posenc_LapPE.eigen.max_freqs",
                own.frequencies, recipe.frequencies
            ),
        ));
    }
    let (dim, set) = lap_pe_set(&section)?;
    Ok(RotationalFeaturesConfig::LapPe(LapPeEncoderConfig {
        recipe,
        dim,
        set,
        post_layers: options.layers(&section.path("post_layers"), 0)?,
        raw_norm,
    }))
}

/// The width of LapPE, and how it gets from pairs to a vector.
fn lap_pe_set(section: &Section<'_>) -> Result<(usize, EigenvectorSet)> {
    let options = section.options;
    let dim = section.dim()?;
    let model = options.text(&section.path("model"), "none")?;
    let set = match model.as_str() {
        "DeepSet" => EigenvectorSet::DeepSet {
            layers: section.perceptron_layers()?,
        },
        "Transformer" => {
            let heads = options.width(&section.path("n_heads"), 4)?;
            if !dim.is_multiple_of(heads) {
                return Err(
                    section.refuse("n_heads", format!("{heads} do not divide dim_pe {dim}"))
                );
            }
            EigenvectorSet::Transformer {
                layers: options.layers(&section.path("layers"), 3)?,
                heads,
            }
        }
        other => {
            let known = format!("`{other}` is not known (DeepSet, Transformer)");
            return Err(section.refuse("model", known));
        }
    };
    Ok((dim, set))
}

fn rwse(section: &Section<'_>) -> Result<PositionalEncoderConfig> {
    let times = times(section.options, section.name, "")?;
    if times.contains(&0) {
        return Err(section.refuse("kernel", "a walk of 0 steps says nothing of a graph"));
    }
    Ok(PositionalEncoderConfig::Rwse {
        recipe: Rwse {
            times: times.into_iter().map(|time| time as usize).collect(),
        },
        dim: section.dim()?,
        encoder: section.kernel_encoder()?,
        raw_norm: section.raw_norm()?,
    })
}

fn heat_kernel(section: &Section<'_>) -> Result<PositionalEncoderConfig> {
    Ok(PositionalEncoderConfig::HeatKernel {
        recipe: HeatKernel {
            times: times(section.options, section.name, "")?,
        },
        dim: section.dim()?,
        encoder: section.kernel_encoder()?,
        raw_norm: section.raw_norm()?,
    })
}

fn electrostatic(section: &Section<'_>) -> Result<PositionalEncoderConfig> {
    let columns = times(section.options, section.name, "range(10)")?.len();
    if columns != ELECTROSTATIC_STATISTICS {
        return Err(section.refuse(
            "kernel",
            format!("{columns} times, but there are always {ELECTROSTATIC_STATISTICS} statistics"),
        ));
    }
    Ok(PositionalEncoderConfig::Electrostatic {
        recipe: Electrostatic {},
        dim: section.dim()?,
        encoder: section.kernel_encoder()?,
        raw_norm: section.raw_norm()?,
    })
}

fn sign_net(section: &Section<'_>) -> Result<PositionalEncoderConfig> {
    let options = section.options;
    let model = options.text(&section.path("model"), "none")?;
    let pooling = match model.as_str() {
        "MLP" => SignInvariantPooling::Concatenate,
        "DeepSet" => SignInvariantPooling::Sum,
        other => {
            return Err(section.refuse("model", format!("`{other}` is not known (MLP, DeepSet)")));
        }
    };
    let post_layers = options.layers(&section.path("post_layers"), 0)?;
    if post_layers == 0 {
        return Err(section.refuse("post_layers", "must be at least 1"));
    }
    let raw_norm = section.path("raw_norm_type");
    options.without_effect_noted(&[(&raw_norm, "none".into())]);
    Ok(PositionalEncoderConfig::SignNet {
        recipe: section.eigen()?,
        dim: section.dim()?,
        // The official code makes a first and a last layer, whatever the number.
        layers: options.layers(&section.path("layers"), 3)?.max(2),
        hidden_dim: options.width(&section.path("phi_hidden_dim"), 64)?,
        output_dim: options.width(&section.path("phi_out_dim"), 4)?,
        pooling,
        post_layers,
    })
}

/// The official code decomposes the Laplacian that `posenc_LapPE` names, and where that section is
/// on, takes the other parameters from there too.
fn equiv_stable(section: &Section<'_>) -> Result<PositionalEncoderConfig> {
    let options = section.options;
    let lap_pe = Section {
        options,
        name: "posenc_LapPE",
    };
    let laplacian_norm = lap_pe.laplacian_norm()?;
    let own = options.text(&section.path("eigen.laplacian_norm"), "none")?;
    let used = match laplacian_norm {
        LaplacianNorm::RwLowerTriangle => "rw",
        other => other.name(),
    };
    if options.contains(&section.path("eigen.laplacian_norm")) && own.to_lowercase() != used {
        options.note(format!(
            "option `{}` (`{own}`) is ignored by the official code: it decomposes the Laplacian of \
             `posenc_LapPE.eigen.laplacian_norm`, which is `{used}`",
            section.path("eigen.laplacian_norm")
        ));
    }
    let frequencies = section.frequencies()?;
    let mut eigvec_norm = section.eigvec_norm()?;
    if options.bool("posenc_LapPE.enable", false)? {
        let computed = lap_pe.frequencies()?;
        if computed != frequencies {
            return Err(section.refuse(
                "eigen.max_freqs",
                format!(
                    "{frequencies}, but with `posenc_LapPE.enable` the official code computes the \
                     {computed} of `posenc_LapPE.eigen.max_freqs`"
                ),
            ));
        }
        eigvec_norm = lap_pe.eigvec_norm()?;
    }
    Ok(PositionalEncoderConfig::EquivStable {
        recipe: LapPe {
            frequencies,
            laplacian_norm,
            eigvec_norm,
        },
        raw_norm: section.raw_norm()?,
    })
}

fn graphormer(section: &Section<'_>) -> Result<PositionalEncoderConfig> {
    let options = section.options;
    let count =
        |option: &str| match options.bounded(&section.path(option), 0, Options::MAX_WIDTH)? {
            0 => Err(section.refuse(option, "it must be given and be at least 1")),
            count => Ok(count),
        };
    let degrees_only = options.bool(&section.path("node_degrees_only"), false)?;
    if options.usize(&section.path("dim_pe"), 0)? != 0 {
        return Err(section.refuse("dim_pe", "must be 0: the encoder appends no columns"));
    }
    let edge_types = options.bounded("dataset.edge_encoder_num_types", 0, Options::MAX_WIDTH)?;
    Ok(PositionalEncoderConfig::Graphormer {
        recipe: Graphormer {
            // Degrees alone have no distances; the official code does not ask for a number then.
            spatial_types: match degrees_only {
                true => options
                    .bounded(&section.path("num_spatial_types"), 1, Options::MAX_WIDTH)?
                    .max(1),
                false => count("num_spatial_types")?,
            },
            in_degrees: count("num_in_degrees")?,
            out_degrees: count("num_out_degrees")?,
            degrees_only,
            // The official code looks whether the graphs have edge features; without categories
            // for them it could not read any.
            edge_types: !degrees_only && edge_types > 0,
        },
        heads: options.width("graphormer.num_heads", 4)?,
        edge_types,
        graph_token: options.bool("graphormer.use_graph_token", true)?,
    })
}
