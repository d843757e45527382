//! Steps of two-phase commit.

use super::*;

const GIDS: [&str; 4] = ["one", "two", "größer", "four"];
const OWNERS: [&str; 3] = ["", "billing", "somebody else"];

impl History {
    fn gid(&mut self) -> String {
        match self.random.below(20) {
            0 => String::new(),
            1 => "g".repeat(201),
            2 => "g".repeat(200),
            _ => (*self.random.pick(&GIDS)).to_owned(),
        }
    }

    pub(super) fn prepare_transaction(&mut self) -> Step {
        let (gid, owner) = (self.gid(), *self.random.pick(&OWNERS));
        let open = self.transaction();
        // Mostly one that has something to prepare. What a savepoint took back may still count as read, which is not modelled.
        let may_protect_reads =
            open.plain.isolation == Isolation::Serializable && open.plain.reads.is_empty();
        if open.plain.overlay.is_empty() && (may_protect_reads || !self.random.chance(1, 5)) {
            self.open.push(open);
            return self.write_in_transaction();
        }
        let Open { real, plain, durability, .. } = open;
        let mut real = real.expect("an open transaction is real");
        real.set_owner(owner).unwrap_or_else(|error| panic!("naming an owner: {error}"));
        let expected = self.model.prepare_outcome(&plain, &gid);
        let (result, handle) = if self.random.chance(1, 3) {
            let handle = real.prepare_async(&gid);
            (handle.as_ref().map(CommitHandle::lsn).map_err(Error::clone), handle.ok())
        } else {
            (real.prepare(&gid), None)
        };
        if result.is_err() && self.disk.crashed() {
            if expected == Outcome::Ok {
                self.model.prepare(Lsn::MAX, &gid, owner, &plain);
            }
            return Err(PowerLost);
        }
        if expected != Outcome::Ok {
            self.model.release(plain.owner);
        }
        self.expect(&result, expected, "prepare")?;
        if let Ok(stamp) = result {
            self.model.prepare(stamp, &gid, owner, &plain);
            match handle {
                Some(handle) => self.commits.push((handle, durability, stamp)),
                None => self.committed(stamp, durability),
            }
        }
        Ok(())
    }

    pub(super) fn decide(&mut self) -> Step {
        let prepared: Vec<String> = self.model.newest().prepared.keys().cloned().collect();
        let gid = if prepared.is_empty() || self.random.chance(1, 6) {
            self.gid()
        } else {
            self.random.pick(&prepared).clone()
        };
        let commits = self.random.chance(2, 3);
        let durability = *self.random.pick(&[Durability::Sync, Durability::Async]);
        let expected = if prepared.contains(&gid) { Outcome::Ok } else { Outcome::NotInDoubt };
        let asynchronous = self.random.chance(1, 3);
        let database = self.database();
        let (result, handle) = if asynchronous {
            let handle = if commits {
                database.two_phase().with(durability).commit_async(&gid)
            } else {
                database.two_phase().with(durability).rollback_async(&gid)
            };
            (handle.as_ref().map(CommitHandle::lsn).map_err(Error::clone), handle.ok())
        } else if commits {
            (database.two_phase().with(durability).commit(&gid), None)
        } else {
            (database.two_phase().with(durability).rollback(&gid), None)
        };
        if result.is_err() && self.disk.crashed() {
            if expected == Outcome::Ok {
                self.model.decide(Lsn::MAX, &gid, commits);
            }
            return Err(PowerLost);
        }
        self.expect(&result, expected, "decision")?;
        if let Ok(stamp) = result {
            self.model.decide(stamp, &gid, commits);
            match handle {
                Some(handle) => self.commits.push((handle, durability, stamp)),
                None => self.committed(stamp, durability),
            }
        }
        Ok(())
    }

    /// What is in doubt, as far as it is visible.
    pub(super) fn check_in_doubt(&mut self) -> Step {
        let real = self.database().two_phase().in_doubt();
        if self.disk.crashed() {
            return Err(PowerLost);
        }
        let real = self.must(real)?.into_iter().map(|found| (found.gid.clone(), found)).collect();
        let state = self.model.at(self.visible());
        assert!(state.has_in_doubt(&real), "in doubt {real:?}, expected {}", state.describe_in_doubt());
        Ok(())
    }
}
