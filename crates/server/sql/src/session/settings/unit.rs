//! Units of settings: how a number with a unit is read, and which unit shows a number best.

/// The unit that a setting counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// The name in `pg_settings.unit`.
    pub(super) name: &'static str,
    kind: UnitKind,
    /// Bytes, or microseconds.
    size: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitKind {
    Memory,
    Time,
}

const fn memory(name: &'static str, size: i64) -> Unit {
    Unit { name, kind: UnitKind::Memory, size }
}

const fn time(name: &'static str, size: i64) -> Unit {
    Unit { name, kind: UnitKind::Time, size }
}

/// The units that settings count in.
const BASES: [Unit; 7] = [
    memory("B", 1),
    memory("kB", 1 << 10),
    memory("8kB", 8 << 10),
    memory("MB", 1 << 20),
    time("ms", 1_000),
    time("s", 1_000_000),
    time("min", 60_000_000),
];

/// Units that values may have, largest first.
const MEMORY: [Unit; 5] = [
    memory("TB", 1 << 40),
    memory("GB", 1 << 30),
    memory("MB", 1 << 20),
    memory("kB", 1 << 10),
    memory("B", 1),
];
const TIME: [Unit; 6] = [
    time("d", 86_400_000_000),
    time("h", 3_600_000_000),
    time("min", 60_000_000),
    time("s", 1_000_000),
    time("ms", 1_000),
    time("us", 1),
];

#[expect(clippy::cast_precision_loss, reason = "sizes of units have few significant bits")]
fn ratio(size: i64, base: i64) -> f64 {
    size as f64 / base as f64
}

impl Unit {
    pub(super) const KILOBYTES: Unit = memory("kB", 1 << 10);

    /// The unit with this name in `pg_settings.unit`.
    pub(super) fn named(name: &str) -> Option<Unit> {
        BASES.into_iter().find(|unit| unit.name == name)
    }

    fn known(self) -> &'static [Unit] {
        match self.kind {
            UnitKind::Memory => &MEMORY,
            UnitKind::Time => &TIME,
        }
    }

    /// The hint about a value whose unit is unknown.
    pub(super) fn hint(self) -> &'static str {
        match self.kind {
            UnitKind::Memory => {
                "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\"."
            }
            UnitKind::Time => {
                "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\"."
            }
        }
    }

    /// `value` of the unit `name` in this one. A fraction is rounded to the next smaller unit.
    pub(super) fn convert(self, value: f64, name: &str) -> Option<f64> {
        let units = self.known();
        let position = units.iter().position(|unit| unit.name == name)?;
        let converted = value * ratio(units[position].size, self.size);
        Some(match units.get(position + 1) {
            Some(smaller) => {
                let step = ratio(smaller.size, self.size);
                (converted / step).round_ties_even() * step
            }
            None => converted,
        })
    }

    /// A whole number with the largest unit that divides it.
    pub(super) fn show_integer(self, value: i64) -> String {
        let size = i128::from(value) * i128::from(self.size);
        let unit = self.known().iter().find(|unit| size % i128::from(unit.size) == 0);
        match unit {
            Some(unit) if value > 0 => format!("{}{}", size / i128::from(unit.size), unit.name),
            _ => value.to_string(),
        }
    }

    /// A number with the largest unit that it is a whole number of; else the smallest one.
    pub(super) fn show_real(self, value: f64) -> String {
        if value <= 0.0 {
            return general(value);
        }
        let counts = self.known().iter().map(|unit| (value / ratio(unit.size, self.size), unit.name));
        let mut smallest = (value, self.name);
        for (count, name) in counts {
            smallest = (count, name);
            if (count.round_ties_even() / count - 1.0).abs() <= 1e-8 {
                break;
            }
        }
        format!("{}{}", general(smallest.0), smallest.1)
    }
}

/// A number with six significant digits, as `%g` of C prints it.
pub(super) fn general(value: f64) -> String {
    if !value.is_finite() {
        return if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() };
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match usize::try_from(5 - exponent) {
        Ok(decimals) if exponent >= -4 => trimmed(&format!("{value:.decimals$}")),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_c_shows_them() {
        for (value, expected) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (0.005, "0.005"),
            (100_000.0, "100000"),
            (1e10, "1e+10"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_01, "1e-05"),
            (0.000_123_456_7, "0.000123457"),
            (1.797_69e308, "1.79769e+308"),
            (-2.0, "-2"),
            (999_999.5, "1e+06"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(general(value), expected);
        }
    }

    #[test]
    fn the_largest_unit_that_divides_is_shown() {
        let shown = |unit: &str, value| Unit::named(unit).unwrap().show_integer(value);
        assert_eq!(shown("kB", 65_536), "64MB");
        assert_eq!(shown("kB", 1_536), "1536kB");
        assert_eq!(shown("kB", 0), "0");
        assert_eq!(shown("kB", -1), "-1");
        assert_eq!(shown("8kB", 1_048_576), "8GB");
        assert_eq!(shown("8kB", 100), "800kB");
        assert_eq!(shown("ms", 90_000), "90s");
        assert_eq!(shown("ms", 1_500), "1500ms");
        assert_eq!(shown("ms", 86_400_000), "1d");
        assert_eq!(shown("min", 1_440), "1d");
        assert_eq!(shown("B", 16_777_216), "16MB");
        let milliseconds = Unit::named("ms").unwrap();
        assert_eq!(milliseconds.show_real(1.5), "1500us");
        assert_eq!(milliseconds.show_real(1.0), "1ms");
        assert_eq!(milliseconds.show_real(0.0), "0");
    }
}
