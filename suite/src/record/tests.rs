//! Tests of the file: what is read back, what is refused, and that nothing old is ever lost.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;

use super::file::{Fate, write_whole};
use super::{Record, RecordError, sample};
use crate::testing::skip;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/records/format-1.json")
}

fn refusal(text: &[u8]) -> String {
    Record::parse(text, "record.json").expect_err("not a record").to_string()
}

/// What a reader of a record does with its counts.
fn read_all_figures(record: &Record) {
    for case in &record.cases {
        let Some(merged) = case.merged() else { continue };
        let _ = (merged.errors(None), merged.completed(None), merged.bytes(None));
        let latency = merged.latency(None);
        let _ = (latency.mean(), latency.stddev(), latency.bars().count());
        let _ = case.measured().iter().map(|round| round.series.lengths_s().sum::<f64>());
    }
}

#[test]
fn a_record_is_read_back_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.json");
    let record = sample::newest();
    record.save(&path).unwrap();
    let text = std::fs::read(&path).unwrap();
    assert_eq!(Record::load(&path).unwrap(), record);
    assert_eq!(Record::load(&path).unwrap().to_json(), text, "the same record, the same bytes");
    assert!(text.ends_with(b"}\n"));
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing but the record is left");
}

#[test]
fn what_is_wrong_with_one_stream_is_said_of_the_case_and_of_every_stream() {
    use crate::measure::OpenLoop;
    let mut failing = sample::steady(500);
    failing.faults = vec![sample::fault(5, 3)];
    // Of all I/Os together few were dropped; of this stream's own, most.
    let paced = |due, dropped| {
        let open = OpenLoop { due, dropped, ..OpenLoop::default() };
        crate::measure::Measurement { open: Some(open), ..sample::steady(20) }
    };
    let streams = vec![("log", paced(20, 15)), ("data", failing), ("busy", paced(100_000, 0))];
    let case = sample::side_by_side("lrs/both", streams);
    let told = case.troubles();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("stream log: the rate was not held in round 1: of 20 I/Os"));
    assert!(told[1].starts_with("stream data: 3 reads failed with EIO"), "{told:?}");
    assert!(case.streams_as_cases().iter().all(|stream| stream.troubles() == told));
    let record = sample::record(vec![case.clone()]);
    assert_eq!(record.whole_of("lrs/both/log"), Some(&case));
    assert_eq!(record.case("lrs/both/log").map(|log| log.id.clone()), Some("lrs/both/log".into()));
    assert!(record.case("lrs/both/lo").is_none() && record.whole_of("lrs/bot").is_none());
}

#[test]
fn a_stream_with_a_malformed_series_is_no_record() {
    let mut record = sample::newest();
    let round = record.cases[3].rounds[0].measurement.as_mut().unwrap();
    round.streams[0].measurement.series.bytes.pop();
    assert!(refusal(&record.to_json()).contains("a series has other intervals"));
}

#[test]
fn format_1_loads_for_ever() {
    // Written once: what programs of that version left on people's disks never changes.
    if !fixture().exists() {
        sample::full().save(&fixture()).unwrap();
    }
    assert_eq!(Record::load(&fixture()).unwrap(), sample::full());
}

#[test]
fn the_layout_is_that_of_the_fixture() {
    // As the newest program writes it; `SNAPSHOTS=overwrite` writes the file anew.
    let file = fixture().with_file_name("layout.json");
    let expected = snapbox::Data::read_from(&file, Some(snapbox::data::DataFormat::Text)).raw();
    let written = String::from_utf8(sample::newest().to_json()).unwrap();
    snapbox::Assert::new()
        .action_env("SNAPSHOTS")
        .normalize_paths(false)
        .eq(snapbox::Data::text(written).raw(), expected);
}

#[test]
fn what_is_not_a_record_is_refused_with_the_reason() {
    let cases: [(&str, &str); 9] = [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("hello", "it is not JSON: expected value at line 1, column 1"),
        ("{\n  \"format\": 1,\n  oops", "it is not JSON: key must be a string at line 3, column 3"),
        ("{\"format\": 1", "it breaks off at line 1, column 12"),
        ("{}", "it is JSON, but has no `format`"),
        ("{\"format\": \"1\"}", "its `format` is not a whole number"),
        ("{\"format\": 1}", "it is JSON, but not a record: missing field `diskproof` at line 1"),
        ("7", "it is JSON, but not a record: invalid type: integer `7`"),
    ];
    for (text, reason) in cases {
        let told = refusal(text.as_bytes());
        let expected = format!("record.json is not a record of diskproof: {reason}");
        assert!(told.starts_with(&expected), "{text:?}: {told}");
    }
    assert!(refusal(b"\xff\xfe{").contains("it is not JSON"));
}

