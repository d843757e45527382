//! `corr`, `covar_*`, `regr_*`: two floating-point numbers, the dependent one first. Steps and their order are PostgreSQL's.

use super::float_moments::overflow;
use super::{Accumulator, Table};
use crate::datum::Datum;
use crate::error::SqlResult;
use crate::oid;
use crate::settings::Settings;

macro_rules! table {
    ($($name:literal = $statistic:ident,)*) => {
        &[$(($name, &[oid::FLOAT8, oid::FLOAT8], |_, _| Box::new(Regression::new(Statistic::$statistic))),)*]
    };
}

pub(super) const TABLE: Table = table! {
    "corr" = Correlation,
    "covar_pop" = CovarianceOfPopulation,
    "covar_samp" = CovarianceOfSample,
    "regr_avgx" = AverageX,
    "regr_avgy" = AverageY,
    "regr_intercept" = Intercept,
    "regr_r2" = Determination,
    "regr_slope" = Slope,
    "regr_sxx" = SquaresX,
    "regr_sxy" = Products,
    "regr_syy" = SquaresY,
};

#[derive(Clone, Copy)]
enum Statistic {
    Correlation,
    CovarianceOfPopulation,
    CovarianceOfSample,
    AverageX,
    AverageY,
    Intercept,
    Determination,
    Slope,
    SquaresX,
    Products,
    SquaresY,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    count: f64,
    x: f64,
    y: f64,
    /// Sums of products of differences from the means.
    xx: f64,
    yy: f64,
    xy: f64,
}

struct Regression {
    statistic: Statistic,
    sums: Sums,
}

impl Regression {
    fn new(statistic: Statistic) -> Regression {
        Regression { statistic, sums: Sums::default() }
    }
}

impl Sums {
    fn with(self, y: f64, x: f64) -> SqlResult<Sums> {
        let mut next = Sums { count: self.count + 1.0, x: self.x + x, y: self.y + y, ..self };
        if self.count > 0.0 {
            let difference_x = x * next.count - next.x;
            let difference_y = y * next.count - next.y;
            let scale = 1.0 / (next.count * self.count);
            next.xx += difference_x * difference_x * scale;
            next.yy += difference_y * difference_y * scale;
            next.xy += difference_x * difference_y * scale;
            self.check(&mut next, y, x)?;
        } else {
            if !x.is_finite() {
                (next.xx, next.xy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (next.yy, next.xy) = (f64::NAN, f64::NAN);
            }
        }
        Ok(next)
    }

    /// Finite inputs that give infinity are an overflow; infinite inputs give NaN.
    fn check(&self, next: &mut Sums, y: f64, x: f64) -> SqlResult<()> {
        let is_x_finite = !self.x.is_infinite() && !x.is_infinite();
        let is_y_finite = !self.y.is_infinite() && !y.is_infinite();
        if (next.x.is_infinite() || next.xx.is_infinite()) && is_x_finite
            || (next.y.is_infinite() || next.yy.is_infinite()) && is_y_finite
            || next.xy.is_infinite() && is_x_finite && is_y_finite
        {
            return Err(overflow());
        }
        for sum in [&mut next.xx, &mut next.yy, &mut next.xy] {
            if sum.is_infinite() {
                *sum = f64::NAN;
            }
        }
        Ok(())
    }

    fn statistic(&self, statistic: Statistic) -> Option<f64> {
        let Sums { count, x, y, xx, yy, xy } = *self;
        if count < 1.0 {
            return None;
        }
        match statistic {
            Statistic::Correlation => (xx != 0.0 && yy != 0.0).then(|| xy / (xx * yy).sqrt()),
            Statistic::CovarianceOfPopulation => Some(xy / count),
            Statistic::CovarianceOfSample => (count >= 2.0).then(|| xy / (count - 1.0)),
            Statistic::AverageX => Some(x / count),
            Statistic::AverageY => Some(y / count),
            Statistic::Intercept => (xx != 0.0).then(|| (y - x * xy / xx) / count),
            Statistic::Determination if xx == 0.0 => None,
            Statistic::Determination if yy == 0.0 => Some(1.0),
            Statistic::Determination => Some((xy * xy) / (xx * yy)),
            Statistic::Slope => (xx != 0.0).then(|| xy / xx),
            Statistic::SquaresX => Some(xx),
            Statistic::Products => Some(xy),
            Statistic::SquaresY => Some(yy),
        }
    }
}

impl Accumulator for Regression {
    fn add(&mut self, arguments: &[Datum], _settings: &Settings) -> SqlResult<()> {
        match arguments {
            [Datum::Float8(y), Datum::Float8(x)] => self.sums = self.sums.with(*y, *x)?,
            [Datum::Null, _] | [_, Datum::Null] => {}
            _ => return Err(super::misplaced(arguments)),
        }
        Ok(())
    }

    fn result(&self, _settings: &Settings) -> SqlResult<Datum> {
        Ok(self.sums.statistic(self.statistic).map_or(Datum::Null, Datum::Float8))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}
