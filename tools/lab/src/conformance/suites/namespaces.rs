// SPDX-License-Identifier: GPL-2.0
//! What `vmtest.sh` asks of namespaces, asked of a guest's: its driver serves those in global mode.

use anyhow::{Context as _, Result, ensure};
use rig::RigKind;

use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE, until};
use crate::conformance::debian::Debian;

const PORT: u32 = 12345;
const BYTES: u64 = 1 << 20;

/// Two of either mode. A namespace's mode is what the one in which it was made says of its children.
const MAKE: &str = "
    for mode in global local; do
        ip netns add $mode-parent
        echo $mode | nsenter --net=/run/netns/$mode-parent tee /proc/sys/net/vsock/child_ns_mode
        for n in 0 1; do nsenter --net=/run/netns/$mode-parent ip netns add $mode$n; done
    done";
const REMOVE: &str = "ip -all netns delete";

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let cases = [
        Case::new(
            "namespaces: a process in another global one connects out and is reached",
            global_ok,
        ),
        Case::new(
            "namespaces: a process in a local one cannot connect out",
            local_out_fails,
        ),
        Case::new(
            "namespaces: a process in a local one is not reached",
            local_in_fails,
        ),
        Case::new(
            "namespaces: a connection outlives the deletion of its one",
            deleted,
        ),
    ];
    // The guest of the other rigs has no Debian programs.
    cases.map(|case| case.only_on([RigKind::Wire])).into()
}

/// Does something with the namespaces there, and removes them afterwards.
fn with_namespaces(
    fixture: &Fixture<'_>,
    work: impl FnOnce(&Debian<'_>, &Debian<'_>) -> Result<()>,
) -> Result<()> {
    let guest = Debian::of(fixture.guest())?;
    let far = Debian::of(fixture.far())?;
    guest.sh(MAKE)?;
    let done = work(&guest, &far);
    guest.sh(REMOVE)?;
    done
}

/// Sends a file from one place to another; returns what the receiver wrote.
fn send(from: &Debian<'_>, to: &Debian<'_>) -> Result<()> {
    let file = from.random("namespaces", BYTES)?;
    let got = "/tmp/namespaces-got";
    let listen = format!("socat -u VSOCK-LISTEN:{PORT} CREATE:{got}");
    let server = to.start(&listen)?;
    to.await_listener(&server, PORT)?;
    let cid = to.machine().cid();
    from.sh(&format!(
        "socat -u OPEN:{} VSOCK-CONNECT:{cid}:{PORT}",
        file.path
    ))?;
    to.finish(server)?;
    to.same(got, &file)
}

fn global_ok(fixture: &Fixture<'_>) -> Result<()> {
    with_namespaces(fixture, |guest, far| {
        let inside = guest.in_namespace("global0");
        send(&inside, far).context("out of the namespace")?;
        send(far, &inside).context("into the namespace")
    })
}

/// Says a word to somebody who must not hear it; returns what the caller complained of.
fn unheard(from: &Debian<'_>, to: &Debian<'_>) -> Result<String> {
    let heard = "/tmp/namespaces-heard";
    let server = to.start(&format!("socat -u VSOCK-LISTEN:{PORT} CREATE:{heard}"))?;
    to.await_listener(&server, PORT)?;
    let cid = to.machine().cid();
    let said = from.attempt(&format!(
        "echo TEST | socat -u - VSOCK-CONNECT:{cid}:{PORT}"
    ))?;
    let ended = server.exit();
    server.kill()?;
    let complaint = said.errors();
    ensure!(
        !said.exit.success() && ended.is_none(),
        "the connection was made; the caller said {complaint:?}, the listener's end is {ended:?}"
    );
    Ok(complaint)
}

fn local_out_fails(fixture: &Fixture<'_>) -> Result<()> {
    with_namespaces(fixture, |guest, far| {
        let complaint = unheard(&guest.in_namespace("local0"), far)?;
        ensure!(
            complaint.contains("Network is unreachable"),
            "it failed otherwise than by the lack of a way: {complaint}"
        );
        Ok(())
    })
}

fn local_in_fails(fixture: &Fixture<'_>) -> Result<()> {
    with_namespaces(fixture, |guest, far| {
        let complaint = unheard(far, &guest.in_namespace("local0"))?;
        ensure!(
            complaint.contains("Connection reset"),
            "the guest did not refuse the connection: {complaint}"
        );
        Ok(())
    })
}

fn deleted(fixture: &Fixture<'_>) -> Result<()> {
    with_namespaces(fixture, |guest, far| {
        let got = "/tmp/namespaces-got";
        let server = far.start(&format!("socat -u VSOCK-LISTEN:{PORT} CREATE:{got}"))?;
        far.await_listener(&server, PORT)?;
        let inside = guest.in_namespace("global0");
        let cid = far.machine().cid();
        let client = inside.start(&format!("socat -u - VSOCK-CONNECT:{cid}:{PORT}"))?;
        let connected = format!("ss --vsock --numeric state established | grep -q ':{PORT} '");
        until("the connection to stand", PATIENCE, || {
            Ok(far.attempt(&connected)?.exit.success().then_some(()))
        })?;
        guest.sh("ip netns delete global0")?;
        client.input(b"TEST", true)?;
        guest.finish(client)?;
        far.finish(server)?;
        let heard = far.sh(&format!("cat {got}"))?;
        ensure!(heard == "TEST", "the listener heard {heard:?}");
        Ok(())
    })
}
