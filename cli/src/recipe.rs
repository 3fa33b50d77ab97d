//! Encoding recipes as the command line spells them.

use candle_graph::encodings::{EncodingPlan, EncodingRecipe, Rrwp, Rwse};

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
        _ => refuse("unknown recipe; known: rrwp:STEPS, rrwp:STEPS:spd, rwse:FROM-TO"),
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
            "rwse:3,rwse:4",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
