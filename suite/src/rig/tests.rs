mod holes;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;

use super::build::build_with;
use super::fill::AlignedBuffer;
use super::*;
use crate::plan::{
    Disk, DiskSource, Inconclusive, Order, Plan, Point, Rounds, RunOptions, Setup, Stripe,
    StripeDriver,
};
use crate::testing::skip;
use crate::units::Bytes;

const MIB: u64 = 1 << 20;

fn scratch() -> TempDir {
    tempfile::Builder::new().prefix("rig-test-").tempdir_in("/var/tmp").unwrap()
}

fn loopback(size: u64) -> DiskSource {
    DiskSource::Loopback { size: Bytes(size) }
}

fn disk(name: &str, source: DiskSource) -> Disk {
    let group = name.split('.').next().unwrap().to_owned();
    Disk { name: name.to_owned(), group, source }
}

/// A plan of these disks, with a setup on each set of them.
fn plan(disks: Vec<Disk>, setups: &[(&[usize], Option<u64>)]) -> Plan {
    let setups = setups
        .iter()
        .map(|(disks, chunk)| Setup {
            name: "setup".into(),
            point: Point::default(),
            disks: disks.to_vec(),
            stripe: chunk.map(|chunk| Stripe { driver: StripeDriver::Engine, chunk: Bytes(chunk) }),
        })
        .collect();
    Plan {
        name: "test".into(),
        description: None,
        profile: None,
        disks,
        setups,
        cases: Vec::new(),
        assertions: Vec::new(),
        run: RunOptions {
            rounds: Rounds { min: 1, max: 1 },
            order: Order::Balanced,
            inconclusive: Inconclusive::Open,
        },
    }
}

fn one(source: DiskSource) -> Plan {
    plan(vec![disk("one", source)], &[(&[0], None)])
}

fn need(setup: usize) -> Need {
    Need { setup, writes: false, direct: true, fresh: false, block_sizes: vec![Bytes(4096)] }
}

fn writing(setup: usize) -> Need {
    Need { writes: true, ..need(setup) }
}

fn bind(text: impl AsRef<OsStr>) -> Binding {
    Binding::parse(text.as_ref()).unwrap()
}

fn bind_to(name: &str, path: &Path) -> Binding {
    Binding { name: name.into(), paths: vec![path.to_owned()] }
}

fn messages(survey: &Survey) -> Vec<String> {
    survey.troubles.iter().map(|trouble| trouble.error.to_string()).collect()
}

fn only_error(mut survey: Survey) -> RigError {
    assert_eq!(survey.troubles.len(), 1, "{:?}", messages(&survey));
    survey.troubles.remove(0).error
}

fn quietly(survey: Survey, undo: &Undo) -> Result<Rig, RigError> {
    build(survey, undo, &AtomicBool::new(false), &mut |_| ())
}

/// Every path below a folder, with its inode.
fn tree(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let facts = fs::symlink_metadata(&path).unwrap();
        paths.push((path.clone(), facts.ino()));
        if facts.is_dir() {
            paths.extend(tree(&path));
        }
    }
    paths.sort();
    paths
}

/// A mounted file system that goes with the test.
struct Mounted {
    folder: TempDir,
}

