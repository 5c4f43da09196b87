// SPDX-License-Identifier: GPL-2.0

//! What an agent tells the lab.

use crate::{Answer, Exit, Failure, JobId, KlogRecord, Stream};
use serde::{Deserialize, Serialize};

/// One message from the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// The first one on a link.
    Hello(Hello),
    /// The answer to the request of this id.
    Reply {
        /// The request's id.
        id: u64,
        /// What came of it.
        result: Result<Answer, Failure>,
    },
    /// A piece of a job's output.
    Output {
        /// Which job.
        job: JobId,
        /// Which of its outputs.
        stream: Stream,
        /// The piece.
        #[serde(with = "crate::bytes")]
        data: Vec<u8>,
    },
    /// A job has ended and all its output has been sent.
    Exit {
        /// Which job.
        job: JobId,
        /// How it ended.
        exit: Exit,
    },
    /// The kernel logged something.
    Klog(KlogRecord),
    /// Records of the kernel log were overwritten before the agent could read them.
    KlogLost,
}

/// Who the agent is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The agent's [`crate::VERSION`].
    pub version: u32,
    /// The release of the kernel it runs on.
    pub kernel: String,
}
