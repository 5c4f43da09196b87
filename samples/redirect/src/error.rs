// SPDX-License-Identifier: GPL-2.0
//! What can go wrong, and what to do about it.

use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use aya::EbpfError;
use nix::errno::Errno;
use thiserror::Error;

/// Why there is no redirection, or no longer one.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// The path cannot be bound to.
    #[error("cannot bind a UNIX socket to {path}: {errno}; {}", path_advice(*errno))]
    Bind {
        /// Where it was to be.
        path: PathBuf,
        /// Why not.
        errno: Errno,
    },
    /// Nobody there takes a connection.
    #[error("cannot connect to CID {cid} port {port}: {errno}; {}", peer_advice(*errno))]
    Connect {
        /// Whose it is.
        cid: u32,
        /// Which.
        port: u32,
        /// Why not.
        errno: Errno,
    },
    /// The kernel does not redirect.
    #[error("cannot redirect by BPF: {}; {}", chain(.0), bpf_advice(.0))]
    Bpf(#[from] EbpfError),
    /// A datagram is longer than the buffer.
    #[error(
        "a datagram of {length} bytes is too long to be copied; use --via bpf, or lower net.core.wmem_max"
    )]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// Another call failed.
    #[error("{doing}: {errno}")]
    Call {
        /// What it was to do.
        doing: &'static str,
        /// How.
        errno: Errno,
    },
}

impl Error {
    pub(crate) fn call(doing: &'static str, errno: Errno) -> Self {
        Self::Call { doing, errno }
    }
}

fn path_advice(errno: Errno) -> &'static str {
    match errno {
        Errno::EADDRINUSE => "if no other program listens there, remove the file",
        Errno::ENAMETOOLONG | Errno::EINVAL => "take a path of at most 107 bytes",
        _ => "--from takes a new file in a folder that you may write to",
    }
}

fn peer_advice(errno: Errno) -> &'static str {
    match errno {
        // What a virtio device answers for a port at which nobody listens.
        Errno::ECONNRESET | Errno::ECONNREFUSED => "start the server at that port first",
        Errno::ENODEV | Errno::ENETUNREACH => {
            "no vsock driver is loaded that leads there, or the device has another CID: the host's is 2"
        }
        Errno::ETIMEDOUT => "the host does not answer: is that its CID, and does its device work?",
        Errno::EAFNOSUPPORT => "this kernel has no vsock: modprobe vsock",
        _ => "--cid and --port take the address of a vsock server",
    }
}

fn bpf_advice(error: &EbpfError) -> &'static str {
    let forbidden = |error: &(dyn std::error::Error + 'static)| {
        let error = error.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    if causes(error).any(forbidden) {
        "that takes CAP_BPF and CAP_NET_ADMIN: become root, or use --via copy"
    } else {
        "the kernel needs CONFIG_BPF_SYSCALL and CONFIG_NET_SOCK_MSG; --via copy does without"
    }
}

fn causes(error: &EbpfError) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}

/// The error and its causes, each of which is told once.
fn chain(error: &EbpfError) -> String {
    let mut text = error.to_string();
    for cause in causes(error) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