impl Mounted {
    /// `None`, with the test noted as skipped, for all but root.
    fn new(test: &str, kind: &str, options: &str) -> Option<Self> {
        let folder = scratch();
        let flags = MsFlags::empty();
        match mount(Some("rig-test"), folder.path(), Some(kind), flags, Some(options)) {
            Ok(()) => Some(Self { folder }),
            Err(errno) => {
                skip(test, &format!("can't mount {kind}: {}", errno.desc()), "run as root");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn make_read_only(&self) {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(None::<&str>, self.path(), None::<&str>, flags, None::<&str>).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        umount2(self.folder.path(), MntFlags::MNT_DETACH).unwrap();
    }
}

/// A loop device that goes with the test.
struct LoopDevice {
    path: PathBuf,
    _folder: TempDir,
}

impl LoopDevice {
    /// One with a full backing file; `None`, with the test noted as skipped, where that can't be.
    fn new(test: &str, sector_bytes: u32, bytes: u64) -> Option<Self> {
        let folder = scratch();
        let image = folder.path().join("image");
        fs::write(&image, vec![7; bytes as usize]).unwrap();
        let sector = sector_bytes.to_string();
        let mut command = Command::new("losetup");
        match command.args(["-b", &sector, "-f", "--show"]).arg(&image).output() {
            Ok(output) if output.status.success() => {
                let path = String::from_utf8(output.stdout).unwrap();
                Some(Self { path: path.trim().into(), _folder: folder })
            }
            _ => {
                skip(test, "no loop device can be had", "run as root with losetup and /dev/loop*");
                None
            }
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        Command::new("losetup").arg("-d").arg(&self.path).status().unwrap();
    }
}

#[test]
fn all_wrong_bindings_are_reported_at_once() {
    let work = scratch();
    let members = (0..3).map(|i| disk(&format!("data.{i}"), loopback(MIB)));
    let disks = members.chain([disk("log", loopback(MIB))]).collect();
    let plan = plan(disks, &[(&[0, 1, 2], Some(4096)), (&[3], None)]);
    let bindings =
        [bind("dtaa=/x"), bind("data=/x,/y"), bind("log=/x"), bind("log=/y"), bind("zebra=/z")];
    let survey = survey(&plan, &[], &bindings, &HostView::new(work.path()));
    let errors: Vec<_> = survey.troubles.iter().map(|trouble| &trouble.error).collect();
    assert!(errors.iter().all(|error| error.category() == Category::Usage));
    assert_eq!(
        messages(&survey),
        [
            "no disk of the plan is called `dtaa`, whose disks are `data`, `log`",
            "the disk `data` has 3 members, but 2 paths are given",
            "the disk `log` is bound twice",
            "no disk of the plan is called `zebra`, whose disks are `data`, `log`",
        ]
    );
    assert_eq!(errors[0].help().as_deref(), Some("did you mean `data`?"));
    assert_eq!(errors[3].help().as_deref(), Some("bind it as `--disk data=PATH`"));
}

#[test]
fn one_path_for_two_members_is_refused() {
    let plan = plan(
        vec![disk("data.0", loopback(MIB)), disk("data.1", loopback(MIB))],
        &[(&[0, 1], Some(4096))],
    );
    let view = HostView::new("/var/tmp");
    let error = only_error(survey(&plan, &[], &[bind("data=/dev/a,/dev/a")], &view));
    assert_eq!(error.to_string(), "/dev/a stands for both `data.0` and `data.1`");

    let folder = scratch();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, vec![1; 8192]).unwrap();
    symlink(&file, &link).unwrap();
    let binding = Binding { name: "data".into(), paths: vec![file, link] };
    let error = only_error(survey(&plan, &[need(0)], &[binding], &view));
    assert!(matches!(error, RigError::SamePath { .. }), "{error}");
}

#[test]
fn loopback_disks_are_full_private_and_gone_afterwards() {
    let work = scratch();
    let plan = plan(
        vec![disk("a", loopback(5 * MIB + 7)), disk("b", loopback(MIB))],
        &[(&[0], None), (&[1], None)],
    );
    let view = HostView::new(work.path());
    let survey = survey(&plan, &[writing(0), writing(1)], &[], &view);
    assert_eq!(messages(&survey), [""; 0]);
    assert_eq!(survey.disks[0].kind, DiskKind::Loopback);
    assert_eq!(survey.destroys(), "nothing that exists");
    assert!(survey.created().0 >= 6 * MIB && survey.created().0 < 6 * MIB + 8);
    assert_eq!(tree(work.path()), []);

    let mut last = (0, 0);
    let rig = build(survey, &Undo::new(), &AtomicBool::new(false), &mut |event| {
        if event.disk == "a" {
            assert!(event.written >= last.0);
            last = (event.written, event.total);
        }
    })
    .unwrap();
    assert!(last.0 == last.1 && last.0 >= 5 * MIB);

    let paths: Vec<PathBuf> = tree(work.path()).into_iter().map(|(path, _)| path).collect();
    let [folder, a, b] = paths.as_slice() else { panic!("{paths:?}") };
    let name = folder.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with(&format!("diskproof-{}-", std::process::id())), "{name}");
    assert_eq!((a.file_name(), b.file_name()), (Some("a.img".as_ref()), Some("b.img".as_ref())));
    assert_eq!(fs::metadata(folder).unwrap().mode() & 0o777, 0o700);
    let facts = fs::metadata(a).unwrap();
    assert_eq!(facts.mode() & 0o777, 0o600);
    assert!(facts.blocks() * 512 >= facts.len());
    assert_ne!(fs::read(a).unwrap()[..4096], fs::read(b).unwrap()[..4096]);

    assert!(rig.undo.0.now().is_empty());
    assert_eq!(tree(work.path()), []);
}

#[test]
fn what_is_written_can_not_be_compressed() {
    let work = scratch();
    let survey = survey(&one(loopback(MIB)), &[need(0)], &[], &HostView::new(work.path()));
    let rig = quietly(survey, &Undo::new()).unwrap();
    let access = Access { direct: false, write: false, fresh: false };
    let member = rig.open(0, access).unwrap().remove(0);
    let mut bytes = vec![0; MIB as usize];
    member.file.read_exact_at(&mut bytes, 0).unwrap();
    let mut counts = [0_u32; 256];
    for byte in &bytes {
        counts[usize::from(*byte)] += 1;
    }
    // 4,096 of each are expected; six standard deviations are 384.
    assert!(counts.iter().all(|count| count.abs_diff(4096) < 384));
    let blocks: std::collections::HashSet<&[u8]> = bytes.chunks(4096).collect();
    assert_eq!(blocks.len(), 256);
}

#[test]
fn members_open_with_proved_alignment_and_equal_size() {
    let work = scratch();
    let chunk = 64 << 10;
    let plan = plan(
        vec![disk("s.0", loopback(MIB)), disk("s.1", loopback(MIB + chunk + 512))],
        &[(&[0, 1], Some(chunk)), (&[1], None)],
    );
    let survey = survey(&plan, &[writing(0), need(1)], &[], &HostView::new(work.path()));
    let rig = quietly(survey, &Undo::new()).unwrap();
    let access = Access { direct: true, write: true, fresh: true };
    let members = rig.open(0, access).unwrap();
    assert_eq!(members.iter().map(|member| &member.name).collect::<Vec<_>>(), ["s.0", "s.1"]);
    assert!(members.iter().all(|member| member.bytes == MIB));
    let member = &members[1];
    let block = member.offset_align as usize;
    let mut buffer = AlignedBuffer::new(block, member.memory_align);
    member.file.read_exact_at(buffer.bytes(), block as u64).unwrap();
    member.file.write_all_at(buffer.bytes(), block as u64).unwrap();
    let read_only = rig.open(1, Access { write: false, ..access }).unwrap().remove(0);
    assert!(read_only.bytes >= MIB + chunk);
    assert!(read_only.file.write_all_at(buffer.bytes(), 0).is_err());
}

#[test]
fn a_chunk_that_no_member_holds_is_an_error() {
    let work = scratch();
    let plan = plan(
        vec![disk("s.0", loopback(MIB)), disk("s.1", loopback(MIB))],
        &[(&[0, 1], Some(2 * MIB))],
    );
    let survey = survey(&plan, &[need(0)], &[], &HostView::new(work.path()));
    let rig = quietly(survey, &Undo::new()).unwrap();
    let error = rig.open(0, Access { direct: true, write: false, fresh: false }).unwrap_err();
    assert!(error.to_string().contains("one block is 2MiB"), "{error}");
}

#[test]
fn one_directory_stands_for_all_members_with_a_file_each() {
    let folder = scratch();
    let disks = (0..3).map(|i| disk(&format!("data.{i}"), loopback(MIB))).collect();
    let plan = plan(disks, &[(&[0, 1, 2], Some(4096))]);
    let view = HostView::new("/nonexistent/not-needed");
    let survey = survey(&plan, &[writing(0)], &[bind_to("data", folder.path())], &view);
    assert_eq!(messages(&survey), [""; 0]);
    assert_eq!(survey.space.len(), 1);
    assert_eq!(survey.created(), Bytes(3 * MIB));
    let rig = quietly(survey, &Undo::new()).unwrap();
    let files = tree(folder.path());
    assert_eq!(files.len(), 3);
    for (path, _) in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(".diskproof-"), "{name}");
    }
    drop(rig);
    assert_eq!(tree(folder.path()), []);
}

