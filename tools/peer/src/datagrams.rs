// SPDX-License-Identifier: GPL-2.0
//! The payload of the first connection, as UNIX datagrams: for what passes them on to a vsock peer.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::errno::Errno;
use nix::getsockopt_impl;
use nix::libc;
use nix::sys::socket::{getsockopt, sockopt::GetStruct};

use crate::cli::Datagrams;
use crate::pattern::Pattern;
use crate::plan::Side;
use crate::report::{Amount, Fault, Line, print};

/// From `<linux/sock_diag.h>`: how many numbers `SO_MEMINFO` has, and which is `sk_wmem_alloc`.
const MEMINFO_VARS: usize = 9;
const MEMINFO_WMEM_ALLOC: usize = 2;

/// The memory that the kernel accounts to a socket.
#[derive(Clone, Copy, Debug)]
struct MemInfo;

getsockopt_impl!(
    MemInfo,
    libc::SOL_SOCKET,
    libc::SO_MEMINFO,
    [u32; MEMINFO_VARS],
    GetStruct<[u32; MEMINFO_VARS]>
);

/// How often to look whether all has been taken, of which the kernel gives no notice.
const LOOK: Duration = Duration::from_millis(2);

/// Sends the whole payload, and returns once nothing of it is in the kernel any more as a datagram.
pub fn datagrams(request: &Datagrams) -> Result<(), Fault> {
    let failed = |doing: &str, error: &std::io::Error| {
        Fault::call(doing, Errno::from_raw(error.raw_os_error().unwrap_or(0)))
    };
    let lane = Pattern::new(request.seed).lane(0, Side::Connect);
    let socket = UnixDatagram::unbound().map_err(|e| failed("making a UNIX socket", &e))?;
    let to = request.to.display();
    let connected = socket.connect(&request.to);
    connected.map_err(|e| failed(&format!("connecting to {to}"), &e))?;
    let mut sent = Amount::default();
    while sent.bytes < request.bytes {
        let left = request.bytes - sent.bytes;
        let len = usize::try_from(left).map_or(request.size, |left| left.min(request.size));
        let at = || {
            format!(
                "sending to {to} at byte {} of {}",
                sent.bytes, request.bytes
            )
        };
        if request.empty {
            socket.send(&[]).map_err(|e| failed(&at(), &e))?;
        }
        let whole = socket.send(lane.at(sent.bytes, len));
        sent.add(whole.map_err(|e| failed(&at(), &e))?);
    }
    let held = || {
        let memory = getsockopt(&socket, MemInfo);
        memory.map_err(|errno| Fault::call("asking for SO_MEMINFO", errno))
    };
    while held()?[MEMINFO_WMEM_ALLOC] > 0 {
        std::thread::sleep(LOOK);
    }
    print(&Line::Datagrams(sent));
    Ok(())
}