#[test]
fn another_format_is_told_before_anything_else() {
    let text = b"{\"cases\": \"another shape\", \"format\": 2}";
    let error = Record::parse(text, "old.json").unwrap_err();
    assert!(matches!(error, RecordError::Version { found: 2, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "old.json is a record of format 2; this diskproof reads format 1"
    );
}

#[test]
fn fields_of_later_versions_are_passed_over() {
    let text = String::from_utf8(sample::newest().to_json()).unwrap();
    let later = text.replacen('{', "{\"weather\": {\"sunny\": true},", 1);
    assert_eq!(Record::parse(later.as_bytes(), "r").unwrap(), sample::newest());
}

#[test]
fn a_folder_an_absent_file_and_a_huge_one_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let told = Record::load(folder.path()).unwrap_err().to_string();
    assert!(told.ends_with("it is a folder; name the record.json in it"), "{told}");

    let absent = Record::load(&folder.path().join("absent.json")).unwrap_err();
    let RecordError::Io { operation: "read", source, .. } = absent else { panic!("{absent}") };
    assert_eq!(source.kind(), io::ErrorKind::NotFound);

    let huge = folder.path().join("huge.json");
    std::fs::File::create(&huge).unwrap().set_len((1 << 30) + 1).unwrap();
    let told = Record::load(&huge).unwrap_err().to_string();
    assert!(told.ends_with("it is larger than 1 GiB"), "{told}");
}

#[test]
fn deep_nesting_is_an_error_and_no_crash() {
    for (open, close) in [("[", "]"), ("{\"format\":", "}"), ("{\"cases\":[", "]}")] {
        let text = format!("{}1{}", open.repeat(200_000), close.repeat(200_000));
        assert!(refusal(text.as_bytes()).contains("record"), "{open}");
    }
}

#[test]
fn histograms_that_do_not_add_up_are_refused() {
    let text = String::from_utf8(sample::newest().to_json()).unwrap();
    for (from, to) in [
        ("\"count\": 4", "\"count\": 5"),
        ("\"min\": 100", "\"min\": null"),
        ("\"min\": 100", "\"min\": 99"),
        ("\"sum\": [0,", "\"sum\": [9,"),
        ("\"buckets\": [[100,1]", "\"buckets\": [[100,0]"),
        ("\"buckets\": [[100,1]", "\"buckets\": [[4000000000,1]"),
    ] {
        assert!(text.contains(from), "{from} stands in the sample");
        let told = refusal(text.replacen(from, to, 1).as_bytes());
        assert!(told.contains("a histogram "), "{from} to {to}: {told}");
    }
}

#[test]
fn counts_and_indices_that_would_mislead_a_reader_are_refused() {
    let refused = |change: fn(&mut Record)| {
        let mut record = sample::full();
        change(&mut record);
        refusal(&record.to_json())
    };
    let told = refused(|record| record.schedule.push((3, 1)));
    assert!(told.contains("its schedule names case 3, but it has 3 cases"), "{told}");
    let told = refused(|record| record.cases[1].id = "lrs/read".to_owned());
    assert!(told.contains("two of its cases are called lrs/read"), "{told}");
    let told = refused(|record| {
        let round = record.cases[0].rounds[0].measurement.as_mut();
        round.expect("measured").kinds.read.bytes = u64::MAX;
    });
    assert!(told.contains("the counts of case lrs/read are more than can be"), "{told}");
    let told = refused(|record| {
        let round = record.cases[0].rounds[0].measurement.as_mut();
        round.expect("measured").series.bytes.pop();
    });
    assert!(told.contains("other intervals for its I/Os than for its bytes"), "{told}");
}

#[test]
fn what_is_not_a_number_is_never_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.json");
    for figure in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut record = sample::newest();
        record.verdicts[0].evidence.limits = vec![1.0, figure];
        let error = record.save(&path).unwrap_err();
        assert!(matches!(error, RecordError::Unsound { .. }), "{error}");
        let mut record = sample::newest();
        let round = record.cases[0].rounds[0].measurement.as_mut();
        round.unwrap().queue_depth_achieved = figure;
        assert!(matches!(record.save(&path), Err(RecordError::Unsound { .. })));
    }
    assert!(!path.exists());
}