#[test]
fn fresh_files_are_new_and_empty_each_time_and_go_with_their_members() {
    let folder = scratch();
    let source = DiskSource::Directory { path: folder.path().into(), size: Bytes(8 * MIB) };
    let fresh = Need { fresh: true, ..writing(0) };
    let survey =
        survey(&one(source), std::slice::from_ref(&fresh), &[], &HostView::new("/nonexistent"));
    assert_eq!(messages(&survey), [""; 0]);
    assert_eq!(survey.created(), Bytes(8 * MIB), "no second file is made where all are fresh");
    let rig = quietly(survey, &Undo::new()).unwrap();
    assert_eq!(tree(folder.path()).len(), 1);
    let access = Access { direct: true, write: true, fresh: true };
    let first = rig.open(0, access).unwrap();
    let second = rig.open(0, access).unwrap();
    assert_eq!(tree(folder.path()).len(), 3);
    for member in first.iter().chain(&second) {
        assert_eq!(member.bytes, 8 * MIB);
        assert_eq!(member.file.metadata().unwrap().len(), 0);
        let mut buffer = AlignedBuffer::new(4096, 4096);
        member.file.write_all_at(buffer.bytes(), 0).unwrap();
    }
    drop(first);
    assert_eq!(tree(folder.path()).len(), 2);
    assert!(rig.undo.0.now().is_empty());
    assert_eq!(tree(folder.path()), [], "also what a member still has open");
    drop(second);
}

