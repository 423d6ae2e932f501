//! Streams of a case as cases of their own: what conditions on them, and reports, look at.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{CaseRecord, Record, RoundRecord};
use crate::measure::Measurement;

/// One of several loads that a case had side by side: what was asked. What came of it stands in
/// the measurement of each round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Its name.
    pub name: String,
    /// What it did, in one line.
    pub what: String,
    /// Every parameter that shaped it, in the plan's spelling, in the plan's order.
    pub parameters: Vec<(String, String)>,
}

impl CaseRecord {
    /// Its streams, each as a case whose rounds have the stream's own figures.
    #[must_use]
    pub fn streams_as_cases(&self) -> Vec<Self> {
        self.streams.iter().map(|stream| self.stream_as_case(stream)).collect()
    }

    fn stream_as_case(&self, stream: &StreamRecord) -> Self {
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
            engine_iops_max: None,
            streams: Vec::new(),
            is_stream: true,
        }
    }
}

impl Record {
    /// The case of this name, or the stream of a case.
    #[must_use]
    pub fn case(&self, id: &str) -> Option<Cow<'_, CaseRecord>> {
        if let Some(case) = self.cases.iter().find(|case| case.id == id) {
            return Some(Cow::Borrowed(case));
        }
        let (whole, name) = id.rsplit_once('/')?;
        let case = self.cases.iter().find(|case| case.id == whole)?;
        let stream = case.streams.iter().find(|stream| stream.name == name)?;
        Some(Cow::Owned(case.stream_as_case(stream)))
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
