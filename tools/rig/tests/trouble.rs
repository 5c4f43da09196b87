// SPDX-License-Identifier: GPL-2.0

//! What the rigs tell of machines in trouble, tried on real ones.
//!
//! Boots virtual machines, so it runs only when asked for, in the lab root:
//! `tools/labroot.sh run cargo test --manifest-path tools/Cargo.toml -p rig -- --ignored --test-threads 1`

use rig::{
    Cache, Checkout, Driver, Error, Expected, Kernel, Level, Machine, Program, Programs, Progress,
    Rig, RigConfig, RigKind, Stalls, VsockDevice,
};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

struct Bench {
    rig: Rig,
    progress: Progress,
}

fn open(kind: RigKind) -> Bench {
    let checkout = Checkout::find().unwrap();
    let cache = Cache::open().unwrap();
    let progress = Progress::new();
    let run = checkout.new_run("test").unwrap();
    let kernel = Kernel::prepare(&cache, &progress).unwrap();
    let programs = Programs::build(&checkout, &progress).unwrap();
    let config = RigConfig::new(&kernel, &programs);
    let rig = Rig::open(kind, config, &run, &progress).unwrap();
    Bench { rig, progress }
}

#[test]
#[ignore = "boots virtual machines"]
fn ordinary_life_on_the_wire() {
    let bench = open(RigKind::Wire);
    let pair = bench.rig.boot(&bench.progress).unwrap();
    let (dut, far) = (pair.dut(), pair.far());
    files_and_programs(dut);
    kernel_log(dut);
    for machine in [dut, far] {
        machine.use_driver(&Driver::c()).unwrap();
        machine.use_driver(&Driver::c()).unwrap();
        assert!(
            machine
                .has_module("vmw_vsock_virtio_transport_common")
                .unwrap()
        );
    }
    let refused = dut.rmmod("vsock").unwrap_err();
    assert_eq!(refused.errno(), Some(nix::libc::EWOULDBLOCK), "{refused}");
    let refused = dut.insmod("vsock", &[] as &[&str]).unwrap_err();
    assert_eq!(refused.errno(), Some(nix::libc::EEXIST), "{refused}");
    assert!(dut.insmod("no_such_module", &[] as &[&str]).is_err());

    // Held, a machine has no heartbeat, and that is as it should be.
    far.hold().unwrap();
    std::thread::sleep(Duration::from_secs(22));
    dut.run(["true"], LIMIT).unwrap().success().unwrap();
    far.resume().unwrap();
    far.run(["true"], LIMIT).unwrap().success().unwrap();
    pair.power_off().unwrap();
}

fn files_and_programs(machine: &Machine) {
    let data: Vec<u8> = (0..600_000u32).flat_map(u32::to_le_bytes).collect();
    machine.create("/tmp/data", 0o600, &data).unwrap();
    assert!(
        machine.read("/tmp/data").unwrap() == data,
        "a file came back changed"
    );
    let missing = machine.read("/tmp/none").unwrap_err();
    assert_eq!(missing.errno(), Some(nix::libc::ENOENT));

    let output = machine
        .run(["sh", "-c", "echo out; echo err >&2; exit 3"], LIMIT)
        .unwrap();
    assert_eq!(output.exit, rig::Exit::Code(3));
    assert_eq!(
        (output.text().as_str(), output.errors().as_str()),
        ("out\n", "err\n")
    );
    assert!(matches!(output.success(), Err(Error::ProgramFailed { .. })));
    let big = machine
        .run(["cat", "/tmp/data"], LIMIT)
        .unwrap()
        .success()
        .unwrap();
    assert!(big.stdout == data, "a program's output came changed");
    let missing = machine.run(["no-such-program"], LIMIT).unwrap_err();
    assert_eq!(missing.errno(), Some(nix::libc::ENOENT));

    let cat = machine.spawn(Program::new("cat")).unwrap();
    cat.input(b"one\ntwo\n", true).unwrap();
    assert_eq!(cat.wait(LIMIT).unwrap().text(), "one\ntwo\n");

    let mut sleeper = machine
        .spawn(["sh", "-c", "echo ready; sleep 1000"])
        .unwrap();
    sleeper
        .wait_line("ready", LIMIT, |line| (line == "ready").then_some(()))
        .unwrap();
    let late = sleeper.wait_line("more", Duration::from_secs(1), |_| Some(()));
    assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
    assert_eq!(sleeper.kill().unwrap().exit, rig::Exit::Signal(9));

    // Dropped, a job is killed; its process is then gone.
    drop(machine.spawn(["sleep", "4242"]).unwrap());
    let started = Instant::now();
    while machine
        .run(["sh", "-c", "ps | grep -q '[s]leep 4242'"], LIMIT)
        .unwrap()
        .exit
        .success()
    {
        assert!(started.elapsed() < LIMIT, "a dropped job lives on");
    }
}