#[test]
fn fresh_and_standing_files_are_both_counted() {
    let folder = scratch();
    let source = DiskSource::Directory { path: folder.path().into(), size: Bytes(MIB) };
    let needs = [need(0), Need { fresh: true, ..writing(0) }];
    let survey = survey(&one(source), &needs, &[], &HostView::new("/nonexistent"));
    assert_eq!(survey.created(), Bytes(2 * MIB));
}

#[test]
fn things_that_can_be_no_disk_are_refused_by_kind() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    symlink(at("loop"), at("loop")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let view = HostView::new(folder.path());
    let before = tree(folder.path());
    let refused = |path: &Path| {
        let survey = survey(&one(loopback(MIB)), &[need(0)], &[bind_to("one", path)], &view);
        assert_eq!(survey.troubles[0].needs, [0]);
        only_error(survey)
    };
    for (path, found) in [
        (at("fifo"), "a FIFO"),
        (at("loop"), "a loop of symbolic links"),
        (at("socket"), "a socket"),
        ("/dev/null".into(), "a character device"),
        ("/dev".into(), "a folder of device names"),
    ] {
        let error = refused(&path);
        assert_eq!(error.category(), Category::Usage);
        assert!(error.to_string().contains(found), "{error}");
    }
    for path in [at("dangling"), at("absent"), "/dev/nvme99n9".into(), at("fifo/below")] {
        let error = refused(&path);
        assert!(matches!(error, RigError::NotFound { .. }), "{error}");
        assert_eq!(error.category(), Category::Machine);
    }
    assert_eq!(tree(folder.path()), before);
}

#[test]
fn a_plan_that_means_a_device_takes_no_directory_and_the_other_way_round() {
    let folder = scratch();
    let file = folder.path().join("file");
    fs::write(&file, vec![1; 8192]).unwrap();
    let view = HostView::new(folder.path());
    let device = DiskSource::Device { path: folder.path().into(), size: None };
    let error = only_error(survey(&one(device), &[need(0)], &[], &view));
    assert!(error.to_string().contains("is a directory"), "{error}");
    assert_eq!(error.help().as_deref(), Some("it has to be a block device or a regular file"));
    let directory = DiskSource::Directory { path: file, size: Bytes(MIB) };
    let error = only_error(survey(&one(directory), &[need(0)], &[], &view));
    assert!(error.to_string().contains("is a regular file"), "{error}");
}

#[test]
fn a_regular_file_among_device_names_is_a_mistyped_device() {
    const TEST: &str = "rig::a_regular_file_among_device_names_is_a_mistyped_device";
    let made = tempfile::Builder::new().prefix("diskproof-test-").tempfile_in("/dev");
    let Ok(file) = made else {
        return skip(TEST, "no file can be made in /dev", "run as root");
    };
    fs::write(file.path(), vec![1; 8192]).unwrap();
    let view = HostView::new("/var/tmp");
    let bindings = [bind_to("one", file.path())];
    let error = only_error(survey(&one(loopback(MIB)), &[need(0)], &bindings, &view));
    assert!(error.to_string().contains("a mistyped device"), "{error}");
}

#[test]
fn a_bound_directory_needs_a_size_in_the_plan() {
    let folder = scratch();
    let source = |size| one(DiskSource::Device { path: "/dev/x".into(), size });
    let bindings = [bind_to("one", folder.path())];
    let view = HostView::new("/nonexistent");
    let error = only_error(survey(&source(None), &[need(0)], &bindings, &view));
    assert!(matches!(error, RigError::SizeMissing { .. }), "{error}");
    assert!(error.help().unwrap().contains("[disks.one]"));
    let survey = survey(&source(Some(Bytes(MIB))), &[writing(0)], &bindings, &view);
    assert_eq!(messages(&survey), [""; 0]);
}

#[test]
fn a_missing_work_directory_is_said_once_for_all() {
    let plan = plan(
        vec![disk("a", loopback(MIB)), disk("b", loopback(MIB))],
        &[(&[0], None), (&[1], None)],
    );
    let view = HostView::new("/nonexistent/work");
    let survey = survey(&plan, &[need(0), need(1)], &[], &view);
    assert_eq!(survey.troubles[0].needs, [0, 1]);
    let error = only_error(survey);
    assert_eq!(
        error.to_string(),
        "/nonexistent/work doesn't exist, and can't be the work directory"
    );
    assert!(error.help().unwrap().contains("--work-dir"));
}

