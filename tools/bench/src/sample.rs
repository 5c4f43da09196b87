// SPDX-License-Identifier: GPL-2.0
//! One measured transfer, as it is kept.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rig::RigKind;
use serde::Serialize;
use vsock_peer::latency::Latency;
use vsock_peer::usage::Usage;

use crate::batches::Batches;
use crate::case::Case;
use crate::exits::Exits;
use crate::meter::Counts;
use crate::placement::Placement;
use crate::traffic::Measured;

/// A transfer with one driver.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    /// Which rig.
    pub rig: String,
    /// Transfers of the same round and case ran side by side, in one boot.
    pub round: u32,
    /// Its name.
    #[serde(serialize_with = "named")]
    pub case: Case,
    /// Which driver.
    pub driver: String,
    /// Where the guest's program ran.
    pub placement: Placement,
    /// Writes, round trips or connections.
    pub operations: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// What the guest spent meanwhile.
    pub usage: Option<Usage>,
    /// What the machine at the other end spent, which may be the guest's host.
    pub far: Option<Usage>,
    /// How often the host's KVM left the guest meanwhile, programs' start and end included.
    pub exits: Option<Exits>,
    /// Of round trips.
    pub latency: Option<Latency>,
    /// What probes counted; with probes, the times mean nothing.
    pub counts: Option<Counts>,
    /// How many packets our driver's batches had, if it is ours and was counted.
    pub batches: Option<Batches>,
}

/// What a sample belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    /// The rig's name.
    pub rig: &'a str,
    /// The round.
    pub round: u32,
    /// The driver's name.
    pub driver: &'a str,
    /// Where the guest's program ran.
    pub placement: Placement,
}

impl Sample {
    /// What was measured there.
    pub(crate) fn new(place: &Place<'_>, case: Case, measured: Measured) -> Self {
        Sample {
            rig: place.rig.into(),
            round: place.round,
            case,
            driver: place.driver.into(),
            placement: place.placement,
            operations: measured.operations,
            bytes: measured.bytes,
            seconds: measured.seconds,
            usage: measured.usage,
            far: measured.far,
            exits: None,
            latency: measured.latency,
            counts: None,
            batches: None,
        }
    }
}

fn named<S: serde::Serializer>(case: &Case, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(case)
}

/// The file in which all samples of a rig are kept, one a line.
#[derive(Debug)]
pub(crate) struct SampleLog {
    path: PathBuf,
    file: File,
}

impl SampleLog {
    /// Begins one in this folder.
    pub(crate) fn create(folder: &Path, kind: RigKind) -> Result<Self> {
        let path = folder.join(format!("samples-{kind}.jsonl"));
        let file = File::create(&path).with_context(|| format!("writing {}", path.display()))?;
        Ok(SampleLog { path, file })
    }

    /// Adds samples.
    pub(crate) fn add(&mut self, samples: &[Sample]) -> Result<()> {
        let lines = samples.iter().map(serde_json::to_string);
        let mut text = lines.collect::<Result<Vec<String>, _>>()?.join("\n");
        text.push('\n');
        let written = self.file.write_all(text.as_bytes());
        written.with_context(|| format!("writing {}", self.path.display()))
    }
}
