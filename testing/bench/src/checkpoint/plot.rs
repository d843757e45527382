//! Throughput over time as an SVG picture: a panel for each series, one below the other, all on one scale.
//!
//! ```text
//!   name of the series                     an area from the least to the most of the intervals of each moment, so
//!   |  ..,|   .  ,.                        that one bad interval among a hundred can be seen; a line for their mean
//!   |''    ''' ''  ''
//!   +-----------------  seconds            red dots below: intervals in which nothing completed
//! ```

use std::ops::Range;
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::prelude::*;

use super::series;
use crate::error::{BenchError, file_error};
use crate::report::number;
use crate::timeline::INTERVAL;

const WIDTH: u32 = 1200;
const PANEL_HEIGHT: u32 = 320;
/// Moments of a panel: about as many as a screen shows apart.
const MOMENTS: usize = 1000;

const LIGHT: RGBColor = RGBColor(158, 196, 232);
const DARK: RGBColor = RGBColor(24, 84, 144);
const STOPPED: RGBColor = RGBColor(200, 40, 40);

type Panels<'p> = DrawingArea<SVGBackend<'p>, Shift>;

/// Reads the series and writes the picture.
pub(super) fn plot(paths: &[PathBuf], picture: &Path) -> Result<(), BenchError> {
    let read = |path: &PathBuf| -> Result<Panel, BenchError> {
        let name = path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
        Ok(Panel { name, rows: series::read(path)? })
    };
    let panels = paths.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let mut svg = String::new();
    draw(&panels, &mut svg)
        .map_err(|error| file_error("draw", picture)(std::io::Error::other(error.to_string())))?;
    std::fs::write(picture, svg).map_err(file_error("write", picture))
}

struct Panel {
    name: String,
    /// Rows a second of each interval.
    rows: Vec<f64>,
}

/// The intervals that one moment of the picture stands for.
struct Moment {
    second: f64,
    least: f64,
    mean: f64,
    most: f64,
}

fn draw(panels: &[Panel], svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let count = u32::try_from(panels.len().max(1))?;
    let area = SVGBackend::with_string(svg, (WIDTH, count * PANEL_HEIGHT)).into_drawing_area();
    area.fill(&WHITE)?;
    let rows = || panels.iter().flat_map(|panel| &panel.rows);
    // A burst at the beginning, while memory is empty, must not flatten all the rest.
    let most = nearly_all(rows().copied().collect());
    let intervals = panels.iter().map(|panel| panel.rows.len()).max().unwrap_or(0).max(1);
    for (panel, part) in panels.iter().zip(area.split_evenly((panels.len().max(1), 1))) {
        draw_panel(panel, &part, 0.0..second_of(intervals), 0.0..most.max(1.0))?;
    }
    area.present()?;
    Ok(())
}

fn draw_panel(
    panel: &Panel,
    area: &Panels<'_>,
    seconds: Range<f64>,
    rows: Range<f64>,
) -> Result<(), Box<dyn std::error::Error>> {
    let caption = format!("{}: rows/s each {} ms", panel.name, INTERVAL.as_millis());
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(90)
        .build_cartesian_2d(seconds, rows.clone())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_label_formatter(&|second| format!("{second:.0} s"))
        .y_label_formatter(&|rows| number(*rows))
        .draw()?;
    let moments = moments(&panel.rows);
    let most = moments.iter().map(|moment| (moment.second, moment.most.min(rows.end)));
    let least = moments.iter().rev().map(|moment| (moment.second, moment.least.min(rows.end)));
    chart.draw_series([Polygon::new(most.chain(least).collect::<Vec<_>>(), LIGHT.filled())])?;
    let mean = moments.iter().map(|moment| (moment.second, moment.mean.min(rows.end)));
    chart.draw_series([PathElement::new(mean.collect::<Vec<_>>(), DARK)])?;
    // Nothing at all is what this picture is for.
    let stopped = panel.rows.iter().enumerate().filter(|(_, rows)| **rows <= 0.0);
    chart.draw_series(stopped.map(|(at, _)| Circle::new((second_of(at), 0.0), 3, STOPPED.filled())))?;
    Ok(())
}

fn second_of(interval: usize) -> f64 {
    interval as f64 * INTERVAL.as_secs_f64()
}

/// As many moments as can be told apart, each of as many intervals as it takes.
fn moments(rows: &[f64]) -> Vec<Moment> {
    let each = rows.len().div_ceil(MOMENTS).max(1);
    let moment = |(index, rows): (usize, &[f64])| Moment {
        second: second_of(index * each),
        least: rows.iter().copied().fold(f64::INFINITY, f64::min),
        mean: rows.iter().sum::<f64>() / rows.len() as f64,
        most: rows.iter().copied().fold(0.0, f64::max),
    };
    rows.chunks(each).enumerate().map(moment).collect()
}

/// What 99 of 100 values do not exceed; higher ones are cut off at the top.
fn nearly_all(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) * 99 / 100).copied().unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_interval_among_many_can_be_seen() {
        let mut rows = vec![10.0; 6000];
        rows[3001] = 1.0;
        let moments = moments(&rows);
        assert_eq!(moments.len(), MOMENTS);
        assert!(moments.iter().any(|moment| moment.least < 2.0 && moment.most > 9.0 && moment.mean > 8.0));
        assert!((nearly_all(vec![1.0, 2.0, 900.0]) - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_stop_is_red_and_series_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("series.csv");
        let mut operations = vec![10; 600];
        operations[300] = 0;
        series::write(&path, &operations, 100).unwrap();
        let picture = directory.path().join("plot.svg");
        plot(&[path.clone(), path], &picture).unwrap();
        let svg = std::fs::read_to_string(&picture).unwrap();
        assert_eq!(svg.matches("series: rows/s each").count(), 2, "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
        assert!(svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(plot(&[directory.path().join("absent.csv")], &picture).is_err());
    }
}
