//! Privileges, and access lists: which role may do what with an object, and which role has granted that.
//!
//! ```text
//!   asker --member of--> roles --grantee of--> items of the object's list --> privileges
//! ```
//! An object without a list has the one that PostgreSQL gives to a new object of its kind. Superusers have all privileges, and the rules
//! of granting and revoking are PostgreSQL's (`aclchk.c`, `acl.c`).

use rustc_hash::FxHashSet;
use seawall_values::Oid;

use crate::catalog::numbers::{READ_ALL_DATA, WRITE_ALL_DATA};
use crate::schema::define::requests::Behavior;

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Privileges(u16);

impl Privileges {
    /// No privilege.
    pub const NONE: Privileges = Privileges(0);
    /// `INSERT`.
    pub const INSERT: Privileges = Privileges(1 << 0);
    /// `SELECT`.
    pub const SELECT: Privileges = Privileges(1 << 1);
    /// `UPDATE`.
    pub const UPDATE: Privileges = Privileges(1 << 2);
    /// `DELETE`.
    pub const DELETE: Privileges = Privileges(1 << 3);
    /// `TRUNCATE`.
    pub const TRUNCATE: Privileges = Privileges(1 << 4);
    /// `REFERENCES`.
    pub const REFERENCES: Privileges = Privileges(1 << 5);
    /// `TRIGGER`.
    pub const TRIGGER: Privileges = Privileges(1 << 6);
    /// `EXECUTE`.
    pub const EXECUTE: Privileges = Privileges(1 << 7);
    /// `USAGE`.
    pub const USAGE: Privileges = Privileges(1 << 8);
    /// `CREATE`.
    pub const CREATE: Privileges = Privileges(1 << 9);
    /// `TEMPORARY`.
    pub const TEMPORARY: Privileges = Privileges(1 << 10);
    /// `CONNECT`.
    pub const CONNECT: Privileges = Privileges(1 << 11);

    /// Each privilege with its letter in access lists and its word, in the order of access lists.
    pub const ALL: [(Privileges, char, &str); 12] = [
        (Privileges::INSERT, 'a', "INSERT"),
        (Privileges::SELECT, 'r', "SELECT"),
        (Privileges::UPDATE, 'w', "UPDATE"),
        (Privileges::DELETE, 'd', "DELETE"),
        (Privileges::TRUNCATE, 'D', "TRUNCATE"),
        (Privileges::REFERENCES, 'x', "REFERENCES"),
        (Privileges::TRIGGER, 't', "TRIGGER"),
        (Privileges::EXECUTE, 'X', "EXECUTE"),
        (Privileges::USAGE, 'U', "USAGE"),
        (Privileges::CREATE, 'C', "CREATE"),
        (Privileges::TEMPORARY, 'T', "TEMPORARY"),
        (Privileges::CONNECT, 'c', "CONNECT"),
    ];

    /// The set whose bits are stored as this number.
    pub const fn from_bits(bits: u16) -> Option<Privileges> {
        if bits < 1 << 12 { Some(Privileges(bits)) } else { None }
    }

    /// As it is stored.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The privilege with this word, in upper case.
    pub fn named(word: &str) -> Option<Privileges> {
        let word = if word == "TEMP" { "TEMPORARY" } else { word };
        Privileges::ALL.iter().find(|(_, _, known)| *known == word).map(|(privilege, _, _)| *privilege)
    }

    /// Those of either set.
    pub const fn and(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }

    /// Those of both sets.
    pub const fn shared(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }

    /// Those of this set that the other one lacks.
    pub const fn without(self, other: Privileges) -> Privileges {
        Privileges(self.0 & !other.0)
    }

    /// Whether there is none.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether all of the other set are in it.
    pub const fn has(self, other: Privileges) -> bool {
        self.0 & other.0 == other.0
    }

    /// Each of them alone, in the order of access lists.
    pub fn each(self) -> impl Iterator<Item = (Privileges, char, &'static str)> {
        Privileges::ALL.into_iter().filter(move |(privilege, _, _)| self.has(*privilege))
    }
}

