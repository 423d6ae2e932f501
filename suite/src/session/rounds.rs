//! One timed round of one case: open its storage, run the job, look at the kernel's books.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Request;
use super::backends::back_ends;
use super::books::Books;
use super::ceiling::{self, Ceilings};
use super::job;
use super::run::{with_causes, with_help};
use super::tables::Tables;
use crate::engine::{
    Backend, Control, DeviceFile, Engine, EngineError, Job, Progress, Storage, Target,
};
use crate::measure::{CpuUse, Measurement, StreamMeasurement};
use crate::model::DiskModel;
use crate::os::blockdev::Sysfs;
use crate::plan::{Case, DiskSource, Setup, Workload};
use crate::record::CaseRecord;
use crate::rig::{Access, BuildEvent, Member, Rig, SurveyedDisk};
use crate::units::Bytes;

/// Size of a simulated disk whose size the plan leaves to the device that it names.
const SIMULATED_DEVICE: Bytes = Bytes(1 << 30);

/// What every round needs.
pub(super) struct Bench<'r> {
    request: &'r Request,
    rig: Option<&'r Rig>,
    engine: Engine,
    /// Of every case of the plan, those of its loads.
    back_ends: Vec<Vec<Backend>>,
    control: Control,
    sysfs: Sysfs,
    /// Disks on which I/Os never returned: nothing more is asked of them.
    silent: BTreeSet<String>,
    /// For each case that was measured, what of each of its loads the engine's own cost follows
    /// from; `None` of a load whose cost is not known.
    stripped: BTreeMap<usize, Vec<Option<Job>>>,
    ceilings: Ceilings,
    tables: Tables,
}

impl<'r> Bench<'r> {
    pub(super) fn new(request: &'r Request, rig: Option<&'r Rig>, stop: &Arc<AtomicBool>) -> Self {
        Self {
            request,
            rig,
            engine: Engine::new(),
            back_ends: back_ends(&request.plan),
            control: Control::new(Arc::clone(stop)),
            sysfs: Sysfs::new("/sys"),
            silent: BTreeSet::new(),
            stripped: BTreeMap::new(),
            ceilings: Ceilings::default(),
            tables: Tables::new(),
        }
    }

    /// Whether there are disks that don't answer.
    pub(super) fn is_stuck(&self) -> bool {
        !self.silent.is_empty()
    }

