// SPDX-License-Identifier: GPL-2.0
//! Real programs, as Debian ships them, at both ends.

mod files;
mod ssh;

use anyhow::{Context as _, Result};
use rig::RigKind;
use vsock_peer::plan::Kind;

use super::debian::Debian;
use crate::case::Case;
use crate::case::fixture::Fixture;
use crate::transfer::{Direction, Transfer};

/// The cases of all of them.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("socat moves files both ways", |fixture| {
            files::both_ways(fixture, files::SOCAT)
        })
        .quick(),
        Case::new("ncat --vsock moves files both ways", |fixture| {
            files::both_ways(fixture, files::NCAT)
        }),
        Case::new(
            "Python's socket.AF_VSOCK moves files both ways by sendfile()",
            |fixture| files::both_ways(fixture, files::PYTHON),
        ),
        Case::new("socat echoes a file over one connection", files::echoed),
    ];
    cases.extend(ssh::cases());
    // The guests of the other rigs have no Debian programs.
    let on_wire = |case: Case| case.only_on([RigKind::Wire]);
    let mut cases: Vec<Case> = cases.into_iter().map(on_wire).collect();
    cases.push(Case::new(
        "a program with the vsock crate moves bytes both ways",
        vsock_crate,
    ));
    cases
}

/// Both machines' Debian, in the two directions in which the one connects to the other.
fn ways<'a>(fixture: &Fixture<'a>) -> Result<[(&'static str, Debian<'a>, Debian<'a>); 2]> {
    let guest = || Debian::of(fixture.guest());
    let far = || Debian::of(fixture.far());
    Ok([
        ("from the guest", guest()?, far()?),
        ("to the guest", far()?, guest()?),
    ])
}

/// The lab's own traffic program is one.
fn vsock_crate(fixture: &Fixture<'_>) -> Result<()> {
    for guest_connects in [true, false] {
        for kind in [Kind::Stream, Kind::Seqpacket] {
            let mut transfer = Transfer::new(kind, Direction::BothWays, 10_000, 4 << 20).over(4);
            transfer.guest_connects = guest_connects;
            let done = fixture.transfer(&transfer);
            done.with_context(|| format!("the guest connects: {guest_connects}"))?;
        }
    }
    Ok(())
}