/// A kind of object that privileges are granted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A table or view.
    Table,
    /// A column of a table or view.
    Column,
    /// A sequence.
    Sequence,
    /// A schema.
    Schema,
    /// The database.
    Database,
    /// A function.
    Function,
    /// A type: privileges of new ones only, for `ALTER DEFAULT PRIVILEGES`.
    Type,
}

impl ObjectKind {
    /// All privileges that objects of the kind have.
    pub fn privileges(self) -> Privileges {
        let of_columns =
            Privileges::INSERT.and(Privileges::SELECT).and(Privileges::UPDATE).and(Privileges::REFERENCES);
        match self {
            ObjectKind::Column => of_columns,
            ObjectKind::Table => {
                of_columns.and(Privileges::DELETE).and(Privileges::TRUNCATE).and(Privileges::TRIGGER)
            }
            ObjectKind::Sequence => Privileges::USAGE.and(Privileges::SELECT).and(Privileges::UPDATE),
            ObjectKind::Schema => Privileges::USAGE.and(Privileges::CREATE),
            ObjectKind::Database => Privileges::CREATE.and(Privileges::TEMPORARY).and(Privileges::CONNECT),
            ObjectKind::Function => Privileges::EXECUTE,
            ObjectKind::Type => Privileges::USAGE,
        }
    }

    /// What all roles may do with a new object of the kind.
    fn of_public(self) -> Privileges {
        match self {
            ObjectKind::Database => Privileges::TEMPORARY.and(Privileges::CONNECT),
            ObjectKind::Function => Privileges::EXECUTE,
            ObjectKind::Type => Privileges::USAGE,
            ObjectKind::Table | ObjectKind::Column | ObjectKind::Sequence | ObjectKind::Schema => {
                Privileges::NONE
            }
        }
    }

    /// As messages name it.
    pub fn word(self) -> &'static str {
        match self {
            ObjectKind::Table => "table",
            ObjectKind::Column => "column",
            ObjectKind::Sequence => "sequence",
            ObjectKind::Schema => "schema",
            ObjectKind::Database => "database",
            ObjectKind::Function => "function",
            ObjectKind::Type => "type",
        }
    }
}

/// The privileges that one role has granted to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessItem {
    /// The role that has the privileges; 0: all roles.
    pub grantee: Oid,
    /// The role that has granted them.
    pub grantor: Oid,
    /// What was granted.
    pub privileges: Privileges,
    /// What the grantee may grant to others: a part of `privileges`.
    pub grantable: Privileges,
}

/// Who may do what with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessList {
    /// The owner's item first while nothing was revoked; at most one for a grantee and a grantor.
    pub items: Vec<AccessItem>,
}

/// Why an access list cannot be changed as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRefusal {
    /// Others have granted on what would be revoked.
    Dependents,
    /// The grantor has the right to grant only through the grantee.
    Circle,
}

impl AccessList {
    /// The list of a new object.
    pub fn of_new(kind: ObjectKind, owner: Oid) -> AccessList {
        let item = |grantee, privileges| AccessItem {
            grantee,
            grantor: owner,
            privileges,
            grantable: Privileges::NONE,
        };
        let mut items = Vec::new();
        if !kind.of_public().is_none() {
            items.push(item(0, kind.of_public()));
        }
        if kind != ObjectKind::Column {
            items.push(item(owner, kind.privileges()));
        }
        AccessList { items }
    }

    /// The privileges that a role has by the list.
    pub fn held(&self, rights: &Rights) -> Privileges {
        let held = self.items.iter().filter(|item| item.grantee == 0 || rights.has_role(item.grantee));
        held.fold(Privileges::NONE, |held, item| held.and(item.privileges))
    }

    /// The privileges that a role may grant on: an owner all that objects of the kind have.
    pub fn grantable(&self, rights: &Rights, owner: Oid) -> Privileges {
        if rights.has_role(owner) {
            return Privileges(u16::MAX);
        }
        let granted = self.items.iter().filter(|item| item.grantee != 0 && rights.has_role(item.grantee));
        granted.fold(Privileges::NONE, |grantable, item| grantable.and(item.grantable))
    }

    /// What a single role may grant on, without the roles that it is a member of.
    fn grantable_by(&self, role: Oid, owner: Oid) -> Privileges {
        if role == owner {
            return Privileges(u16::MAX);
        }
        let own = self.items.iter().filter(|item| item.grantee == role);
        own.fold(Privileges::NONE, |grantable, item| grantable.and(item.grantable))
    }

