//! `WITH HOLD`: cursors whose rows are read to the end when their transaction commits, and can be fetched after it.

use seawall_values::SqlResult;

use super::super::Session;
use super::super::portal::{Portal, Run};
use crate::execute::KeptRows;

impl Session {
    /// Reads the rows that cursors of this transaction give after it.
    pub(crate) fn hold_cursors(&mut self) -> SqlResult<()> {
        let is_new = |portal: &Portal| {
            !portal.is_held() && portal.cursor.as_ref().is_some_and(|cursor| cursor.is_holdable)
        };
        let names: Vec<String> =
            self.portals.iter().filter(|(_, portal)| is_new(portal)).map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some(mut portal) = self.portals.remove(&name) else { continue };
            self.read_to_end(&mut portal)?;
            self.portals.insert(name, portal);
        }
        Ok(())
    }

    fn read_to_end(&mut self, portal: &mut Portal) -> SqlResult<()> {
        let Run::Query(running) = &mut portal.run else { return Ok(()) };
        running.keeps_all = true;
        if running.kept.is_none() {
            running.kept = Some(KeptRows::new(running.planned.output().len(), running.rows, self.limits()));
        }
        self.pull(running, 0, None)?;
        if let Some(kept) = &mut running.kept {
            kept.finish()?;
        }
        running.execution.close();
        Ok(())
    }

    /// A transaction has ended: only what is held stays, with what is held from now on, if it has committed.
    pub(crate) fn end_cursors(&mut self, has_committed: bool) {
        self.portals.retain(|_, portal| {
            let is_held = portal.is_held();
            let Some(cursor) = &mut portal.cursor else { return false };
            cursor.is_held = is_held || (has_committed && cursor.is_holdable);
            cursor.is_held
        });
    }
}
