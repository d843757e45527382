//! Access lists of objects, privileges that new objects begin with, and the roles whose privileges a role has.

use rustc_hash::FxHashSet;
use seawall_engine::Transaction;
use seawall_values::{Oid, SqlResult};

use super::{SchemaStore, encoding, rows};
use crate::schema::privilege::{AccessList, ObjectKind, Privileges, Rights};
use crate::storage::value::damaged;

/// An object with an access list: its number, that of its class, and a column from 1 or 0.
pub type AccessPlace = (Oid, Oid, u16);

/// What `ALTER DEFAULT PRIVILEGES` has said: for new objects of a role, in a schema (0: in all), of a kind.
pub type DefaultAccess = (Oid, Oid, ObjectKind);

impl SchemaStore {
    /// The access list of an object; `None`: nothing was granted or revoked.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn access_list(
        &self,
        transaction: &mut Transaction,
        (object, class, column): AccessPlace,
    ) -> SqlResult<Option<AccessList>> {
        let stored = self.get(transaction, &rows::access(object, class, column))?;
        stored.map(|bytes| encoding::decode(&bytes)).transpose()
    }

    /// The access lists of an object's columns, by their numbers; with that of the object itself, under 0.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn access_lists(
        &self,
        transaction: &mut Transaction,
        object: Oid,
        class: Oid,
    ) -> SqlResult<Vec<(u16, AccessList)>> {
        let list = |(key, bytes): (Vec<u8>, Vec<u8>)| {
            let (_, _, column) = rows::commented(&key).ok_or_else(|| damaged("the key of an access list"))?;
            Ok((column, encoding::decode(&bytes)?))
        };
        self.rows(transaction, &rows::access_of(object, class))?.into_iter().map(list).collect()
    }

    /// All access lists that name a role.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn access_lists_naming(
        &self,
        transaction: &mut Transaction,
        role: Oid,
    ) -> SqlResult<Vec<(AccessPlace, AccessList)>> {
        let mut found = Vec::new();
        for (key, bytes) in self.rows(transaction, &rows::all_access())? {
            let place = rows::commented(&key).ok_or_else(|| damaged("the key of an access list"))?;
            let list: AccessList = encoding::decode(&bytes)?;
            if list.names(role) {
                found.push((place, list));
            }
        }
        Ok(found)
    }

    /// Sets what `access_list` returns.
    ///
    /// # Errors
    /// What the engine says.
    pub fn put_access_list(
        &self,
        transaction: &mut Transaction,
        (object, class, column): AccessPlace,
        list: Option<&AccessList>,
    ) -> SqlResult<()> {
        let key = rows::access(object, class, column);
        match list {
            Some(list) => self.put(transaction, &key, &encoding::encode(list)?),
            None => self.delete(transaction, &key),
        }
    }

    /// The list that `ALTER DEFAULT PRIVILEGES` has left.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn default_access(
        &self,
        transaction: &mut Transaction,
        (role, namespace, kind): DefaultAccess,
    ) -> SqlResult<Option<AccessList>> {
        let stored = self.get(transaction, &rows::default_access(role, namespace, letter(kind)))?;
        stored.map(|bytes| encoding::decode(&bytes)).transpose()
    }

    /// Sets what `default_access` returns.
    ///
    /// # Errors
    /// What the engine says.
    pub fn put_default_access(
        &self,
        transaction: &mut Transaction,
        (role, namespace, kind): DefaultAccess,
        list: Option<&AccessList>,
    ) -> SqlResult<()> {
        let key = rows::default_access(role, namespace, letter(kind));
        match list {
            Some(list) => self.put(transaction, &key, &encoding::encode(list)?),
            None => self.delete(transaction, &key),
        }
    }

    /// All that `ALTER DEFAULT PRIVILEGES` has left.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn all_default_access(
        &self,
        transaction: &mut Transaction,
    ) -> SqlResult<Vec<(DefaultAccess, AccessList)>> {
        let entry = |(key, bytes): (Vec<u8>, Vec<u8>)| {
            let damaged = || damaged("the key of default privileges");
            let (role, namespace, letter) = rows::default_accessed(&key).ok_or_else(damaged)?;
            let kind = KINDS.iter().find(|(_, known)| *known == letter).ok_or_else(damaged)?.0;
            Ok(((role, namespace, kind), encoding::decode(&bytes)?))
        };
        self.rows(transaction, &rows::all_default_access())?.into_iter().map(entry).collect()
    }

    /// The privileges that a role has on an object of this owner.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn privileges_held(
        &self,
        transaction: &mut Transaction,
        rights: &Rights,
        kind: ObjectKind,
        place: AccessPlace,
        owner: Oid,
    ) -> SqlResult<Privileges> {
        if rights.is_superuser() {
            return Ok(kind.privileges());
        }
        let stored = self.access_list(transaction, place)?;
        let list = stored.unwrap_or_else(|| AccessList::of_new(kind, owner));
        Ok(list.held(rights).and(rights.of_system(kind)))
    }

    /// What a role may do by itself and by the roles that it is a member of.
    ///
    /// # Errors
    /// What the engine says; `XX001`.
    pub fn rights(&self, transaction: &mut Transaction, role: Oid) -> SqlResult<Rights> {
        let mut known = FxHashSet::from_iter([role]);
        let mut unseen = vec![role];
        while let Some(member) = unseen.pop() {
            let Some(found) = self.role(transaction, member)? else { continue };
            if found.is_superuser && member == role {
                return Ok(Rights::new(role, None));
            }
            if found.inherits {
                unseen.extend(found.member_of.iter().map(|(of, _)| *of).filter(|of| known.insert(*of)));
            }
        }
        Ok(Rights::new(role, Some(known)))
    }
}

/// Kinds by their letters in `pg_default_acl`.
const KINDS: [(ObjectKind, u8); 5] = [
    (ObjectKind::Table, b'r'),
    (ObjectKind::Sequence, b'S'),
    (ObjectKind::Function, b'f'),
    (ObjectKind::Type, b'T'),
    (ObjectKind::Schema, b'n'),
];

/// The letter of a kind in `pg_default_acl`; 0: it has no default privileges.
pub fn letter(kind: ObjectKind) -> u8 {
    KINDS.iter().find(|(known, _)| *known == kind).map_or(0, |(_, letter)| *letter)
}