    /// The role in whose name an asker grants privileges, and which of them that role may grant.
    pub fn grantor(&self, rights: &Rights, owner: Oid, wanted: Privileges) -> (Oid, Privileges) {
        if rights.has_role(owner) {
            return (owner, wanted);
        }
        let mut best = (rights.role, self.grantable_by(rights.role, owner).shared(wanted));
        for item in &self.items {
            let grantable = item.grantable.shared(wanted);
            if rights.has_role(item.grantee) && grantable.0.count_ones() > best.1.0.count_ones() {
                best = (item.grantee, grantable);
            }
        }
        best
    }

    /// Adds an item.
    ///
    /// # Errors
    /// `Circle`.
    pub fn grant(&mut self, item: AccessItem, owner: Oid) -> Result<(), AccessRefusal> {
        if !item.grantable.is_none() && item.grantor != owner {
            // Without what the grantee has granted, the grantor must still have the right.
            let mut without = self.clone();
            for known in self.items.iter().filter(|known| known.grantee == item.grantee) {
                let options = AccessItem { privileges: Privileges::NONE, ..*known };
                // The list that is thrown away may lose all that depends.
                without.revoke(options, owner, Behavior::Cascade)?;
            }
            if !without.grantable_by(item.grantor, owner).has(item.grantable) {
                return Err(AccessRefusal::Circle);
            }
        }
        let is_same =
            |known: &&mut AccessItem| known.grantee == item.grantee && known.grantor == item.grantor;
        match self.items.iter_mut().find(is_same) {
            Some(known) => {
                known.privileges = known.privileges.and(item.privileges);
                known.grantable = known.grantable.and(item.grantable);
            }
            None => self.items.push(item),
        }
        Ok(())
    }

    /// Takes privileges, and the right to grant them, from the item of a grantee and a grantor.
    ///
    /// # Errors
    /// `Dependents`: the grantee has granted them to others, and `behavior` does not revoke those.
    pub fn revoke(&mut self, item: AccessItem, owner: Oid, behavior: Behavior) -> Result<(), AccessRefusal> {
        // Each turn takes something out of the list, so there are as many turns as there are bits in it.
        let mut waiting = vec![item];
        while let Some(item) = waiting.pop() {
            let is_same =
                |known: &&mut AccessItem| known.grantee == item.grantee && known.grantor == item.grantor;
            let Some(known) = self.items.iter_mut().find(is_same) else { continue };
            let options = item.privileges.and(item.grantable);
            let lost = known.grantable.shared(options);
            known.privileges = known.privileges.without(item.privileges);
            known.grantable = known.grantable.without(options);
            self.items.retain(|known| !known.privileges.is_none());
            let lost = lost.without(self.grantable_by(item.grantee, owner));
            for dependent in self.items.iter().filter(|known| known.grantor == item.grantee) {
                let revoked = dependent.privileges.shared(lost);
                if revoked.is_none() {
                    continue;
                }
                if behavior == Behavior::Restrict {
                    return Err(AccessRefusal::Dependents);
                }
                waiting.push(AccessItem { privileges: revoked, grantable: revoked, ..*dependent });
            }
        }
        Ok(())
    }

    /// The list once the object has another owner: what the old one had and granted is the new one's.
    #[must_use]
    pub fn given(&self, from: Oid, to: Oid) -> AccessList {
        let renamed = |role: Oid| if role == from { to } else { role };
        let mut given = AccessList::default();
        for item in &self.items {
            let item = AccessItem { grantee: renamed(item.grantee), grantor: renamed(item.grantor), ..*item };
            let is_same =
                |known: &&mut AccessItem| known.grantee == item.grantee && known.grantor == item.grantor;
            match given.items.iter_mut().find(is_same) {
                Some(known) => {
                    known.privileges = known.privileges.and(item.privileges);
                    known.grantable = known.grantable.and(item.grantable);
                }
                None => given.items.push(item),
            }
        }
        given
    }

    /// Whether a role has granted or been granted something.
    pub fn names(&self, role: Oid) -> bool {
        self.items.iter().any(|item| item.grantee == role || item.grantor == role)
    }
}

