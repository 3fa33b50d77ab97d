//! Encoding recipes as the command line spells them.

use candle_graph::encodings::{EigvecNorm, EncodingPlan, EncodingRecipe, LapPe, Rrwp, Rwse};
use candle_graph::spectral::LaplacianNorm;

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
        ["rwse", times] => {
            let (from, to) = times.split_once('-').unwrap_or(("1", times));
            match (from.parse::<usize>(), to.parse::<usize>()) {
                (Ok(from), Ok(to)) if 1 <= from && from <= to && to <= 100_000 => {
                    Ok(EncodingRecipe::Rwse(Rwse {
                        times: (from..=to).collect(),
                    }))
                }
                _ => refuse("write rwse:FROM-TO with 1 <= FROM <= TO <= 100000, or rwse:TO"),
            }
        }
        ["lappe", frequencies, rest @ ..] if rest.len() <= 2 => {
            let Ok(frequencies) = frequencies.parse() else {
                return refuse(
                    "write lappe:FREQUENCIES, lappe:FREQUENCIES:LAPLACIAN or lappe:FREQUENCIES:LAPLACIAN:SCALING",
                );
            };
            let message = |error: candle_graph::Error| format!("`{text}`: {error}");
            let laplacian_norm = rest.first().map(|name| name.parse());
            let eigvec_norm = rest.get(1).map(|name| name.parse());
            Ok(EncodingRecipe::LapPe(LapPe {
                frequencies,
                laplacian_norm: laplacian_norm
                    .unwrap_or(Ok(LaplacianNorm::Sym))
                    .map_err(message)?,
                eigvec_norm: eigvec_norm.unwrap_or(Ok(EigvecNorm::L2)).map_err(message)?,
            }))
        }
        _ => refuse(
            "unknown recipe; known: rrwp:STEPS, rrwp:STEPS:spd, rwse:FROM-TO, \
             lappe:FREQUENCIES:LAPLACIAN:SCALING",
        ),
    }
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
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