fn kernel_log(machine: &Machine) {
    let mark = machine.mark().unwrap();
    machine.check_quiet(mark, &Expected::default()).unwrap();
    machine
        .write("/dev/kmsg", "<4>said by a program\n")
        .unwrap();
    machine.check_quiet(mark, &Expected::default()).unwrap();
    machine.write("/proc/sysrq-trigger", "m").unwrap();
    let record = machine
        .wait_klog("the memory's state", mark, LIMIT, |record| {
            record.text.contains("Mem-Info").then(|| record.clone())
        })
        .unwrap();
    assert!(!record.from_user && record.level <= Level(7));
}

#[test]
#[ignore = "boots virtual machines"]
fn devices_come_and_go() {
    let bench = open(RigKind::Wire);
    let pair = bench.rig.boot(&bench.progress).unwrap();
    let dut = pair.dut();
    dut.use_driver(&Driver::c()).unwrap();
    let bound = || {
        let list = dut.run(
            ["ls", "/sys/bus/virtio/drivers/vmw_vsock_virtio_transport"],
            LIMIT,
        );
        let list = list.unwrap().success().unwrap().text();
        list.split_whitespace()
            .filter(|name| name.starts_with("virtio"))
            .count()
    };
    assert_eq!(bound(), 1);
    dut.unplug(VsockDevice::First).unwrap();
    assert_eq!(bound(), 0);
    dut.plug(VsockDevice::First).unwrap();
    let started = Instant::now();
    while bound() == 0 {
        assert!(started.elapsed() < LIMIT, "a plugged device is not bound");
    }
    // The stock driver takes one device, and says nothing of the other.
    let devices = || {
        let list = dut.run(["sh", "-c", "cat /sys/bus/virtio/devices/*/device"], LIMIT);
        let list = list.unwrap().success().unwrap().text();
        list.lines().filter(|id| *id == "0x0013").count()
    };
    dut.plug(VsockDevice::Second).unwrap();
    let started = Instant::now();
    while devices() < 2 {
        assert!(started.elapsed() < LIMIT, "a second device is not found");
    }
    assert_eq!(bound(), 1);
    dut.unplug(VsockDevice::Second).unwrap();
    pair.power_off().unwrap();
}

#[test]
#[ignore = "boots virtual machines"]
fn a_panic_is_a_kernel_fault() {
    let bench = open(RigKind::Wire);
    let pair = bench.rig.boot(&bench.progress).unwrap();
    // Who waits for the other guest hears of it, too.
    let waiting = pair.far().spawn(["sleep", "1000"]).unwrap();
    // The fault may be known before the program is.
    let _crash = pair
        .dut()
        .spawn(["sh", "-c", "echo c >/proc/sysrq-trigger"]);
    let error = waiting.wait(LIMIT).unwrap_err();
    let Error::KernelFault {
        machine, tail, log, ..
    } = &error
    else {
        panic!("not a kernel fault: {error}");
    };
    assert_eq!(machine, "dut");
    assert!(
        tail.contains("sysrq") && tail.contains("Call Trace"),
        "{error}"
    );
    assert!(std::fs::read_to_string(log).unwrap().contains("Call Trace"));
}

#[test]
#[ignore = "boots virtual machines"]
fn silence_on_the_wire_is_a_hang() {
    let bench = open(RigKind::Wire);
    let pair = bench.rig.boot(&bench.progress).unwrap();
    pair.dut().monitor().unwrap().human("stop").unwrap();
    let error = pair
        .dut()
        .run(["true"], Duration::from_secs(120))
        .unwrap_err();
    assert!(matches!(error, Error::MachineHung { .. }), "{error}");
    assert!(!error.is_rig_stall());
}

#[test]
#[ignore = "boots virtual machines"]
fn a_machine_that_is_gone_is_told() {
    let bench = open(RigKind::Wire);
    let pair = bench.rig.boot(&bench.progress).unwrap();
    let waiting = pair.far().spawn(["sleep", "1000"]).unwrap();
    // QEMU may be gone before it answers.
    let _ = pair.dut().monitor().unwrap().human("quit");
    let error = waiting.wait(LIMIT).unwrap_err();
    assert!(matches!(error, Error::MachineGone { .. }), "{error}");
}

#[test]
#[ignore = "boots virtual machines"]
fn silence_of_a_nested_guest_is_a_stall() {
    let bench = open(RigKind::Nested);
    let mut stalls = Stalls::default();
    let mut boots = 0;
    let result = bench
        .rig
        .run_part("part", &mut stalls, &bench.progress, |pair| {
            boots += 1;
            if boots == 1 {
                pair.dut().monitor()?.human("stop")?;
            }
            pair.dut()
                .run(["true"], Duration::from_secs(120))?
                .success()?;
            Ok(boots)
        });
    assert_eq!(result.unwrap(), 2);
    assert_eq!(stalls.count(), 1);
}
