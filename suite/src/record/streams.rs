//! Streams of a case as cases of their own: what conditions on them, and reports, look at.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{CaseRecord, Record, RoundRecord};
use crate::measure::Measurement;

/// One of several loads that a case had side by side: what was asked. What came of it stands in
/// the measurement of each round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Its name.
    pub name: String,
    /// What it did, in one line.
    pub what: String,
    /// Every parameter that shaped it, in the plan's spelling, in the plan's order.
    pub parameters: Vec<(String, String)>,
    /// I/Os a second that the engine could do of it alone if no disk were in its way, as
    /// [`CaseRecord::engine_iops_max`] says of a case of one load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_iops_max: Option<f64>,
}

/// The case that a stream is of, as far as it bears on the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// Its name.
    pub id: String,
    /// Its parameters, those of all streams.
    pub parameters: Vec<(String, String)>,
    /// What is wrong with it.
    pub troubles: Vec<String>,
}

impl CaseRecord {
    /// Its streams, each as a case whose rounds have the stream's own figures.
    #[must_use]
    pub fn streams_as_cases(&self) -> Vec<Self> {
        if self.streams.is_empty() {
            return Vec::new();
        }
        let whole = self.whole();
        self.streams.iter().map(|stream| self.stream_as_case(stream, whole.clone())).collect()
    }

    /// What is wrong with the figures of its streams, each with the stream's name.
    pub(super) fn troubles_of_streams(&self) -> Vec<String> {
        let of_stream = |stream: &StreamRecord| {
            let nothing = Whole { id: String::new(), parameters: Vec::new(), troubles: Vec::new() };
            let troubles = self.stream_as_case(stream, nothing).troubles_of_figures().into_iter();
            let name = stream.name.clone();
            troubles.map(move |trouble| format!("stream {name}: {trouble}"))
        };
        self.streams.iter().flat_map(of_stream).collect()
    }

    fn whole(&self) -> Whole {
        let troubles = self.troubles();
        Whole { id: self.id.clone(), parameters: self.parameters.clone(), troubles }
    }

    fn stream_as_case(&self, stream: &StreamRecord, whole: Whole) -> Self {
        let figures = |whole: &Measurement| {
            let mut of_round = whole.streams.iter();
            of_round.find(|one| one.name == stream.name).map(|one| one.measurement.clone())
        };
        let round = |round: &RoundRecord| RoundRecord {
            measurement: round.measurement.as_ref().and_then(figures),
            ..round.clone()
        };
        Self {
            id: format!("{}/{}", self.id, stream.name),
            setup: self.setup.clone(),
            workload: self.workload.clone(),
            disks: self.disks.clone(),
            what: stream.what.clone(),
            parameters: stream.parameters.clone(),
            skipped: self.skipped.clone(),
            rounds: self.rounds.iter().map(round).collect(),
            warnings: Vec::new(),
            engine_iops_max: stream.engine_iops_max,
            streams: Vec::new(),
            stream_of: Some(whole),
        }
    }
}

impl CaseRecord {
    /// Whether this is its name, or that of one of its streams.
    #[must_use]
    pub fn is_or_has(&self, id: &str) -> bool {
        let rest = id.strip_prefix(self.id.as_str());
        let stream = rest.and_then(|rest| rest.strip_prefix('/'));
        rest == Some("")
            || stream.is_some_and(|name| self.streams.iter().any(|one| one.name == name))
    }
}

/// The stream in `setup/workload/stream`.
fn name_in(id: &str) -> Option<&str> {
    id.rsplit_once('/').map(|(_, name)| name)
}

impl Record {
    /// The case of this name, or the stream of a case.
    #[must_use]
    pub fn case(&self, id: &str) -> Option<Cow<'_, CaseRecord>> {
        if let Some(case) = self.cases.iter().find(|case| case.id == id) {
            return Some(Cow::Borrowed(case));
        }
        let case = self.whole_of(id)?;
        let stream =
            case.streams.iter().find(|stream| Some(stream.name.as_str()) == name_in(id))?;
        Some(Cow::Owned(case.stream_as_case(stream, case.whole())))
    }

    /// The case of this name, or the one that the stream of this name is of.
    #[must_use]
    pub fn whole_of(&self, id: &str) -> Option<&CaseRecord> {
        self.cases.iter().find(|case| case.is_or_has(id))
    }

    /// The record with every stream as a case behind the one that it is of, for those who show
    /// them alike. Only the whole cases are in its schedule.
    #[must_use]
    pub fn with_streams_as_cases(&self) -> Cow<'_, Self> {
        if self.cases.iter().all(|case| case.streams.is_empty()) {
            return Cow::Borrowed(self);
        }
        let mut places = Vec::with_capacity(self.cases.len());
        let mut cases = Vec::new();
        for case in &self.cases {
            places.push(cases.len());
            cases.push(case.clone());
            cases.extend(case.streams_as_cases());
        }
        let place = |(case, round): &(usize, u32)| Some((*places.get(*case)?, *round));
        let schedule = self.schedule.iter().filter_map(place).collect();
        Cow::Owned(Self { cases, schedule, ..self.clone() })
    }
}
