//! Statements with their plans, by their text: all sessions share them.
//!
//! A plan depends on the text, the types of parameters, the role, the settings that plans depend on, and the definitions. The first four
//! are the key; a plan whose definitions have changed since is replaced by the next one that is made. Sessions with temporary tables, and
//! transactions that change definitions, use no shared plans: names mean something else there.
//!
//! Texts with constants share a plan, too, with all texts that differ in constants only, if no constant would have made another plan:
//!
//! ```text
//!   update t set a = a + 5 where id = 17 ---+
//!   update t set a = a + 3 where id = 12 ---+---> update t set a = a + $1 where id = $2 ---> plan, run with 5 and 17
//! ```
//!
//! Bounded by the lengths of the texts, which plans grow with.

use std::sync::Arc;

use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};
use seawall_types::Lsn;
use seawall_values::user_types::is_user_type;
use seawall_values::{Oid, SqlResult, oid};

use super::Session;
use super::plan::Planned;
use super::portal::ParsedStatement;
use crate::execute::Plan;
use crate::monitor::count;
use crate::parse::statement::Statement;
use crate::parse::{Parsed, WithoutConstants};

/// Longer texts are seldom sent twice.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Plans, about.
const PLANS_MAX: usize = 2_048;
/// What a plan takes, about: so much, and so much for each byte of the text.
const PLAN_BYTES: u64 = 16 << 10;
const PLAN_BYTES_A_BYTE: u64 = 32;
/// Of all plans.
const ALL_BYTES_MAX: u64 = 32 << 20;

/// What was taken out of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TakenOut {
    Nothing,
    /// Its constants are parameters: see `WithoutConstants`.
    Constants,
}

/// What a plan depends on, besides the definitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    text: Arc<str>,
    taken_out: TakenOut,
    types: Vec<Oid>,
    user: Oid,
    settings: Arc<str>,
}

/// The same, of one that looks for a plan.
#[derive(Hash)]
struct Sought<'a> {
    text: &'a str,
    taken_out: TakenOut,
    types: &'a [Oid],
    user: Oid,
    settings: &'a str,
}

impl Equivalent<Key> for Sought<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.user == key.user
            && self.taken_out == key.taken_out
            && *self.text == *key.text
            && *self.types == *key.types
            && *self.settings == *key.settings
    }
}

/// A statement that can be run again.
#[derive(Debug)]
pub(super) struct CachedPlan {
    pub(super) statement: Arc<ParsedStatement>,
    plan: Arc<Plan>,
    as_of: Lsn,
}

impl CachedPlan {
    /// The plan, for a session whose settings are of this version.
    pub(super) fn planned(&self, settings_version: u64) -> Planned {
        Planned::shared(Arc::clone(&self.plan), self.as_of, settings_version)
    }
}

/// What is known of the texts that differ in constants only.
#[derive(Debug)]
pub(super) enum SharedPlan {
    /// They are run by this plan.
    Plan(Arc<CachedPlan>),
    /// Each has a plan of its own.
    Refused,
    /// Nothing yet.
    Unknown,
}

/// A plan, or none by definitions as they were then.
type Entry = Result<Arc<CachedPlan>, Lsn>;

/// All of them.
#[derive(Debug)]
pub(crate) struct PlanCache {
    plans: Cache<Key, Entry, PlanWeight>,
}

#[derive(Clone, Debug)]
struct PlanWeight;

impl Weighter<Key, Entry> for PlanWeight {
    fn weight(&self, key: &Key, _plan: &Entry) -> u64 {
        let length = u64::try_from(key.text.len() + key.settings.len()).unwrap_or(u64::MAX);
        PLAN_BYTES.saturating_add(length.saturating_mul(PLAN_BYTES_A_BYTE))
    }
}

impl Default for PlanCache {
    fn default() -> PlanCache {
        PlanCache { plans: Cache::with_weighter(PLANS_MAX, ALL_BYTES_MAX, PlanWeight) }
    }
}

impl Session {
    /// The statement and the plan that are kept for a text, if they are good for the transaction under way.
    pub(super) fn cached_plan(&mut self, text: &str, types: &[Oid]) -> Option<Arc<CachedPlan>> {
        if !self.may_share_plans(text) {
            return None;
        }
        self.find(text, TakenOut::Nothing, types)?.ok()
    }

    /// The plan that is kept for all texts that are this one without their constants.
    pub(super) fn shared_plan(&mut self, without: &WithoutConstants) -> SharedPlan {
        if !self.may_share_plans(&without.text) {
            return SharedPlan::Refused;
        }
        match self.find(&without.text, TakenOut::Constants, &without.types) {
            Some(Ok(cached)) => SharedPlan::Plan(cached),
            Some(Err(_)) => SharedPlan::Refused,
            None => SharedPlan::Unknown,
        }
    }