#[test]
fn a_directory_that_can_not_be_written_to_is_said_before() {
    const TEST: &str = "rig::a_directory_that_can_not_be_written_to_is_said_before";
    let said = |path: &Path| {
        let error = only_error(survey(&one(loopback(MIB)), &[need(0)], &[], &HostView::new(path)));
        assert!(matches!(error, RigError::NotWritable { .. }), "{error}");
        assert_eq!(error.category(), Category::Machine);
    };
    if nix::unistd::geteuid().is_root() {
        let Some(mounted) = Mounted::new(TEST, "tmpfs", "size=16m") else { return };
        mounted.make_read_only();
        said(mounted.path());
    } else {
        let folder = scratch();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
        said(folder.path());
    }
}

#[test]
fn space_is_added_up_over_all_disks_of_a_file_system() {
    const TEST: &str = "rig::space_is_added_up_over_all_disks_of_a_file_system";
    let Some(mounted) = Mounted::new(TEST, "tmpfs", "size=16m") else { return };
    let view = HostView::new(mounted.path());
    let plan = plan(
        vec![
            disk("a", loopback(7 * MIB)),
            disk("b", loopback(7 * MIB)),
            disk("c", loopback(2 * MIB)),
        ],
        &[(&[0], None), (&[1], None), (&[2], None)],
    );
    assert_eq!(messages(&survey(&plan, &[need(0), need(1)], &[], &view)), [""; 0]);
    let survey = survey(&plan, &[need(0), need(1), need(2), need(2)], &[], &view);
    assert_eq!(survey.troubles[0].needs, [0, 1, 2, 3]);
    let error = only_error(survey);
    assert!(error.to_string().starts_with("17MiB are needed in "), "{error}");
    assert!(error.to_string().ends_with("of which 16MiB are free"), "{error}");
    assert!(error.help().unwrap().contains("--work-dir"));
    assert_eq!(error.category(), Category::Machine);
}

#[test]
fn a_file_above_the_limit_of_the_process_is_said_before() {
    let work = scratch();
    let found = survey(&one(loopback(MIB)), &[need(0)], &[], &HostView::new(work.path()));
    let disk = &found.disks[0];
    assert!(space::above(disk, Bytes(MIB)).is_none());
    let trouble = space::above(disk, Bytes(MIB - 1)).unwrap();
    assert_eq!((trouble.needs.as_slice(), trouble.error.category()), (&[0][..], Category::Machine));
    assert!(trouble.error.help().unwrap().contains("ulimit"));
}

#[test]
fn space_that_runs_out_while_writing_leaves_nothing_behind() {
    const TEST: &str = "rig::space_that_runs_out_while_writing_leaves_nothing_behind";
    let Some(mounted) = Mounted::new(TEST, "tmpfs", "size=32m") else { return };
    let view = HostView::new(mounted.path());
    let plan = plan(
        vec![disk("a", loopback(8 * MIB)), disk("b", loopback(8 * MIB))],
        &[(&[0], None), (&[1], None)],
    );
    let survey = survey(&plan, &[need(0), need(1)], &[], &view);
    fs::write(mounted.path().join("other"), vec![1; 20 << 20]).unwrap();
    let before = tree(mounted.path());
    let undo = Undo::new();
    let error = quietly(survey, &undo).unwrap_err();
    let RigError::System { operation: "write", source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert!(error.help().unwrap().contains("space ran out"));
    assert_eq!(tree(mounted.path()), before);
    assert!(undo.now().is_empty());
}

#[test]
fn a_file_system_without_direct_io_is_a_missing_requirement_of_direct_cases() {
    const TEST: &str = "rig::a_file_system_without_direct_io";
    let Some(mounted) = Mounted::new(TEST, "ramfs", "mode=755") else { return };
    let view = HostView::new(mounted.path());
    let buffered = Need { direct: false, ..writing(0) };
    let needs = [buffered.clone(), need(0)];
    let found = survey(&one(loopback(MIB)), &needs, &[], &view);
    assert_eq!(found.troubles[0].needs, [1]);
    let error = only_error(found);
    assert!(matches!(error, RigError::NoDirectIo { .. }), "{error}");
    assert_eq!(error.category(), Category::MissingRequirement);
    assert!(error.to_string().contains("ramfs"), "{error}");

    let found = survey(&one(loopback(MIB)), &[buffered], &[], &view);
    assert_eq!(messages(&found), [""; 0]);
    assert_eq!(found.disks[0].align, None);
    let rig = quietly(found, &Undo::new()).unwrap();
    let access = Access { direct: false, write: true, fresh: false };
    let member = rig.open(0, access).unwrap().remove(0);
    assert_eq!((member.bytes, member.memory_align, member.offset_align), (MIB, 1, 1));
    drop(rig);
    assert_eq!(tree(mounted.path()), []);
}

#[test]
fn memory_is_noted_as_memory() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let needs = [Need { direct: false, ..writing(0) }];
    let survey = survey(&one(loopback(MIB)), &needs, &[], &HostView::new(folder.path()));
    assert_eq!(messages(&survey), [""; 0]);
    let disk = &survey.disks[0];
    assert_eq!(disk.filesystem.as_deref(), Some("tmpfs"));
    assert!(disk.note.as_ref().unwrap().contains("main memory"));
    assert!(disk.block_device.is_none());
    drop(quietly(survey, &Undo::new()).unwrap());
    assert_eq!(tree(folder.path()), []);
}

