//! Encoding recipes as the command line spells them.

use candle_graph::encodings::{
    DirectedWalk, EigvecNorm, Electrostatic, EncodingPlan, EncodingRecipe, Graphormer, HeatKernel,
    LapPe, MagNet, Magnetic, Rrwp, Rwse, Svd,
};
use candle_graph::spectral::{LaplacianNorm, Potential};

/// The plan of recipes separated by commas, such as `rrwp:21,rwse:1-20`.
pub(crate) fn parse(text: &str) -> Result<EncodingPlan, String> {
    let recipes = text.split(',').map(str::trim).map(recipe);
    EncodingPlan::new(recipes.collect::<Result<_, _>>()?).map_err(|error| error.to_string())
}

fn recipe(text: &str) -> Result<EncodingRecipe, String> {
    let refuse = |expected: &str| Err(format!("`{text}`: {expected}"));
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        ["rrwp", steps, rest @ ..] => match (steps.parse(), rest) {
            (Ok(steps), []) => Ok(EncodingRecipe::Rrwp(Rrwp {
                steps,
                shortest_path: false,
            })),
            (Ok(steps), ["spd"]) => Ok(EncodingRecipe::Rrwp(Rrwp {
                steps,
                shortest_path: true,
            })),
            _ => refuse("write rrwp:STEPS or rrwp:STEPS:spd"),
        },
        ["rwse", times] => match range(times, 1, 100_000) {
            Some(times) => Ok(EncodingRecipe::Rwse(Rwse {
                times: times.map(|t| t as usize).collect(),
            })),
            None => refuse("write rwse:FROM-TO with 1 <= FROM <= TO <= 100000, or rwse:TO"),
        },
        ["hkdiag", times] => match range(times, 0, 100_000) {
            Some(times) => Ok(EncodingRecipe::HeatKernel(HeatKernel {
                times: times.collect(),
            })),
            None => refuse("write hkdiag:FROM-TO with FROM <= TO <= 100000, or hkdiag:TO"),
        },
        ["elstatic"] => Ok(EncodingRecipe::Electrostatic(Electrostatic {})),
        [kind @ ("lappe" | "signnet"), frequencies, rest @ ..] if rest.len() <= 2 => {
            let Ok(frequencies) = frequencies.parse() else {
                return refuse(&format!(
                    "write {kind}:FREQUENCIES, {kind}:FREQUENCIES:LAPLACIAN or \
                     {kind}:FREQUENCIES:LAPLACIAN:SCALING"
                ));
            };
            let message = |error: candle_graph::Error| format!("`{text}`: {error}");
            let laplacian_norm = rest.first().map(|name| name.parse());
            let eigvec_norm = rest.get(1).map(|name| name.parse());
            let recipe = LapPe {
                frequencies,
                laplacian_norm: laplacian_norm
                    .unwrap_or(Ok(LaplacianNorm::Sym))
                    .map_err(message)?,
                eigvec_norm: eigvec_norm.unwrap_or(Ok(EigvecNorm::L2)).map_err(message)?,
            };
            Ok(match *kind {
                "signnet" => EncodingRecipe::SignNet(recipe),
                _ => EncodingRecipe::LapPe(recipe),
            })
        }
        [
            "graphormer",
            sizes @ ..,
            form @ ("degrees" | "distances" | "paths"),
        ] => {
            let sizes: Vec<usize> = sizes.iter().filter_map(|size| size.parse().ok()).collect();
            match (sizes.as_slice(), parts.len()) {
                (&[spatial_types, in_degrees, out_degrees], 5) => {
                    Ok(EncodingRecipe::Graphormer(Graphormer {
                        spatial_types,
                        in_degrees,
                        out_degrees,
                        degrees_only: *form == "degrees",
                        edge_types: *form == "paths",
                    }))
                }
                _ => refuse(GRAPHORMER),
            }
        }
        ["graphormer", ..] => refuse(GRAPHORMER),
        ["maglap", k, q, options @ ..] => {
            let mut recipe = match (k.parse(), potential(q)) {
                (Ok(k), Some(q)) => Magnetic {
                    k,
                    excluded: 0,
                    q,
                    symmetric_norm: true,
                    sign_rotate: true,
                    root: None,
                    l2_norm: true,
                    separate_parts: false,
                },
                _ => return refuse(MAGLAP),
            };
            for option in options {
                match *option {
                    "none" => recipe.symmetric_norm = false,
                    "raw" => recipe.sign_rotate = false,
                    "abs-max" => recipe.l2_norm = false,
                    "parts" => recipe.separate_parts = true,
                    _ => return refuse(MAGLAP),
                }
            }
            Ok(EncodingRecipe::Magnetic(recipe))
        }
        ["maglap", ..] => refuse(MAGLAP),
        ["walk", steps, options @ ..] => {
            let Ok(steps) = steps.parse() else {
                return refuse(WALK);
            };
            let mut recipe = DirectedWalk {
                steps,
                restart: None,
                also_reverse: false,
            };
            for option in options {
                match (*option, option.parse()) {
                    ("reverse", _) => recipe.also_reverse = true,
                    (_, Ok(p)) if recipe.restart.is_none() => recipe.restart = Some(p),
                    _ => return refuse(WALK),
                }
            }
            Ok(EncodingRecipe::DirectedWalk(recipe))
        }
        ["svd", rank] => match rank.parse() {
            Ok(rank) => Ok(EncodingRecipe::Svd(Svd { rank })),
            Err(_) => refuse("write svd:RANK"),
        },
        ["magnet", q] => match potential(q) {
            Some(q) => Ok(EncodingRecipe::MagNet(MagNet { q })),
            None => refuse("write magnet:Q with a potential such as 0.1 or 0.25/d"),
        },
        _ => refuse(
            "unknown recipe; known: rrwp:STEPS, rrwp:STEPS:spd, rwse:FROM-TO, hkdiag:FROM-TO, \
             elstatic, lappe:FREQUENCIES:LAPLACIAN:SCALING, signnet:FREQUENCIES:LAPLACIAN:SCALING, \
             graphormer:DISTANCES:IN_DEGREES:OUT_DEGREES:FORM, maglap:K:Q, walk:STEPS:RESTART:reverse, \
             svd:RANK, magnet:Q",
        ),
    }
}

