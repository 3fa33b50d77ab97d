//! Point clouds as text: one point a line.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::error::{Error, Result};
use crate::graph::PointCloud;

/// Reads points from `path`: every line holds the coordinates of one point in its first `dim`
/// columns, separated by blanks, tabs, commas or semicolons; further columns (colours, normals,
/// labels) are passed over, as are empty lines and those that start with `#`.
///
/// # Errors
/// A file that cannot be read, a line with fewer columns or with something else than a number, named
/// by its number; what [`PointCloud::new`] refuses.
pub fn read_points(path: &Path, dim: usize) -> Result<PointCloud> {
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let name = path.display().to_string();
    parse_points(BufReader::new(file), &name, dim)
}

/// Reads points from text; `source_name` stands for it in messages. As [`read_points`].
///
/// # Errors
/// As [`read_points`].
pub fn parse_points(text: impl BufRead, source_name: &str, dim: usize) -> Result<PointCloud> {
    let mut coordinates: Vec<f64> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let refuse = |message: String| Error::Parse {
            source_name: source_name.to_string(),
            line: Some(at as u64 + 1),
            message,
        };
        let line = line.map_err(|error| refuse(error.to_string()))?;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let separators = |c: char| c.is_whitespace() || c == ',' || c == ';';
        let mut columns = line.split(separators).filter(|column| !column.is_empty());
        for column in 0..dim {
            let Some(text) = columns.next() else {
                return Err(refuse(format!(
                    "{column} column(s) where a point has {dim} coordinates"
                )));
            };
            let value: f64 = text
                .parse()
                .map_err(|_| refuse(format!("`{text}` is not a number")))?;
            if !(value as f32).is_finite() {
                return Err(refuse(format!("coordinate {text} is not finite")));
            }
            coordinates.push(value);
        }
    }
    if coordinates.is_empty() {
        return Err(Error::Parse {
            source_name: source_name.to_string(),
            line: None,
            message: "it holds no points".to_string(),
        });
    }
    PointCloud::new(dim, coordinates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PointCloud> {
        parse_points(text.as_bytes(), "cloud.xyz", 3)
    }

    #[test]
    fn columns_are_separated_in_any_of_the_usual_ways() {
        let text = "# x y z\n0 0 0\n\n1.5,2,-3e-1,255,0,0\n1;0;0;7\n\t2\t0 0\n";
        let expected = PointCloud::new(
            3,
            [0.0, 0.0, 0.0, 1.5, 2.0, -0.3, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0],
        );
        assert_eq!(parse(text).unwrap(), expected.unwrap());
    }

    #[test]
    fn what_is_no_point_is_named_with_its_line() {
        for (text, words) in [
            (
                "0 0 0\n1 2\n",
                "cloud.xyz, line 2: 2 column(s) where a point has 3",
            ),
            ("0 0 zero\n", "line 1: `zero` is not a number"),
            ("# a\n0 nan 0\n", "line 2: coordinate nan is not finite"),
            ("1e60 0 0\n", "line 1: coordinate 1e60 is not finite"),
            ("# nothing\n", "cloud.xyz: it holds no points"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }
}
