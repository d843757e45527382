//! An encrypted database: made, opened with its master key and no other, and given a new master key. In a scratch directory.

use seawall::{Database, Error, MasterKey, Options, OtherMasterKeys};

fn main() -> Result<(), Error> {
    let scratch = tempfile::tempdir().expect("a scratch directory can be made");
    let directory = scratch.path().join("vault");
    // In earnest: `openssl rand -hex 32`, in a file that only this program's user can read, or from a command that asks a key service.
    let key_file = |name: &str, digits: &str| {
        let path = scratch.path().join(name);
        std::fs::write(&path, digits.repeat(4)).expect("a scratch file can be written");
        MasterKey::File(path)
    };
    let (old, new) = (key_file("old.key", "0123456789abcdef"), key_file("new.key", "fedcba9876543210"));
    let with = |key: &MasterKey| Options { master_key: Some(key.clone()), ..Options::default() };

    // A new database with a master key is encrypted from its first byte on.
    let database = Database::open(&directory, with(&old))?;
    let secrets = database.create_table("secrets")?;
    database.put(&secrets, "door", "1234")?;
    database.close()?;

    // Without the key nothing can be read, and the error says which one is needed.
    assert!(matches!(Database::open(&directory, Options::default()), Err(Error::Encrypted { .. })));
    assert!(matches!(Database::open(&directory, with(&new)), Err(Error::WrongMasterKey { .. })));

    // A rotation rewrites one small file and no data, while the database is open.
    let database = Database::open(&directory, with(&old))?;
    database.rotate_master_key(&new, OtherMasterKeys::Drop)?;
    database.close()?;
    assert!(matches!(Database::open(&directory, with(&old)), Err(Error::WrongMasterKey { .. })));
    let database = Database::open(&directory, with(&new))?;
    let door = database.get(&database.table("secrets")?, "door")?;
    assert_eq!(door.as_deref(), Some(&b"1234"[..]));
    println!("the door opens with {}", String::from_utf8_lossy(&door.unwrap_or_default()));
    database.close()
}
