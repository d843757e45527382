//! Throughput over time as a picture: a panel for each series, one below the other, all on one scale.
//!
//! ```text
//!   name of the series                     a column of pixels for each moment: from the least to the most of the
//!   |  ..,|   .  ,.                        intervals in it, and of the one before, in a light colour, and their mean
//!   |''    ''' ''  ''                      in a dark one; so that one bad interval among a hundred can be seen
//!   +-----------------  seconds            red below: intervals in which nothing completed
//! ```
//! Drawn pixel by pixel, with a font of its own: what a plotting library needs (fonts of the system, a dozen crates) is
//! more than what it would save here.

mod font;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use super::series;
use super::timeline::INTERVAL;
use crate::error::{BenchError, file_error};
use crate::report::number;

const WIDTH: usize = 1200;
const PANEL_HEIGHT: usize = 320;
const LEFT: usize = 110;
const RIGHT: usize = 40;
const TOP: usize = 36;
const BOTTOM: usize = 44;
const TEXT_SCALE: usize = 2;

type Colour = [u8; 3];
const WHITE: Colour = [255, 255, 255];
const BLACK: Colour = [32, 32, 32];
const GRID: Colour = [222, 222, 222];
const LIGHT: Colour = [158, 196, 232];
const DARK: Colour = [24, 84, 144];
const RED: Colour = [200, 40, 40];

/// Reads the series and writes the picture.
pub(super) fn plot(paths: &[PathBuf], png: &Path) -> Result<(), BenchError> {
    let mut panels = Vec::new();
    for path in paths {
        let name = path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
        panels.push(Panel { name, values: series::read(path)? });
    }
    draw(&panels).write(png)
}

struct Panel {
    name: String,
    values: Vec<f64>,
}

/// Pixels, three bytes each, row by row.
struct Picture {
    height: usize,
    bytes: Vec<u8>,
}

fn draw(panels: &[Panel]) -> Picture {
    let mut picture = Picture::new(panels.len().max(1) * PANEL_HEIGHT);
    let values = || panels.iter().flat_map(|panel| &panel.values);
    // A burst at the beginning, while memory is empty, must not flatten all the rest.
    let scale = Scale {
        rows_max: round_up(nearly_all(values().copied().collect())),
        intervals: panels.iter().map(|panel| panel.values.len()).max().unwrap_or(0).max(1),
    };
    for (index, panel) in panels.iter().enumerate() {
        picture.panel(index * PANEL_HEIGHT, panel, &scale);
    }
    picture
}

/// What is common to all panels.
struct Scale {
    rows_max: f64,
    intervals: usize,
}

/// What 99 of 100 values do not exceed; higher ones are cut off at the top.
fn nearly_all(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) * 99 / 100).copied().unwrap_or(1.0)
}

/// The next of 1, 2, 2.5, 5 or 10 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1.0).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|rounded| *rounded >= value).unwrap_or(value)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the pixels of a panel"
)]
fn pixels(share: f64, length: usize) -> usize {
    (share.clamp(0.0, 1.0) * length as f64).round() as usize
}

impl Picture {
    fn new(height: usize) -> Picture {
        Picture { height, bytes: WHITE.repeat(WIDTH * height) }
    }

    fn dot(&mut self, x: usize, y: usize, colour: Colour) {
        if x < WIDTH && y < self.height {
            let at = (y * WIDTH + x) * colour.len();
            self.bytes[at..at + colour.len()].copy_from_slice(&colour);
        }
    }

    fn vertical(&mut self, x: usize, from: usize, to: usize, colour: Colour) {
        (from.min(to)..=from.max(to)).for_each(|y| self.dot(x, y, colour));
    }

    fn horizontal(&mut self, y: usize, colour: Colour) {
        (LEFT..WIDTH - RIGHT).for_each(|x| self.dot(x, y, colour));
    }

    fn panel(&mut self, top: usize, panel: &Panel, scale: &Scale) {
        let (ceiling, floor) = (top + TOP, top + PANEL_HEIGHT - BOTTOM);
        let y_of = |rows: f64| floor - pixels(rows / scale.rows_max, floor - ceiling);
        for quarter in 0..=4 {
            let rows = scale.rows_max * f64::from(quarter) / 4.0;
            self.horizontal(y_of(rows), if quarter == 0 { BLACK } else { GRID });
            let label = number(rows);
            self.text_ending(LEFT - 8, y_of(rows).saturating_sub(font::HEIGHT), &label);
        }
        self.times(floor, scale);
        self.text(LEFT, top + 10, &format!("{}: rows/s each {} ms", panel.name, INTERVAL.as_millis()));
        self.values(panel, scale, y_of);
        self.vertical(LEFT, ceiling, floor, BLACK);
    }

