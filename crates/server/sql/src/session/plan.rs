//! Statements as plans: bound and optimized in the transaction that runs them, kept while no definition changes.

use std::sync::Arc;

use seawall_types::Lsn;
use seawall_values::{Oid, SqlResult};

use super::Session;
use crate::algebra::{OutputColumn, Query};
use crate::bind::Binder;
use crate::execute::Plan;
use crate::optimize;
use crate::parse::{Dml, Text};
use crate::schema::store::{SchemaReader, SearchPath, StoredStatistics};
use crate::storage::engine_error::EngineResult;

/// A statement that was planned.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) plan: Arc<Plan>,
    /// The snapshot of the definitions that it was planned from.
    pub(super) as_of: Lsn,
    /// `SessionSettings::version` then.
    settings: u64,
    /// Whether another transaction may use it: it was planned from definitions that are committed.
    is_shared: bool,
}

impl Planned {
    /// A plan that another session has made.
    pub(super) fn shared(plan: Arc<Plan>, as_of: Lsn, settings: u64) -> Planned {
        Planned { plan, as_of, settings, is_shared: true }
    }

    /// Whether it was planned from definitions that are committed.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    pub(super) fn output(&self) -> &[OutputColumn] {
        &self.plan.output
    }

    pub(super) fn parameters(&self) -> &[Oid] {
        &self.plan.parameters
    }
}

impl Session {
    /// Begins the statement under way: all that it reads is as of one moment. For plans: that moment.
    pub(super) fn begin_statement(&mut self) -> SqlResult<Lsn> {
        let lsn = self.engine_transaction()?.begin_statement().sql()?;
        self.see_types()?;
        self.settings.begin_statement((self.settings.values().clock)());
        Ok(lsn)
    }

    /// Takes over the types that the transaction sees, if they may have changed.
    fn see_types(&mut self) -> SqlResult<()> {
        let changes_definitions = self.open.as_ref().is_some_and(|open| open.changes_definitions);
        let version = self.settings.version();
        if let Some((known, at, types)) = &self.types_seen
            && !changes_definitions
            && *known == version
            && self.database.store.definitions_changed_at() <= *at
        {
            // A rollback may have brought back older settings.
            self.settings.set_types(types);
            return Ok(());
        }
        let path = self.search_path()?;
        let database = Arc::clone(&self.database);
        let transaction = self.engine_transaction()?;
        let at = transaction.begin_statement().sql()?;
        let types = database.store.types_seen(transaction, &path)?;
        let types = Arc::new(types);
        self.settings.set_types(&types);
        self.types_seen = (!changes_definitions).then_some((version, at, types));
        Ok(())
    }

    /// Where names are looked up in this transaction.
    pub(super) fn search_path(&mut self) -> SqlResult<SearchPath> {
        let version = self.settings.version();
        let changes_definitions = self.open.as_ref().is_some_and(|open| open.changes_definitions);
        if !changes_definitions
            && let Some((known, at, path)) = &self.path
            && *known == version
            && self.database.store.definitions_changed_at() <= *at
        {
            return Ok(path.clone());
        }
        let at = self.engine_transaction()?.begin_statement().sql()?;
        let rights = Arc::new(self.look_up_user()?);
        let names = self.settings.search_path().to_vec();
        let (user, temporary) = (self.user.clone(), self.asker.temporary_namespace);
        let database = Arc::clone(&self.database);
        let transaction = self.engine_transaction()?;
        let path = SearchPath::of(&names, &user, Some(rights), temporary, &database.store, transaction)?;

        self.asker.search_path.clone_from(&path.namespaces);
        self.asker.implied = path
            .namespaces
            .iter()
            .take_while(|oid| **oid == temporary || **oid == crate::catalog::numbers::PG_CATALOG)
            .count();
        self.path = (!changes_definitions).then(|| (version, at, path.clone()));
        Ok(path)
    }

    /// Whether a plan is good for the statement that begins at this moment.
    pub(super) fn is_current(&self, planned: &Planned, now: Lsn) -> bool {
        let changes_definitions = self.open.as_ref().is_some_and(|open| open.changes_definitions);
        planned.is_shared
            && !changes_definitions
            && planned.settings == self.settings.version()
            && self.database.store.definitions_changed_at() <= planned.as_of.min(now)
    }

    /// Binds and plans a statement as of the statement under way.
    pub(super) fn plan(
        &mut self,
        text: &Text,
        statement: &Dml,
        parameters: &[Oid],
        as_of: Lsn,
    ) -> SqlResult<Planned> {
        let begun = super::measure::now();
        let query = self.bound(text, statement, parameters)?;
        let planned = self.planned(&query, as_of)?;
        self.note_plan(begun);
        Ok(planned)
    }

    /// The algebra of a statement that the user may run.
    pub(super) fn bound(&mut self, text: &Text, statement: &Dml, parameters: &[Oid]) -> SqlResult<Query> {
        let (query, needed) = self.bind_with(text, parameters, |binder| {
            let query = match statement {
                Dml::Query(query) => binder.query(query)?,
                Dml::Change(change) => {
                    let (relation, output) = binder.change_statement(change)?;
                    binder.finish(relation, output)?
                }
            };
            Ok((query, binder.take_needed()))
        })?;
        self.check_privileges(&needed)?;
        Ok(query)
    }

    /// Runs `body` with a binder over the definitions of the transaction.
    pub(super) fn bind_with<T>(
        &mut self,
        text: &Text,
        parameters: &[Oid],
        body: impl FnOnce(&mut Binder<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        self.see_types()?;
        let path = self.search_path()?;
        let values = self.settings.values();
        let database = Arc::clone(&self.database);
        let transaction = self.engine_transaction()?;
        let mut reader = SchemaReader { store: &database.store, transaction, path: &path };
        let mut binder = Binder::new(&mut reader, &values, text, parameters);
        body(&mut binder).map_err(|error| values.types.name_in(error))
    }

    pub(super) fn planned(&mut self, query: &Query, as_of: Lsn) -> SqlResult<Planned> {
        let changes_definitions = self.open.as_ref().is_some_and(|open| open.changes_definitions);
        let database = Arc::clone(&self.database);
        // A transaction that only plans by them does not depend on them: statistics may be newer at its commit.
        let mut own;
        let transaction = match changes_definitions {
            true => self.engine_transaction()?,
            false => {
                own = self.engine.begin();
                &mut own
            }
        };
        let mut statistics = StoredStatistics { store: &database.store, transaction, failure: None };
        let plan = optimize::plan(query, &mut statistics)?;
        if let Some(failure) = statistics.failure {
            return Err(failure);
        }
        Ok(Planned { plan, as_of, settings: self.settings.version(), is_shared: !changes_definitions })
    }
}