    /// Makes the disks of a case ready for a round of it: what trims left there is written again.
    ///
    /// # Errors
    /// Why they can't be, as a sentence.
    pub(super) fn make_ready(
        &self,
        planned: usize,
        tell: &mut dyn FnMut(BuildEvent<'_>),
    ) -> Result<(), String> {
        let case = &self.request.plan.cases[planned];
        let setup = &self.request.plan.setups[case.setup];
        let is_silent = self.silent_disk(setup).is_some();
        let Some(rig) = self.rig.filter(|_| !is_silent) else { return Ok(()) };
        let trims = case.workload.loads().into_iter().filter(|load| load.trims());
        let blocks = trims.flat_map(|load| load.blocks.0.iter().map(|(size, _)| size.0));
        let mut sizes: Vec<u64> = blocks.collect();
        if !sizes.is_empty() {
            sizes.extend(setup.stripe.map(|stripe| stripe.chunk.0)); // which parts them
        }
        let halted = || self.control.stopped();
        let done = rig.refill(case.setup, &sizes, &halted, tell);
        done.map_err(|error| with_help(&error))
    }

    /// Measures one round of a case of the plan, whose disks are ready for it.
    ///
    /// # Errors
    /// Why it could not be measured, as a sentence.
    pub(super) fn measure(
        &mut self,
        planned: usize,
        round: u32,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Measurement, String> {
        let case = &self.request.plan.cases[planned];
        let setup = &self.request.plan.setups[case.setup];
        if let Some(name) = self.silent_disk(setup) {
            return Err(format!("not run: disk {name} doesn't answer"));
        }
        let chunk = setup.stripe.map(|stripe| stripe.chunk);
        // The members keep what they opened, a fresh file included, until the round is over.
        let members = self.open(case)?;
        let (target, member_bytes) = match &self.request.simulate {
            Some(model) => simulated(self.request, setup, model),
            None => files(&members),
        };
        let storage = Storage { target, chunk, member_bytes };
        let capacity = member_bytes * setup.disks.len() as u64;
        let seed = job::round_seed(case.workload.seed, round);
        let fresh = job::wants_fresh_file(&case.workload)
            && self.rig.is_some_and(|rig| rig.has_fresh_files(case.setup));
        let table = self.tables.of(&self.request.plan, planned, fresh, capacity, self.rig)?;
        let loads = case.workload.loads();
        let mut jobs = Vec::with_capacity(loads.len());
        for (number, (load, backend)) in loads.iter().zip(&self.back_ends[planned]).enumerate() {
            let (seed, table) = (job::stream_seed(seed, number), table.clone());
            let table = table.filter(|_| load.verify);
            let job = job::job(load, storage.clone(), capacity, *backend, seed, table);
            jobs.push(job.map_err(|error| match case.workload.streams.get(number) {
                Some(stream) => format!("stream {}: {error}", stream.name),
                None => error,
            })?);
        }
        let devices = members.iter().map(|member| member.block_device);
        let mut books = Books::open(&self.sysfs, devices, &case.workload);
        let mut tell = |told: Progress| {
            if let Some(books) = &mut books {
                books.look(told.elapsed);
            }
            progress(told);
        };
        let measured = self.engine.run_together(&jobs, &self.control, &mut tell);
        if let Err(EngineError::Stuck { disks, .. }) = &measured {
            // Closing or removing files there would wait for what doesn't answer: whoever unmakes
            // all in the end does that with care.
            std::mem::forget(members);
            self.silent.extend(lost_with(disks, self.rig));
        }
        let (measured, cpu) = measured.map_err(|error| with_causes(&error))?;
        let mut measured = joined(&case.workload, measured, cpu)
            .ok_or_else(|| "nothing was measured".to_owned())?;
        measured.device = books.and_then(|books| books.close(measured.duration_ns));
        let of_loads = ceiling::of_loads(&measured);
        let stripped = jobs.iter().zip(of_loads).map(|(job, one)| ceiling::stripped(job, one));
        self.stripped.insert(planned, stripped.collect());
        Ok(measured)
    }

    /// How many I/Os a second the engine could do of each load of a case whose rounds came to this,
    /// alone and if no disk were in its way; `None` where the case is far from that, or nobody
    /// knows.
    pub(super) fn ceilings(&mut self, planned: usize, merged: &Measurement) -> Vec<Option<f64>> {
        let mut all = Vec::new();
        for (load, job) in self.stripped.get(&planned).into_iter().flatten().enumerate() {
            let worth = ceiling::is_worth_a_look(merged, load);
            let measured = ceiling::of_loads(merged).nth(load);
            let asked = job.as_ref().filter(|_| worth).zip(measured);
            all.push(asked.and_then(|(job, measured)| {
                self.ceilings.of(&mut self.engine, &self.control, job, measured)
            }));
        }
        all
    }

    /// The first disk of a setup that doesn't answer.
    fn silent_disk(&self, setup: &Setup) -> Option<&str> {
        let names = setup.disks.iter().map(|index| &self.request.plan.disks[*index].name);
        names.map(String::as_str).find(|name| self.silent.contains(*name))
    }

    fn open(&self, case: &Case) -> Result<Vec<Member>, String> {
        let Some(rig) = self.rig else { return Ok(Vec::new()) };
        let access = Access {
            direct: job::is_direct(&case.workload),
            write: case.workload.changes(),
            fresh: job::wants_fresh_file(&case.workload),
        };
        let members = rig.open(case.setup, access).map_err(|error| with_help(&error))?;
        if !access.direct {
            for member in &members {
                member.drop_cache().map_err(|error| with_help(&error))?;
            }
        }
        Ok(members)
    }
}

/// What the loads of a round measured, as one.
fn joined(
    workload: &Workload,
    mut measured: Vec<Measurement>,
    cpu: Option<CpuUse>,
) -> Option<Measurement> {
    if workload.streams.is_empty() {
        return measured.pop().map(|only| Measurement { cpu, ..only });
    }
    let named = workload
        .streams
        .iter()
        .zip(measured)
        .map(|(stream, measurement)| StreamMeasurement { name: stream.name.clone(), measurement });
    Measurement::together(named.collect(), cpu)
}

/// These disks, which don't answer, and those that lie on the same devices.
fn lost_with(silent: &[String], rig: Option<&Rig>) -> BTreeSet<String> {
    let number = |disk: &SurveyedDisk| disk.block_device.as_ref().map(|device| device.number);
    let disks: Vec<&SurveyedDisk> = rig.into_iter().flat_map(Rig::disks).collect();
    let of_silent = disks.iter().filter(|disk| silent.contains(&disk.name));
    let devices: BTreeSet<_> = of_silent.filter_map(|disk| number(disk)).collect();
    let there = disks.iter().filter(|disk| number(disk).is_some_and(|on| devices.contains(&on)));
    silent.iter().chain(there.map(|disk| &disk.name)).cloned().collect()
}

/// Whether a case can have another round: it was not skipped, and none of its rounds failed. One
/// that failed would fail again, and its verdict is settled.
pub(super) fn can_go_on(case: &CaseRecord) -> bool {
    let spoilt = case
        .rounds
        .iter()
        .any(|round| round.measurement.as_ref().is_none_or(|measured| measured.errors(None) > 0));
    case.skipped.is_empty() && !spoilt
}

fn files(members: &[Member]) -> (Target, u64) {
    let files = members.iter().map(|member| DeviceFile {
        name: member.name.clone(),
        file: Arc::clone(&member.file),
        memory_align: member.memory_align,
        offset_align: member.offset_align,
    });
    (Target::Files(files.collect()), members.first().map_or(0, |member| member.bytes))
}

fn simulated(request: &Request, setup: &Setup, model: &DiskModel) -> (Target, u64) {
    let disks = setup.disks.iter().map(|index| &request.plan.disks[*index]);
    let smallest = disks.clone().map(|disk| simulated_bytes(&disk.source).0).min().unwrap_or(0);
    let chunk = setup.stripe.map_or(1, |stripe| stripe.chunk.0);
    let named = disks.map(|disk| (disk.name.clone(), model.clone()));
    (Target::Simulated(named.collect()), smallest / chunk * chunk)
}

/// Size of what a simulated disk stands for.
pub(super) fn simulated_bytes(source: &DiskSource) -> Bytes {
    match source {
        DiskSource::Loopback { size }
        | DiskSource::Directory { size, .. }
        | DiskSource::Null { size } => *size,
        DiskSource::Device { size, .. } => size.unwrap_or(SIMULATED_DEVICE),
    }
}
