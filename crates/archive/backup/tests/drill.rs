//! Drills: what they report, and that they find what cannot be restored.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod common;

use common::World;
use seawall_backup::{BackupError, DrillReport, RestoreRequest, drill};
use seawall_engine::RestoreTarget;
use seawall_simulation::SimulatedDisk;
use seawall_types::Lsn;

fn drilled(world: &World, request: &RestoreRequest) -> Result<DrillReport, BackupError> {
    let environment = world.environment(&SimulatedDisk::new(9));
    let damage = &mut |damage| panic!("{damage}");
    drill(&world.repository(), &environment, &world.options(), request, damage, &mut |_| {
        // So that each step takes some time.
        world.clock.advance(std::time::Duration::from_millis(5));
    })
}

#[test]
fn a_drill_reads_what_was_restored_and_says_how_long_each_phase_took() {
    for world in [World::new(), World::encrypted()] {
        let database = world.open();
        let table = database.create_table("t").unwrap();
        for key in 0..40_u32 {
            database.put(&table, key.to_be_bytes(), [3; 2000]).unwrap();
        }
        database.checkpoint().unwrap();
        let backup = world.back_up(&database);
        for key in 0..20_u32 {
            database.put(&table, key.to_be_bytes(), [4; 20_000]).unwrap();
        }
        let end = database.log().archive_now().unwrap();
        let before = world.store.list_all();
        let report = drilled(&world, &RestoreRequest::default()).unwrap();
        assert_eq!((&report.restored.backup, report.restored.end.end), (&backup.id, end));
        assert_eq!(report.checked.damages, 0);
        assert!(report.checked.rows >= 40, "{:?}", report.checked);
        let phases = report.phases;
        assert!(!phases.fetch.is_zero() && !phases.rows.is_zero() && !phases.replay.is_zero());
        assert_eq!(phases.recovery(), report.restored.elapsed);
        assert_eq!(world.store.list_all(), before, "a drill leaves nothing in the repository");
        let request = RestoreRequest {
            target: RestoreTarget::Lsn(backup.manifest.end.end),
            ..RestoreRequest::default()
        };
        assert!(drilled(&world, &request).unwrap().restored.end.end <= backup.manifest.end.end);
    }
}

#[test]
fn a_drill_fails_as_a_restore_would() {
    let world = World::new();
    let database = world.open();
    let table = database.create_table("t").unwrap();
    database.put(&table, b"k", b"v").unwrap();
    database.checkpoint().unwrap();
    let backup = world.back_up(&database);
    let request = RestoreRequest { target: RestoreTarget::Lsn(Lsn::new(1)), ..RestoreRequest::default() };
    assert!(matches!(drilled(&world, &request), Err(BackupError::NoBackup { .. })));
    let run = format!("seawall-{}/backups/{}/run-00000001", backup.manifest.base.database, backup.id);
    let last = world.store.read_file(&run).unwrap().len() as u64 - 1;
    world.store.flip_bit(&run, last, 1);
    let problem = drilled(&world, &RestoreRequest::default()).unwrap_err().to_string();
    assert!(problem.contains("run-00000001"), "{problem}");
}
