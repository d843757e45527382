//! Reads and puts of a loaded table by Zipf's law; puts wait for nothing.

use super::{Cell, Measurement};
use crate::engine::Durability;
use crate::error::BenchError;
use crate::random::{Random, Zipf};
use crate::rows::{Order, RowSource};
use crate::timed_run;
use crate::usage::Memory;

pub(super) fn mix(cell: &Cell, read_percent: u64) -> Result<Measurement, BenchError> {
    let keys = cell.keys();
    let engine = cell.engine.open(&cell.settings(Durability::Buffered))?;
    engine.bulk_load(&mut RowSource::new(keys, cell.value_bytes, Order::Sorted, cell.seed))?;
    engine.session()?.scan(&[], u64::MAX)?;
    let zipf = Zipf::new(cell.rows, cell.seed);
    Memory::reset_peak();
    let totals =
        timed_run::run(engine.as_ref(), cell.threads, cell.duration(), |thread, session, recorder| {
            let mut random = Random::new(cell.thread_seed(thread));
            let mut value = vec![0; cell.value_bytes];
            while recorder.running() {
                let key = keys.key(zipf.pick(&mut random));
                if random.below(100) < read_percent {
                    if session.get(&key)?.is_none() {
                        return Err(cell.wrong(format!("row {key:02x?} is not there")));
                    }
                } else {
                    random.fill_value(&mut value);
                    session.put(&key, &value)?;
                }
                recorder.done(1);
            }
            Ok(())
        })?;
    let measurement =
        Measurement::new(cell, totals.operations_per_second(), &totals, engine.configured_bytes());
    engine.close()?;
    Ok(measurement)
}