#[test]
fn what_exists_is_never_written_to() {
    let folder = scratch();
    let file = folder.path().join("precious");
    fs::write(&file, vec![42; 1 << 20]).unwrap();
    let view = HostView::new(folder.path());
    let bindings = [bind_to("one", &file)];
    let refused = survey(&one(loopback(MIB)), &[need(0), writing(0)], &bindings, &view);
    assert_eq!(refused.troubles[0].needs, [1]);
    assert!(matches!(quietly(refused, &Undo::new()), Err(RigError::WouldOverwrite { .. })));
    let refused = only_error(survey(&one(loopback(MIB)), &[writing(0)], &bindings, &view));
    assert_eq!(refused.category(), Category::Refusal);

    let survey = survey(&one(loopback(MIB)), &[need(0)], &bindings, &view);
    assert_eq!(survey.disks[0].kind, DiskKind::File);
    assert_eq!((survey.disks[0].size, survey.created()), (Bytes(MIB), Bytes(0)));
    let rig = quietly(survey, &Undo::new()).unwrap();
    let access = Access { direct: true, write: false, fresh: false };
    let member = rig.open(0, access).unwrap().remove(0);
    assert!(member.file.write_all_at(&[0; 4096], 0).is_err());
    drop((member, rig));
    assert_eq!(fs::read(&file).unwrap(), vec![42; 1 << 20]);
}

#[test]
fn an_existing_file_is_cut_down_to_whole_blocks() {
    let folder = scratch();
    let file = folder.path().join("odd");
    fs::write(&file, vec![42; (1 << 20) + 1]).unwrap();
    let view = HostView::new(folder.path());
    let survey = survey(&one(loopback(MIB)), &[need(0)], &[bind_to("one", &file)], &view);
    let rig = quietly(survey, &Undo::new()).unwrap();
    let access = Access { direct: true, write: false, fresh: false };
    assert_eq!(rig.open(0, access).unwrap()[0].bytes, MIB);
}

#[test]
fn what_was_replaced_after_the_survey_is_refused() {
    let folder = scratch();
    let file = folder.path().join("file");
    fs::write(&file, vec![1; 8192]).unwrap();
    let view = HostView::new(folder.path());
    let found = survey(&one(loopback(MIB)), &[need(0)], &[bind_to("one", &file)], &view);
    fs::rename(&file, folder.path().join("old")).unwrap();
    fs::write(&file, vec![2; 8192]).unwrap();
    let error = quietly(found, &Undo::new()).unwrap_err();
    assert!(matches!(error, RigError::Changed { .. }), "{error}");
    assert_eq!(error.category(), Category::Refusal);

    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    let found = survey(&one(loopback(MIB)), &[need(0)], &[], &HostView::new(&work));
    fs::rename(&work, folder.path().join("away")).unwrap();
    fs::create_dir(&work).unwrap();
    let error = quietly(found, &Undo::new()).unwrap_err();
    assert!(matches!(error, RigError::Changed { .. }), "{error}");
    assert_eq!(tree(&work), []);
}

#[test]
fn a_link_to_a_directory_is_followed_and_left_in_place() {
    let folder = scratch();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    let before = tree(folder.path());
    let found = survey(&one(loopback(MIB)), &[need(0)], &[], &HostView::new(&link));
    let rig = quietly(found, &Undo::new()).unwrap();
    assert_eq!(tree(&real).len(), 2);
    drop(rig);
    assert_eq!(tree(folder.path()), before);
}

/// Fails before the step `at`, counted from 0; of other steps, calls `then`.
fn failing_at(at: usize) -> impl Fn(&'static str, &Path) -> Result<(), RigError> + Sync {
    let steps = AtomicUsize::new(0);
    move |operation, path| {
        if steps.fetch_add(1, Ordering::Relaxed) == at {
            let source = std::io::Error::other("made up");
            return Err(RigError::system(operation, path, source));
        }
        Ok(())
    }
}

