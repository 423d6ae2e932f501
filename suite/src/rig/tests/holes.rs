//! Holes: found where there should be none, and written again where trims left them.

use std::cell::Cell;

use super::*;
use crate::os::extents::written_bytes;
use crate::os::io::punch_hole;

#[test]
fn a_sparse_file_is_detected() {
    let folder = scratch();
    let path = folder.path().join("sparse");
    let file = File::create(&path).unwrap();
    file.set_len(8 * MIB).unwrap();
    file.write_all_at(&[1; 4096], 4 * MIB).unwrap();
    let error = prove::no_holes(&file, &path).unwrap_err();
    assert!(error.to_string().starts_with("only 4KiB of the 8MiB of "), "{error}");
    let view = HostView::new(folder.path());
    let error =
        only_error(survey(&one(loopback(MIB)), &[need(0)], &[bind_to("one", &path)], &view));
    assert!(matches!(error, RigError::Sparse { .. }), "{error}");
}

/// A disk of so many bytes in this folder, and its file.
fn one_in(folder: &Path, bytes: u64, undo: &Undo) -> (Rig, std::sync::Arc<File>) {
    let need = Need { direct: false, ..writing(0) };
    let host = HostView::new(folder);
    let rig = quietly(survey(&one(loopback(bytes)), &[need], &[], &host), undo).unwrap();
    let access = Access { direct: false, write: true, fresh: false };
    let file = std::sync::Arc::clone(&rig.open(0, access).unwrap()[0].file);
    (rig, file)
}

/// Refills for a round that trims blocks of these sizes, and returns how often it told of it.
fn ready(rig: &Rig, trims: &[u64]) -> Result<usize, RigError> {
    let mut told = 0;
    rig.refill(0, trims, &|| false, &mut |_| told += 1)?;
    Ok(told)
}

/// All of a file; `None`, and the test is skipped, where the file system has no holes.
fn punched(test: &str, file: &File, holes: &[(u64, u64)]) -> Option<Vec<u8>> {
    file.sync_all().unwrap();
    for (at, len) in holes {
        if let Err(error) = punch_hole(file, *at, *len) {
            skip(test, &format!("no holes here: {error}"), "put /var/tmp on ext4 or xfs");
            return None;
        }
    }
    Some(contents(file))
}

fn contents(file: &File) -> Vec<u8> {
    let mut all = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut all, 0).unwrap();
    all
}

fn zero_sectors(bytes: &[u8]) -> usize {
    bytes.chunks(512).filter(|sector| sector.iter().all(|byte| *byte == 0)).count()
}

#[test]
fn holes_of_trims_are_written_again_and_nothing_else() {
    let test = "rig::tests::holes::holes_of_trims_are_written_again_and_nothing_else";
    let (folder, undo) = (scratch(), Undo::new());
    let (rig, file) = one_in(folder.path(), 8 * MIB, &undo);
    assert_eq!(ready(&rig, &[]).unwrap(), 0, "nothing was trimmed");
    assert_eq!(ready(&rig, &[4096, 12_288]).unwrap(), 0, "nothing was trimmed so far");
    let holes = [(0, 4096), (8192, 4096), (3 * MIB, 65_536), (8 * MIB - 4096, 4096)];
    let Some(before) = punched(test, &file, &holes) else { return };
    assert_eq!(zero_sectors(&before), 8 + 8 + 128 + 8);
    assert!(ready(&rig, &[]).unwrap() > 0);
    let after = contents(&file);
    assert_eq!(zero_sectors(&after), 0);
    if let Some(written) = written_bytes(&file).unwrap() {
        assert_eq!(written, 8 * MIB);
    }
    let (from, to) = (MIB as usize, 3 * MIB as usize);
    assert!(before[from..to] == after[from..to], "what is far from any hole stays");
    assert_eq!(ready(&rig, &[]).unwrap(), 0, "once is enough");
}

#[test]
fn blocks_that_became_zeros_and_no_holes_are_written_again_too() {
    let test = "rig::tests::holes::blocks_that_became_zeros_and_no_holes_are_written_again_too";
    let (folder, undo) = (scratch(), Undo::new());
    let (rig, file) = one_in(folder.path(), MIB, &undo);
    ready(&rig, &[512]).unwrap();
    let Some(before) = punched(test, &file, &[(512, 512), (65_536 + 1024, 512)]) else { return };
    assert_eq!(zero_sectors(&before), 2);
    ready(&rig, &[]).unwrap();
    assert_eq!(zero_sectors(&contents(&file)), 0);
}

#[test]
fn a_refill_that_is_stopped_is_gone_on_with_before_the_next_round() {
    let test = "rig::tests::holes::a_refill_that_is_stopped_is_gone_on_with_before_the_next_round";
    let (folder, undo) = (scratch(), Undo::new());
    let (rig, file) = one_in(folder.path(), 16 * MIB, &undo);
    ready(&rig, &[65_536]).unwrap();
    if punched(test, &file, &[(0, 16 * MIB)]).is_none() {
        return;
    }
    let asked = Cell::new(0);
    let halted = || asked.replace(asked.get() + 1) >= 2;
    let stopped = rig.refill(0, &[], &halted, &mut |_| ()).unwrap_err();
    assert!(matches!(stopped, RigError::Interrupted), "{stopped}");
    assert!(zero_sectors(&contents(&file)) > 0);
    ready(&rig, &[]).unwrap();
    assert_eq!(zero_sectors(&contents(&file)), 0);
    drop((file, rig));
    assert_eq!(tree(folder.path()), [], "and all of it goes");
}

#[test]
fn room_that_somebody_else_took_is_an_error_of_the_refill() {
    let test = "rig::tests::holes::room_that_somebody_else_took_is_an_error_of_the_refill";
    let Some(mounted) = Mounted::new(test, "tmpfs", "size=4m") else { return };
    let undo = Undo::new();
    let (rig, file) = one_in(mounted.path(), 2 * MIB, &undo);
    ready(&rig, &[65_536]).unwrap();
    if punched(test, &file, &[(0, MIB)]).is_none() {
        return;
    }
    let thief = mounted.path().join("thief");
    fs::write(&thief, vec![1; 4 * MIB as usize]).unwrap_err();
    let full = ready(&rig, &[]).unwrap_err();
    assert!(matches!(&full, RigError::System { operation: "write", .. }), "{full:?}");
    fs::remove_file(&thief).unwrap();
    ready(&rig, &[]).unwrap();
    assert_eq!(zero_sectors(&contents(&file)), 0, "as soon as there is room");
    drop((file, rig));
    assert_eq!(tree(mounted.path()), []);
}