    /// What is kept, if definitions have not changed since.
    fn find(&mut self, text: &str, taken_out: TakenOut, types: &[Oid]) -> Option<Entry> {
        let settings = self.settings.plan_key();
        let sought = Sought { text, taken_out, types, user: self.asker.user, settings: &settings };
        let entry = self.database.plans.plans.get(&sought)?;
        let as_of = match &entry {
            Ok(cached) => cached.as_of,
            Err(as_of) => *as_of,
        };
        (self.database.store.definitions_changed_at() <= as_of).then_some(entry)
    }

    /// Keeps a plan for the next time that its text comes.
    pub(super) fn keep_plan(
        &mut self,
        text: &str,
        types: &[Oid],
        statement: &Arc<ParsedStatement>,
        planned: &Planned,
    ) {
        let is_good_for_others = planned.is_shared() && self.may_share_plans(text);
        // Constants such as 'now' are a part of the plan.
        if !is_good_for_others || crate::parse::has_words_of_time(&statement.text) {
            return;
        }
        self.keep(text, TakenOut::Nothing, types, Ok(cached(statement, planned)));
    }

    /// After `planned` was made for a text with constants: makes one for all texts that differ from it in these only, unless constants
    /// may make a difference. Whatever is wrong with such a plan, this text has one.
    pub(super) fn share_plan(
        &mut self,
        without: &WithoutConstants,
        statement: &ParsedStatement,
        planned: &Planned,
    ) {
        // While everything may be a change of definitions, as always on a standby, no plan is kept for long.
        let is_in_vain = self.database.store.may_change_at_any_time();
        if is_in_vain || !planned.is_shared() || !self.may_share_plans(&without.text) {
            return;
        }
        let shared = match planned.plan.is_of_one_row() {
            true => self.planned_without_constants(without, statement, planned.as_of).ok().flatten(),
            false => None,
        };
        self.keep(&without.text, TakenOut::Constants, &without.types, shared.ok_or(planned.as_of));
    }

    fn planned_without_constants(
        &mut self,
        without: &WithoutConstants,
        like: &ParsedStatement,
        as_of: Lsn,
    ) -> SqlResult<Option<Arc<CachedPlan>>> {
        let mut parsed = crate::parse::parse(&without.text)?;
        let (Some(Parsed { text, statement: Statement::Dml(dml) }), true) = (parsed.pop(), parsed.is_empty())
        else {
            return Ok(None);
        };
        let query = self.bound(&text, &dml, &without.types)?;
        let planned = self.planned(&query, as_of)?;
        // What names an object, or has a type of the user's, is read in other ways than parameters are; the text of an interval by the fields
        // of the column that it is for.
        let is_plain = |of: &Oid| {
            !matches!(*of, oid::INTERVAL | oid::INTERVAL_ARRAY)
                && !is_user_type(*of)
                && !super::encode::is_named(*of, 0)
        };
        let is_good = planned.plan.is_of_one_row()
            && planned.is_shared()
            && planned.parameters().len() == without.constants.len()
            && planned.parameters().iter().all(is_plain);
        let statement =
            ParsedStatement::known_as(like.fingerprint().clone(), text, Some(Statement::Dml(dml)));
        Ok(is_good.then(|| cached(&Arc::new(statement), &planned)))
    }

    fn keep(&mut self, text: &str, taken_out: TakenOut, types: &[Oid], entry: Entry) {
        let key = Key {
            text: Arc::from(text),
            taken_out,
            types: types.to_vec(),
            user: self.asker.user,
            settings: self.settings.plan_key(),
        };
        self.database.plans.plans.insert(key, entry);
    }

    /// A kept plan, ready to be run by this session.
    pub(super) fn adopted(&mut self, cached: &CachedPlan) -> Planned {
        count(&self.monitor().counts.plans_found);
        cached.planned(self.settings.version())
    }

    fn may_share_plans(&self, text: &str) -> bool {
        let changes_definitions = self.open.as_ref().is_some_and(|open| open.changes_definitions);
        text.len() <= TEXT_BYTES_MAX && self.asker.temporary_namespace == 0 && !changes_definitions
    }
}

fn cached(statement: &Arc<ParsedStatement>, planned: &Planned) -> Arc<CachedPlan> {
    let (statement, plan) = (Arc::clone(statement), Arc::clone(&planned.plan));
    Arc::new(CachedPlan { statement, plan, as_of: planned.as_of })
}