const GRAPHORMER: &str = "write graphormer:DISTANCES:IN_DEGREES:OUT_DEGREES:FORM with the sizes of \
                          the model's tables and the form degrees, distances or paths";

const MAGLAP: &str = "write maglap:K:Q with a potential such as 0.1 or 0.25/d, then any of :none, \
                      :raw, :abs-max and :parts";

const WALK: &str =
    "write walk:STEPS, walk:STEPS:RESTART with a probability, or either with :reverse";

/// `Q`, or `Q/d` for one that the size of the graph divides.
fn potential(text: &str) -> Option<Potential> {
    match text.strip_suffix("/d") {
        Some(q) => q.parse().ok().map(Potential::Relative),
        None => text.parse().ok().map(Potential::Absolute),
    }
}

/// `FROM-TO`, or `TO` for 1 to TO.
fn range(text: &str, least: u32, most: u32) -> Option<std::ops::RangeInclusive<u32>> {
    let (from, to) = text.split_once('-').unwrap_or(("1", text));
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (least <= from && from <= to && to <= most).then_some(from..=to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_are_read() {
        let plan = parse("rrwp:21, rwse:2-4").unwrap();
        let rrwp = Rrwp {
            steps: 21,
            shortest_path: false,
        };
        let rwse = Rwse {
            times: vec![2, 3, 4],
        };
        assert_eq!(
            plan.recipes(),
            [EncodingRecipe::Rrwp(rrwp), EncodingRecipe::Rwse(rwse)]
        );
        assert_eq!(parse("rwse:2"), parse("rwse:1-2"));
        assert_ne!(parse("rrwp:5:spd"), parse("rrwp:5"));
    }

    #[test]
    fn recipes_of_directed_graphs_are_read() {
        let recipe = |text: &str| parse(text).unwrap().recipes()[0].clone();
        let magnetic = |q, symmetric_norm, sign_rotate, l2_norm, separate_parts| {
            EncodingRecipe::Magnetic(Magnetic {
                k: 25,
                excluded: 0,
                q,
                symmetric_norm,
                sign_rotate,
                root: None,
                l2_norm,
                separate_parts,
            })
        };
        let relative = Potential::Relative(0.25);
        assert_eq!(
            recipe("maglap:25:0.25/d"),
            magnetic(relative, true, true, true, false)
        );
        assert_eq!(
            recipe("maglap:25:0.1:none:raw:abs-max:parts"),
            magnetic(Potential::Absolute(0.1), false, false, false, true)
        );
        let walk = |restart, also_reverse| {
            EncodingRecipe::DirectedWalk(DirectedWalk {
                steps: 3,
                restart,
                also_reverse,
            })
        };
        assert_eq!(recipe("walk:3"), walk(None, false));
        assert_eq!(recipe("walk:3:0.05"), walk(Some(0.05), false));
        assert_eq!(recipe("walk:3:reverse"), walk(None, true));
        assert_eq!(recipe("walk:3:0.05:reverse"), walk(Some(0.05), true));
        assert_eq!(recipe("svd:8"), EncodingRecipe::Svd(Svd { rank: 8 }));
        let magnet = MagNet { q: relative };
        assert_eq!(recipe("magnet:0.25/d"), EncodingRecipe::MagNet(magnet));
        for (bad, message) in [
            ("maglap:25", "write maglap:K:Q"),
            ("maglap:25:x", "write maglap:K:Q"),
            ("maglap:25:0.1:l3", "write maglap:K:Q"),
            ("maglap:25:-1", "the potential -1"),
            ("walk:x", "write walk:STEPS"),
            ("walk:3:0.1:0.2", "write walk:STEPS"),
            ("walk:3:2", "restart probability 2"),
            ("walk:0", "directed walks of 0 steps"),
            ("svd", "unknown recipe"),
            ("svd:x", "write svd:RANK"),
            ("magnet:d", "write magnet:Q"),
        ] {
            let error = parse(bad).unwrap_err();
            assert!(error.contains(message), "{bad}: {error}");
        }
    }

    #[test]
    fn eigenvector_recipes_take_the_official_names_and_defaults() {
        let lap_pe = |laplacian_norm, eigvec_norm| {
            let recipe = LapPe {
                frequencies: 8,
                laplacian_norm,
                eigvec_norm,
            };
            EncodingPlan::new(vec![EncodingRecipe::LapPe(recipe)]).map_err(|e| e.to_string())
        };
        let (sym, l2) = (LaplacianNorm::Sym, EigvecNorm::L2);
        assert_eq!(parse("lappe:8"), lap_pe(sym, l2));
        assert_eq!(parse("lappe:8:none"), lap_pe(LaplacianNorm::None, l2));
        assert_eq!(
            parse("lappe:8:rw:wavelength-asin"),
            lap_pe(LaplacianNorm::Rw, EigvecNorm::WavelengthAsin)
        );
    }

    #[test]
    fn every_other_kind_is_read() {
        let recipe = |text: &str| parse(text).unwrap().recipes()[0].clone();
        let times = vec![0, 1, 2];
        assert_eq!(
            recipe("hkdiag:0-2"),
            EncodingRecipe::HeatKernel(HeatKernel { times })
        );
        assert_eq!(
            recipe("elstatic"),
            EncodingRecipe::Electrostatic(Electrostatic {})
        );
        let lap_pe = LapPe {
            frequencies: 37,
            laplacian_norm: LaplacianNorm::None,
            eigvec_norm: EigvecNorm::L2,
        };
        assert_eq!(recipe("signnet:37:none"), EncodingRecipe::SignNet(lap_pe));
        assert!(parse("lappe:8:sym,signnet:8:none").is_ok());
        for (text, degrees_only, edge_types) in [
            ("graphormer:20:64:32:degrees", true, false),
            ("graphormer:20:64:32:distances", false, false),
            ("graphormer:20:64:32:paths", false, true),
        ] {
            let graphormer = Graphormer {
                spatial_types: 20,
                in_degrees: 64,
                out_degrees: 32,
                degrees_only,
                edge_types,
            };
            assert_eq!(recipe(text), EncodingRecipe::Graphormer(graphormer));
        }
    }

    #[test]
    fn wrong_recipes_are_refused() {
        for text in [
            "",
            "rrwp",
            "rrwp:",
            "rrwp:0",
            "rrwp:x",
            "rrwp:3:s",
            "rwse:0-3",
            "rwse:5-2",
            "rwse:1-999999",
            "lap:8",
            "lappe",
            "lappe:0",
            "lappe:x",
            "lappe:8:left",
            "lappe:8:sym:l2",
            "lappe:8:sym:L2:more",
            "rwse:3,rwse:4",
            "hkdiag:2-1",
            "hkdiag",
            "elstatic:3",
            "signnet:x",
            "graphormer:20:64:64",
            "graphormer:20:64:paths",
            "graphormer:20:x:64:paths",
            "graphormer:0:64:64:paths",
            "graphormer:20:1:64:64:paths",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