    fn times(&mut self, floor: usize, scale: &Scale) {
        let seconds = scale.intervals as f64 * INTERVAL.as_secs_f64();
        let step = round_up(seconds / 12.0).max(1.0);
        let mut second = 0.0;
        while second <= seconds {
            let x = LEFT + pixels(second / seconds, WIDTH - LEFT - RIGHT);
            self.vertical(x, floor, floor + 5, BLACK);
            let label = format!("{second:.0} s");
            self.text_ending(x + font::width(&label) * TEXT_SCALE / 2, floor + 12, &label);
            second += step;
        }
    }

    fn values(&mut self, panel: &Panel, scale: &Scale, y_of: impl Fn(f64) -> usize) {
        let columns = WIDTH - LEFT - RIGHT;
        for column in 0..columns {
            let from = column * scale.intervals / columns;
            // At least one: a short series has several columns for each interval.
            let to = ((column + 1) * scale.intervals / columns).max(from + 1).min(panel.values.len());
            let Some(values) = panel.values.get(from..to).filter(|values| !values.is_empty()) else {
                continue;
            };
            // With the one before, so that a column joins the one to its left.
            let joined = &panel.values[from.saturating_sub(1)..to];
            let least = joined.iter().copied().fold(f64::INFINITY, f64::min);
            let most = joined.iter().copied().fold(0.0, f64::max);
            let x = LEFT + column;
            self.vertical(x, y_of(least), y_of(most), LIGHT);
            let y = y_of(values.iter().sum::<f64>() / values.len() as f64);
            self.vertical(x, y, y + 1, DARK);
            if values.iter().any(|rows| *rows <= 0.0) {
                // Nothing at all is what this picture is for.
                self.vertical(x, y_of(0.0), y_of(0.0) + 6, RED);
            }
        }
    }

    fn text_ending(&mut self, right: usize, y: usize, text: &str) {
        self.text(right.saturating_sub(font::width(text) * TEXT_SCALE), y, text);
    }

    fn text(&mut self, left: usize, y: usize, text: &str) {
        for (x_in_text, y_in_text) in font::dots(text) {
            for down in 0..TEXT_SCALE {
                for right in 0..TEXT_SCALE {
                    self.dot(left + x_in_text * TEXT_SCALE + right, y + y_in_text * TEXT_SCALE + down, BLACK);
                }
            }
        }
    }

    fn write(&self, path: &Path) -> Result<(), BenchError> {
        #[expect(clippy::disallowed_methods, reason = "a picture of the benchmark, not a file of an engine")]
        let file = File::create(path).map_err(file_error("create", path))?;
        let size = |length: usize| u32::try_from(length).expect("a picture of a few panels");
        let mut encoder = png::Encoder::new(BufWriter::new(file), size(WIDTH), size(self.height));
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let failed = |error: png::EncodingError| file_error("write", path)(std::io::Error::other(error));
        let mut writer = encoder.write_header().map_err(failed)?;
        writer.write_image_data(&self.bytes).map_err(failed)?;
        writer.finish().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_on_round_numbers() {
        assert_eq!([1.0, 3.0, 9.9, 101.0, 240_000.0].map(round_up), [1.0, 5.0, 10.0, 200.0, 250_000.0]);
    }

    #[test]
    fn a_stop_is_red_and_the_picture_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("series.csv");
        let mut operations = vec![10; 600];
        operations[300] = 0;
        series::write(&path, &operations, 100).unwrap();
        let png = directory.path().join("plot.png");
        plot(&[path.clone(), path], &png).unwrap();
        let mut reader =
            png::Decoder::new(std::io::Cursor::new(std::fs::read(&png).unwrap())).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut bytes).unwrap();
        assert_eq!(bytes.len(), WIDTH * 2 * PANEL_HEIGHT * 3);
        let red = bytes.chunks(3).filter(|pixel| **pixel == RED).count();
        assert!((7..=60).contains(&red), "{red} red pixels: one or two columns of each panel");
        assert!(bytes.chunks(3).any(|pixel| *pixel == DARK));
        assert!(plot(&[directory.path().join("absent.csv")], &png).is_err());
    }
}