#[test]
fn a_write_that_fails_half_way_leaves_the_older_record_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.json");
    sample::newest().save_unsynced(&path).unwrap();
    for fate in [Fate::Stable, Fate::Cached] {
        let failed = write_whole(&path, fate, |file| {
            file.write_all(b"{\"format\": 1, ")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(Record::load(&path).unwrap(), sample::newest());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn saving_where_it_can_not_be_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let record = sample::newest();
    let error = record.save(&folder.path().join("absent/record.json")).unwrap_err();
    assert!(matches!(error, RecordError::Io { operation: "write", .. }), "{error}");
    let taken = folder.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    assert!(record.save(&taken).is_err(), "a folder stands there");
    assert!(record.save(Path::new("/")).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the folder alone");
}

/// A file system in memory with room for a page or two; unmounted at the end.
struct TinyFilesystem(tempfile::TempDir);

impl TinyFilesystem {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(folder.path())
            .output();
        mount.is_ok_and(|done| done.status.success()).then_some(Self(folder))
    }
}

impl Drop for TinyFilesystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).output();
    }
}

#[test]
fn a_full_disk_does_not_truncate_the_older_record() {
    let Some(tiny) = TinyFilesystem::mount() else {
        skip(
            "record::tests::a_full_disk_does_not_truncate_the_older_record",
            "a tmpfs can't be mounted",
            "run the tests as root",
        );
        return;
    };
    let path = tiny.0.path().join("record.json");
    sample::newest().save(&path).unwrap();
    let mut larger = sample::newest();
    larger.plan.text = "#".repeat(1 << 20);
    let RecordError::Io { operation: "write", source, .. } = larger.save(&path).unwrap_err() else {
        panic!("another error than that of a full disk");
    };
    assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    assert_eq!(Record::load(&path).unwrap(), sample::newest());
    assert_eq!(std::fs::read_dir(tiny.0.path()).unwrap().count(), 1);
}

/// A change to the text of a record.
#[derive(Debug, Clone)]
enum Change {
    Byte(usize, u8),
    Cut(usize),
    Remove(usize, usize),
    Repeat(usize, usize),
    Number(usize, &'static str),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let place = || any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20));
    let numbers =
        ["0", "-1", "18446744073709551615", "9223372036854775807", "1e308", "1e999", "null", "[]"];
    let change = prop_oneof![
        1 => (place(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        1 => place().prop_map(Change::Cut),
        1 => (place(), 1..200_usize).prop_map(|(at, len)| Change::Remove(at, len)),
        1 => (place(), 1..200_usize).prop_map(|(at, len)| Change::Repeat(at, len)),
        6 => (place(), prop::sample::select(numbers.to_vec()))
            .prop_map(|(at, number)| Change::Number(at, number)),
    ];
    prop::collection::vec(change, 1..4)
}

fn apply(text: &mut Vec<u8>, change: &Change) {
    let len = text.len().max(1);
    let range = |at: usize, length: usize| (at % len)..(at % len + length).min(text.len());
    match *change {
        Change::Byte(at, byte) => {
            if let Some(old) = text.get_mut(at % len) {
                *old = byte;
            }
        }
        Change::Cut(at) => text.truncate(at % len),
        Change::Remove(at, length) => drop(text.drain(range(at, length))),
        Change::Repeat(at, length) => {
            let part = text[range(at, length)].to_vec();
            text.splice(at % len..at % len, part);
        }
        Change::Number(at, number) => {
            let is_digit = |byte: &u8| byte.is_ascii_digit();
            let Some(start) = text[at % len..].iter().position(is_digit) else { return };
            let start = at % len + start;
            let digits = text[start..].iter().take_while(|byte| is_digit(byte)).count();
            text.splice(start..start + digits, number.bytes());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_text_makes_the_reader_panic(changes in changes()) {
        let mut text = sample::newest().to_json();
        for change in &changes {
            apply(&mut text, change);
        }
        if let Ok(record) = Record::parse(&text, "record.json") {
            read_all_figures(&record);
            prop_assert_eq!(Record::parse(&record.to_json(), "again").unwrap(), record);
        }
    }

    #[test]
    fn any_finite_figure_is_read_back_bit_for_bit(bits in any::<u64>()) {
        let figure = f64::from_bits(bits);
        prop_assume!(figure.is_finite());
        let mut record = sample::newest();
        record.verdicts[0].evidence.measured = Some(figure);
        let again = Record::parse(&record.to_json(), "again").unwrap();
        let read = again.verdicts[0].evidence.measured.map(f64::to_bits);
        prop_assert_eq!(read, Some(bits));
    }
}