#[test]
fn a_failure_at_any_step_leaves_everything_as_it_was() {
    let work = scratch();
    let folder = scratch();
    fs::write(work.path().join("bystander"), "still here").unwrap();
    let before = (tree(work.path()), tree(folder.path()));
    let directory = DiskSource::Directory { path: folder.path().into(), size: Bytes(MIB) };
    let plan = plan(
        vec![disk("a", loopback(MIB)), disk("b", loopback(MIB)), disk("c", directory)],
        &[(&[0], None), (&[1], None), (&[2], None)],
    );
    let needs = [writing(0), writing(1), writing(2)];
    let mut failures = 0;
    loop {
        let undo = Undo::new();
        let found = survey(&plan, &needs, &[], &HostView::new(work.path()));
        let stop = AtomicBool::new(false);
        let built = build_with(found, &undo, &stop, &mut |_| (), &failing_at(failures));
        let finished = match built {
            Ok(rig) => rig.undo.0.now().is_empty(),
            Err(error) => {
                assert!(matches!(error, RigError::System { .. }), "{error}");
                false
            }
        };
        assert_eq!((tree(work.path()), tree(folder.path())), before, "after step {failures}");
        assert!(undo.now().is_empty());
        if finished {
            break;
        }
        failures += 1;
    }
    // A folder; three files made, three written, three proved.
    assert_eq!(failures, 10);
}

#[test]
fn a_stop_in_the_middle_of_writing_leaves_nothing() {
    let work = scratch();
    let found = survey(&one(loopback(512 * MIB)), &[need(0)], &[], &HostView::new(work.path()));
    let stop = AtomicBool::new(false);
    let mut written = 0;
    let started = std::time::Instant::now();
    let built = build(found, &Undo::new(), &stop, &mut |event| {
        written = event.written;
        stop.store(true, Ordering::Relaxed);
    });
    assert!(matches!(built, Err(RigError::Interrupted)));
    assert!(written < 512 * MIB);
    assert!(started.elapsed().as_secs() < 20);
    assert_eq!(tree(work.path()), []);
}

#[test]
fn a_panic_while_building_leaves_nothing() {
    let work = scratch();
    let plan = one(loopback(64 * MIB));
    let view = HostView::new(work.path());
    let stop = AtomicBool::new(false);
    let in_events = catch_unwind(AssertUnwindSafe(|| {
        let found = survey(&plan, &[need(0)], &[], &view);
        build(found, &Undo::new(), &stop, &mut |_| panic!("made up"))
    }));
    assert!(in_events.is_err());
    assert_eq!(tree(work.path()), []);
    let in_thread = catch_unwind(AssertUnwindSafe(|| {
        let found = survey(&plan, &[need(0)], &[], &view);
        build_with(found, &Undo::new(), &stop, &mut |_| (), &|operation, _| {
            assert_ne!(operation, "write", "made up");
            Ok(())
        })
    }));
    assert!(in_thread.is_err());
    assert_eq!(tree(work.path()), []);
    let with_rig = catch_unwind(AssertUnwindSafe(|| {
        let found = survey(&one(loopback(MIB)), &[need(0)], &[], &view);
        let _rig = quietly(found, &Undo::new()).unwrap();
        panic!("made up");
    }));
    assert!(with_rig.is_err());
    assert_eq!(tree(work.path()), []);
}

#[test]
fn another_thread_can_undo_all_at_any_time() {
    let work = scratch();
    let undo = Undo::new();
    let view = HostView::new(work.path());
    let rig = quietly(survey(&one(loopback(MIB)), &[need(0)], &[], &view), &undo).unwrap();
    let pending = undo.pending();
    assert_eq!(pending.iter().filter(|path| path.exists()).count(), 2, "{pending:?}");
    let handle = undo.clone();
    let errors = std::thread::spawn(move || handle.now()).join().unwrap();
    assert!(errors.is_empty());
    assert!(undo.pending().is_empty());
    assert_eq!(tree(work.path()), []);
    assert!(rig.undo.0.now().is_empty());
    let again = quietly(survey(&one(loopback(MIB)), &[need(0)], &[], &view), &undo);
    assert!(matches!(again, Err(RigError::Interrupted)));
    assert_eq!(tree(work.path()), []);
}

#[test]
fn two_rigs_share_a_work_directory() {
    let work = scratch();
    let view = HostView::new(work.path());
    let make =
        || quietly(survey(&one(loopback(MIB)), &[need(0)], &[], &view), &Undo::new()).unwrap();
    let (first, second) = (make(), make());
    assert_eq!(tree(work.path()).len(), 4);
    drop(first);
    assert_eq!(tree(work.path()).len(), 2);
    drop(second);
    assert_eq!(tree(work.path()), []);
}

