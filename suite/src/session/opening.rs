//! The record as it stands before anything was measured.

use std::path::Path;

use super::rounds::simulated_bytes;
use super::{Preview, Request, run::now, words};
use crate::judge::{self, Circumstances};
use crate::os::host::HostFacts;
use crate::plan::Inconclusive;
use crate::record::{
    CaseRecord, Conclusion, DiskRecord, ExitCode, FORMAT, Host, PlanRecord, Record, Selection,
};
use crate::rig::SurveyedDisk;

/// What is known before the first round.
pub(super) fn record(request: &Request, looked: &Preview) -> Record {
    let simulated = request.simulate.is_some();
    let cases: Vec<_> = looked
        .cases
        .iter()
        .map(|outlined| {
            let case = &request.plan.cases[outlined.case];
            let setup = &request.plan.setups[case.setup];
            CaseRecord {
                id: outlined.id.clone(),
                setup: format!("{}{}", case.id.setup, case.id.setup_point),
                workload: format!("{}{}", case.id.workload, case.id.workload_point),
                disks: setup.disks.iter().map(|i| request.plan.disks[*i].name.clone()).collect(),
                what: outlined.what.clone(),
                parameters: words::parameters(case, setup),
                skipped: outlined.skipped.clone(),
                rounds: Vec::new(),
                warnings: Vec::new(),
                engine_iops_max: None,
                streams: words::streams(case, setup),
                stream_of: None,
            }
        })
        .collect();
    let nothing_yet = Circumstances { interrupted: true, ..Circumstances::default() };
    Record {
        format: FORMAT,
        diskproof: env!("CARGO_PKG_VERSION").to_owned(),
        simulated,
        interrupted: true,
        started: (!simulated).then(now),
        elapsed_ms: None,
        host: (!simulated).then(host),
        plan: plan(request),
        disks: match &looked.survey {
            Some(survey) => survey.disks.iter().map(disk).collect(),
            None => simulated_disks(request),
        },
        conclusion: judge::conclude(Inconclusive::Open, &[], &cases, nothing_yet),
        cases,
        schedule: Vec::new(),
        verdicts: Vec::new(),
    }
}

/// The record of a run that could not begin, for the place of an older one. `plan` and `path` are
/// the plan's name and where it is; `exit` tells what stood in the way.
#[must_use]
pub fn not_begun(plan: &str, path: &str, exit: ExitCode) -> Record {
    let nothing = judge::conclude(Inconclusive::Open, &[], &[], Circumstances::default());
    let note = Some(format!("the run could not begin: {}", exit.meaning()));
    Record {
        format: FORMAT,
        diskproof: env!("CARGO_PKG_VERSION").to_owned(),
        simulated: false,
        interrupted: false,
        started: Some(now()),
        elapsed_ms: None,
        host: None,
        plan: PlanRecord {
            name: plan.to_owned(),
            description: None,
            path: path.to_owned(),
            text: String::new(),
            profile: None,
            bindings: Vec::new(),
            baseline: None,
            work_dir: None,
            require_all: false,
            selection: Selection::default(),
        },
        disks: Vec::new(),
        cases: Vec::new(),
        schedule: Vec::new(),
        verdicts: Vec::new(),
        conclusion: Conclusion { exit_code: exit.code(), note, ..nothing },
    }
}

/// A disk of the survey or of the rig, for the record.
pub(super) fn disk(surveyed: &SurveyedDisk) -> DiskRecord {
    DiskRecord {
        name: surveyed.name.clone(),
        kind: surveyed.kind.word().to_owned(),
        path: Some(surveyed.path.display().to_string()),
        size_bytes: surveyed.size.0,
        filesystem: surveyed.filesystem.clone(),
        block_device: surveyed.block_device.as_ref().map(ToString::to_string),
        driver: surveyed.block_device.as_ref().map(|device| device.driver().to_owned()),
        offset_align_bytes: surveyed.align.map_or(0, |align| align.offset_bytes),
        memory_align_bytes: surveyed.align.map_or(0, |align| align.memory_bytes),
    }
}

fn plan(request: &Request) -> PlanRecord {
    let bindings = request.bindings.iter().map(|binding| {
        let paths = binding.paths.iter().map(|path| path.display().to_string());
        (binding.name.clone(), paths.collect())
    });
    let usual = request.work_dir == Path::new(super::WORK_DIR) || request.simulate.is_some();
    let work_dir = Some(&request.work_dir).filter(|_| !usual);
    PlanRecord {
        name: request.plan.name.clone(),
        description: request.plan.description.clone(),
        path: request.plan_path.clone(),
        text: request.plan_text.clone(),
        profile: request.plan.profile.clone(),
        bindings: bindings.collect(),
        baseline: request.baseline_path.clone(),
        selection: request.selection.clone(),
        work_dir: work_dir.map(|folder| folder.display().to_string()),
        require_all: request.require_all,
    }
}

fn simulated_disks(request: &Request) -> Vec<DiskRecord> {
    let disks = request.plan.disks.iter().map(|disk| DiskRecord {
        name: disk.name.clone(),
        kind: "simulated".to_owned(),
        path: None,
        size_bytes: simulated_bytes(&disk.source).0,
        filesystem: None,
        block_device: None,
        driver: None,
        offset_align_bytes: 1,
        memory_align_bytes: 1,
    });
    disks.collect()
}

fn host() -> Host {
    let facts = HostFacts::read();
    Host {
        name: facts.name,
        kernel: facts.kernel,
        cpu_model: facts.cpu_model,
        cpus: facts.cpus,
        memory_bytes: facts.memory_bytes,
    }
}
