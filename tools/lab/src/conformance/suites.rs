// SPDX-License-Identifier: GPL-2.0
//! Suites that others wrote: the kernel's `tools/testing/vsock` and its `selftests/vsock`.
//!
//! The latter, `vmtest.sh`, boots a guest with `vng` and drives the former by `ssh`. What of it
//! concerns a guest's driver is done here with the lab's own machines:
//!
//! - `vm_server_host_client` and `vm_client_host_server` are `vsock_test` with the guest as server and
//!   as client; `vm_loopback` is `vsock_test` within the guest while the driver is loaded.
//! - `ns_diff_global_{host,vm}_connect_to_global_{vm,host}_ok`,
//!   `ns_diff_*_connect_to_local_{vm,host}_fails` and `ns_delete_*` ask which network namespaces of the
//!   *host* reach a guest, which vhost-vsock answers. A guest's driver is asked the same of the guest's
//!   namespaces, and has its own answer: it serves those in global mode and no other
//!   (`virtio_transport_stream_allow()`). That is in [`namespaces`].
//! - `ns_{global,local}*_same_cid_*` are about the CIDs of a host's guests, `ns_host_vsock_*` about
//!   files of `vsock.ko`, and `ns_*_loopback_*` about `vsock_loopback` between namespaces: no guest's
//!   driver takes part in them.

mod namespaces;
mod upstream;
mod vsock_test;

use anyhow::Result;
use rig::Side;

use crate::case::fixture::Fixture;
use crate::case::{Case, Outcome};
use upstream::Ends;

const URING: &str = "vsock_uring_test";

/// What a kernel with io_uring has.
const IO_URING: &str = "/proc/sys/kernel/io_uring_disabled";

/// The cases of all of them.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vsock_test::cases();
    for (role, server) in [("client", Side::Far), ("server", Side::Dut)] {
        for program in ["vsock_diag_test", URING] {
            let name = format!("{program} with the guest as {role}");
            let case = Case::with_outcome(name, move |fixture| whole(fixture, program, server));
            cases.push(case.quick().short());
        }
    }
    cases.extend(namespaces::cases());
    cases
}

/// Runs a program that has too few cases to go on behind one that fails.
fn whole(fixture: &Fixture<'_>, program: &str, server: Side) -> Result<Outcome> {
    // Without it the program ends at once, and its peer goes on until its time is over.
    if program == URING {
        let has = fixture.guest_shell(&format!("test -e {IO_URING} && echo yes; true"))?;
        if has.text().trim() != "yes" {
            return Ok(Outcome::Skipped("this kernel has no io_uring".into()));
        }
    }
    for machine in [fixture.guest(), fixture.far()] {
        machine.need("vsock_diag")?;
    }
    let ran = upstream::run(program, &Ends::between(fixture, server), &[])?;
    ran.whole()?;
    Ok(Outcome::Each(ran.results()))
}