#[test]
fn only_what_was_made_is_removed() {
    let work = scratch();
    let undo = Undo::new();
    let found = survey(&one(loopback(MIB)), &[need(0)], &[], &HostView::new(work.path()));
    let rig = quietly(found, &undo).unwrap();
    let (image, _) = tree(work.path()).remove(1);
    fs::remove_file(&image).unwrap();
    fs::write(&image, "another's").unwrap();
    let errors = rig.undo.0.now();
    let reasons: Vec<&str> = errors.iter().map(|error| error.reason.as_str()).collect();
    assert_eq!(reasons, ["something else has that name now", "files that are not ours are in it"]);
    assert_eq!(fs::read(&image).unwrap(), b"another's");
    // What failed is tried again.
    fs::remove_file(&image).unwrap();
    assert!(undo.now().is_empty());
    assert_eq!(tree(work.path()), []);
}

#[test]
fn block_sizes_that_the_device_can_not_hold_are_named() {
    const TEST: &str = "rig::block_sizes_that_the_device_can_not_hold_are_named";
    let Some(device) = LoopDevice::new(TEST, 4096, MIB) else { return };
    let view = HostView::new("/nonexistent");
    let bindings = [bind_to("one", &device.path)];
    let small = Need { block_sizes: vec![Bytes(4096), Bytes(512)], ..need(0) };
    let found = survey(&one(loopback(MIB)), &[need(0), small], &bindings, &view);
    assert_eq!(found.troubles[0].needs, [1]);
    let error = only_error(found);
    let expected = format!(
        "a block size of 512B can't be used on the disk `one` with direct I/O: {} works in blocks \
         of 4KiB",
        device.path.display()
    );
    assert_eq!(error.to_string(), expected);

    let found = survey(&one(loopback(MIB)), &[need(0)], &bindings, &view);
    assert_eq!(found.disks[0].kind, DiskKind::Device);
    assert_eq!(found.disks[0].size, Bytes(MIB));
    let rig = quietly(found, &Undo::new()).unwrap();
    let access = Access { direct: true, write: false, fresh: false };
    let member = rig.open(0, access).unwrap().remove(0);
    assert_eq!(member.offset_align, 4096);
    let mut buffer = AlignedBuffer::new(4096, member.memory_align);
    member.file.read_exact_at(buffer.bytes(), 4096).unwrap();
    assert_eq!(buffer.bytes(), [7; 4096]);
    member.drop_cache().unwrap();

    let refused = survey(&one(loopback(MIB)), &[writing(0)], &bindings, &view);
    assert_eq!(only_error(refused).category(), Category::Refusal);
}

#[test]
fn a_loop_device_with_another_image_is_another_disk() {
    const TEST: &str = "rig::a_loop_device_with_another_image_is_another_disk";
    let Some(device) = LoopDevice::new(TEST, 512, MIB) else { return };
    let view = HostView::new("/nonexistent");
    let found = survey(&one(loopback(MIB)), &[need(0)], &[bind_to("one", &device.path)], &view);
    let other = scratch();
    let image = other.path().join("image");
    fs::write(&image, vec![9; MIB as usize]).unwrap();
    let losetup = |arguments: &[&OsStr]| {
        assert!(Command::new("losetup").args(arguments).status().unwrap().success());
    };
    losetup(&["-d".as_ref(), device.path.as_ref()]);
    losetup(&[device.path.as_ref(), image.as_ref()]);
    let error = quietly(found, &Undo::new()).unwrap_err();
    assert!(matches!(error, RigError::Changed { .. }), "{error}");
}

#[test]
fn the_page_cache_is_dropped() {
    const TEST: &str = "rig::the_page_cache_is_dropped";
    let work = scratch();
    let needs = [Need { direct: false, ..writing(0) }];
    let found = survey(&one(loopback(8 * MIB)), &needs, &[], &HostView::new(work.path()));
    let rig = quietly(found, &Undo::new()).unwrap();
    let access = Access { direct: false, write: true, fresh: false };
    let member = rig.open(0, access).unwrap().remove(0);
    let mut bytes = vec![0; 8 << 20];
    member.file.read_exact_at(&mut bytes, 0).unwrap();
    member.file.write_all_at(&bytes, 0).unwrap();
    let (image, _) = tree(work.path()).remove(1);
    let cached = || -> Option<u64> {
        let output =
            Command::new("fincore").args(["-nb", "-o", "RES"]).arg(&image).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    let Some(before) = cached() else {
        return skip(TEST, "fincore is not there", "install util-linux-extra");
    };
    assert_eq!(before, 8 << 20);
    member.drop_cache().unwrap();
    assert_eq!(cached(), Some(0));
}

#[test]
fn names_are_private() {
    let name = |form| build::private_name(form);
    assert_ne!(name("a-{}"), name("a-{}"));
    assert_eq!(name("fixed"), OsString::from("fixed"));
}
