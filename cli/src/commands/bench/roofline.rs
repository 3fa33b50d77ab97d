//! A roofline plot: what cases reach beside what their intensity allows.

use std::io::Write;
use std::ops::Range;

use anyhow::{Context, Result, anyhow};
use candle_graph_weights::atomic_file::AtomicFile;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figures::Figures;
use super::peaks::Peaks;

/// Pixels.
const SIZE: (u32, u32) = (1200, 800);
/// Line height of the labels of points, in pixels.
const LABEL_HEIGHT: i32 = 16;
/// From a point to its label, in pixels.
const LABEL_GAP: i32 = 40;
const POINT: RGBColor = RGBColor(31, 119, 180);
const ROOF: RGBColor = RGBColor(60, 60, 60);

/// A case in the plot.
struct Point<'a> {
    case: &'a str,
    flop_per_byte: f64,
    gflop_per_second: f64,
}

/// Writes the plot of all cases whose work is counted; `file` appears when it is complete.
///
/// # Errors
/// No such case, or a place that cannot be written.
pub(super) fn write(mut file: AtomicFile, all: &[Figures], peaks: &Peaks) -> Result<()> {
    let points: Vec<_> = (all.iter())
        .filter_map(|figures| {
            figures.achieved.as_ref().map(|achieved| Point {
                case: &figures.case,
                flop_per_byte: achieved.flop_per_byte,
                gflop_per_second: achieved.gflop_per_second,
            })
        })
        .collect();
    if points.is_empty() {
        return Err(anyhow!(
            "--roofline: the work of encodings is not counted; choose at least one forward pass"
        ));
    }
    let path = all.first().map_or("", |figures| figures.path);
    let mut svg = String::new();
    // What plotters fails with borrows the text.
    draw(&mut svg, &points, peaks, path).map_err(|error| anyhow!("--roofline: {error}"))?;
    file.write_all(svg.as_bytes())
        .with_context(|| format!("cannot write {}", file.path().display()))?;
    Ok(file.commit()?)
}

type DrawResult<'a> =
    Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw<'a>(
    svg: &'a mut String,
    points: &[Point<'_>],
    peaks: &Peaks,
    path: &str,
) -> DrawResult<'a> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let title = format!(
        "Forward passes ({path} path, {}) on {}, {} threads",
        peaks.dtype, peaks.device, peaks.threads
    );
    let area = area.titled(&title, ("sans-serif", 24))?;
    let (x, y) = ranges(points, peaks);
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(52)
        .y_label_area_size(76)
        .build_cartesian_2d(x.clone().log_scale(), y.clone().log_scale())?;
    chart
        .configure_mesh()
        .x_desc("intensity: FLOP per byte that the operations take and give")
        .y_desc("GFLOP/s")
        .label_style(("sans-serif", 15))
        .x_label_formatter(&f64::to_string)
        .y_label_formatter(&f64::to_string)
        .light_line_style(BLACK.mix(0.06))
        .bold_line_style(BLACK.mix(0.15))
        .draw()?;

    let (flops, bandwidth) = (peaks.gflop_per_second, peaks.gigabytes_per_second);
    let ridge = flops / bandwidth;
    let roof = [
        (x.start, x.start * bandwidth),
        (ridge, flops),
        (x.end, flops),
    ];
    chart.draw_series(LineSeries::new(roof, ROOF.stroke_width(2)))?;
    let label = |anchor| ("sans-serif", 16).into_font().color(&ROOF).pos(anchor);
    let left = Pos::new(HPos::Left, VPos::Top);
    chart.draw_series([
        Text::new(
            format!(
                "copy of {} MiB: {bandwidth:.1} GB/s",
                peaks.copied_bytes >> 20
            ),
            (x.start * 1.3, x.start * 1.3 * bandwidth),
            label(left),
        ),
        Text::new(
            format!(
                "{} product of {n} x {n} matrices: {flops:.1} GFLOP/s",
                peaks.dtype,
                n = peaks.product_size
            ),
            (x.end / 1.1, flops),
            label(Pos::new(HPos::Right, VPos::Bottom)),
        ),
    ])?;
    chart.draw_series(points.iter().map(|point| {
        Circle::new(
            (point.flop_per_byte, point.gflop_per_second),
            4,
            POINT.filled(),
        )
    }))?;

    let places: Vec<_> = (points.iter())
        .map(|point| chart.backend_coord(&(point.flop_per_byte, point.gflop_per_second)))
        .collect();
    let root = chart.plotting_area().strip_coord_spec();
    let (left, top) = root.get_base_pixel();
    let middle = left + root.dim_in_pixel().0 as i32 / 2;
    for ((point, &(x, y)), row) in points.iter().zip(&places).zip(label_rows(&places)) {
        // Towards the middle, where there is room.
        let (side, anchor) = match x > middle {
            true => (-1, HPos::Right),
            false => (1, HPos::Left),
        };
        let from = (x - left, y - top);
        let to = (from.0 + side * LABEL_GAP, row - top);
        root.draw(&PathElement::new([from, to], POINT.mix(0.4)))?;
        let style = ("sans-serif", 14).into_font().color(&POINT);
        root.draw(&Text::new(
            format!("{} ({:.1})", point.case, point.gflop_per_second),
            (to.0 + 3 * side, to.1),
            style.pos(Pos::new(anchor, VPos::Center)),
        ))?;
    }
    drop(chart);
    area.present()
}

/// The ranges of both axes: all points and the ridge, to the next powers of ten.
fn ranges(points: &[Point<'_>], peaks: &Peaks) -> (Range<f64>, Range<f64>) {
    let decades = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values.fold((f64::INFINITY, 0.0f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        10f64.powf((low * 0.9).log10().floor())..10f64.powf((high * 1.1).log10().ceil())
    };
    let ridge = peaks.gflop_per_second / peaks.gigabytes_per_second;
    let intensities = points.iter().map(|point| point.flop_per_byte);
    let rates = points.iter().map(|point| point.gflop_per_second);
    (
        decades(&mut intensities.chain([ridge])),
        decades(&mut rates.chain([peaks.gflop_per_second])),
    )
}

/// The height of every label in pixels: that of its point, or as little below as keeps it clear of
/// those above.
fn label_rows(places: &[(i32, i32)]) -> Vec<i32> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|&at| places[at].1);
    let mut rows = vec![0; places.len()];
    let mut free = i32::MIN;
    for at in order {
        rows[at] = places[at].1.max(free);
        free = rows[at] + LABEL_HEIGHT;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_clear_of_each_other_and_near_their_points() {
        let places = [(0, 100), (5, 90), (9, 104), (0, 300)];
        assert_eq!(label_rows(&places), [106, 90, 122, 300]);
        assert!(label_rows(&[]).is_empty());
    }

    #[test]
    fn axes_hold_the_points_and_the_ridge() {
        let peaks = Peaks {
            device: "cpu".to_string(),
            threads: 2,
            dtype: "f32",
            product_size: 1024,
            gflop_per_second: 200.0,
            copied_bytes: 1 << 28,
            gigabytes_per_second: 10.0,
        };
        let point = Point {
            case: "one",
            flop_per_byte: 3.0,
            gflop_per_second: 40.0,
        };
        let (x, y) = ranges(&[point], &peaks);
        assert_eq!((x, y), (1.0..100.0, 10.0..1000.0));
    }
}
