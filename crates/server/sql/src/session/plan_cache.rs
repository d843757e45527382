//! Statements with their plans, by their text: all sessions share them.
//!
//! A plan depends on the text, the types of parameters, the role, the settings that plans depend on, and the definitions. The first four
//! are the key; a plan whose definitions have changed since is replaced by the next one that is made. Sessions with temporary tables, and
//! transactions that change definitions, use no shared plans: names mean something else there.
//!
//! Bounded by the lengths of the texts, which plans grow with.

use std::sync::Arc;

use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};
use seawall_types::Lsn;
use seawall_values::Oid;

use super::Session;
use super::plan::Planned;
use super::portal::ParsedStatement;
use crate::execute::Plan;
use crate::monitor::count;

/// Longer texts are seldom sent twice.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Plans, about.
const PLANS_MAX: usize = 2_048;
/// What a plan takes, about: so much, and so much for each byte of the text.
const PLAN_BYTES: u64 = 16 << 10;
const PLAN_BYTES_A_BYTE: u64 = 32;
/// Of all plans.
const ALL_BYTES_MAX: u64 = 32 << 20;

/// What a plan depends on, besides the definitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    text: Arc<str>,
    types: Vec<Oid>,
    user: Oid,
    settings: Arc<str>,
}

/// The same, of one that looks for a plan.
#[derive(Hash)]
struct Sought<'a> {
    text: &'a str,
    types: &'a [Oid],
    user: Oid,
    settings: &'a str,
}

impl Equivalent<Key> for Sought<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.user == key.user
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

/// All of them.
#[derive(Debug)]
pub(crate) struct PlanCache {
    plans: Cache<Key, Arc<CachedPlan>, PlanWeight>,
}

#[derive(Clone, Debug)]
struct PlanWeight;

impl Weighter<Key, Arc<CachedPlan>> for PlanWeight {
    fn weight(&self, key: &Key, _plan: &Arc<CachedPlan>) -> u64 {
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
        let settings = self.settings.plan_key();
        let sought = Sought { text, types, user: self.asker.user, settings: &settings };
        let cached = self.database.plans.plans.get(&sought)?;
        let is_current = self.database.store.definitions_changed_at() <= cached.as_of;
        is_current.then_some(cached)
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
        let key = Key {
            text: Arc::from(text),
            types: types.to_vec(),
            user: self.asker.user,
            settings: self.settings.plan_key(),
        };
        let plan = CachedPlan {
            statement: Arc::clone(statement),
            plan: Arc::clone(&planned.plan),
            as_of: planned.as_of,
        };
        self.database.plans.plans.insert(key, Arc::new(plan));
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