/// A role, and the roles whose privileges it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The role.
    pub role: Oid,
    /// It, and those that it is a member of and inherits from; `None`: it is a superuser.
    roles: Option<FxHashSet<Oid>>,
}

impl Rights {
    /// The rights of a role with these roles; `None`: of a superuser.
    pub fn new(role: Oid, roles: Option<FxHashSet<Oid>>) -> Rights {
        Rights { role, roles }
    }

    /// Whether nothing is refused.
    pub fn is_superuser(&self) -> bool {
        self.roles.is_none()
    }

    /// What `pg_read_all_data` and `pg_write_all_data` may do with any object of a kind.
    pub fn of_system(&self, kind: ObjectKind) -> Privileges {
        let (of_readers, of_writers) = match kind {
            ObjectKind::Table => {
                (Privileges::SELECT, Privileges::INSERT.and(Privileges::UPDATE).and(Privileges::DELETE))
            }
            ObjectKind::Sequence => (Privileges::SELECT, Privileges::UPDATE),
            ObjectKind::Schema => (Privileges::USAGE, Privileges::USAGE),
            ObjectKind::Column | ObjectKind::Database | ObjectKind::Function | ObjectKind::Type => {
                return Privileges::NONE;
            }
        };
        let had = |role, privileges| if self.has_role(role) { privileges } else { Privileges::NONE };
        had(READ_ALL_DATA, of_readers).and(had(WRITE_ALL_DATA, of_writers))
    }

    /// Whether the privileges of a role are had.
    pub fn has_role(&self, role: Oid) -> bool {
        self.roles.as_ref().is_none_or(|roles| roles.contains(&role))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Oid = 10;
    const ANNA: Oid = 11;
    const BOB: Oid = 12;

    fn item(grantee: Oid, grantor: Oid, privileges: Privileges, grantable: Privileges) -> AccessItem {
        AccessItem { grantee, grantor, privileges, grantable }
    }

    fn list() -> AccessList {
        let mut list = AccessList::of_new(ObjectKind::Table, OWNER);
        list.grant(item(ANNA, OWNER, Privileges::SELECT, Privileges::SELECT), OWNER).unwrap();
        list.grant(item(BOB, ANNA, Privileges::SELECT, Privileges::SELECT), OWNER).unwrap();
        list
    }

    #[test]
    fn what_was_granted_on_is_revoked_only_by_cascade() {
        let mut list = list();
        let before = list.clone();
        let all = item(ANNA, OWNER, Privileges::SELECT, Privileges::SELECT);
        assert_eq!(before.clone().revoke(all, OWNER, Behavior::Restrict), Err(AccessRefusal::Dependents));
        let only_option = item(ANNA, OWNER, Privileges::NONE, Privileges::SELECT);
        assert_eq!(
            before.clone().revoke(only_option, OWNER, Behavior::Restrict),
            Err(AccessRefusal::Dependents)
        );
        list.revoke(only_option, OWNER, Behavior::Cascade).unwrap();
        let anna = Rights::new(ANNA, Some(FxHashSet::from_iter([ANNA])));
        let bob = Rights::new(BOB, Some(FxHashSet::from_iter([BOB])));
        assert_eq!(list.held(&anna), Privileges::SELECT);
        assert_eq!(list.held(&bob), Privileges::NONE);
    }

    #[test]
    fn the_right_to_grant_is_not_granted_in_a_circle() {
        let mut list = list();
        let back = item(ANNA, BOB, Privileges::SELECT, Privileges::SELECT);
        assert_eq!(list.grant(back, OWNER), Err(AccessRefusal::Circle));
        let plain = item(ANNA, BOB, Privileges::SELECT, Privileges::NONE);
        assert_eq!(list.grant(plain, OWNER), Ok(()));
    }

    #[test]
    fn a_new_owner_has_what_the_old_one_had() {
        let given = list().given(OWNER, BOB);
        assert_eq!(given.items[0].grantee, BOB);
        assert_eq!(given.items[1], item(ANNA, BOB, Privileges::SELECT, Privileges::SELECT));
        assert!(!given.names(OWNER));
    }
}
