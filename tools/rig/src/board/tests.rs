// SPDX-License-Identifier: GPL-2.0

use super::trouble::BEAT_LIMIT;
use super::*;
use proto::Level;

const SHORT: Duration = Duration::from_millis(50);

struct Bench {
    _logs: tempfile::TempDir,
    dut: Seat,
    far: Seat,
}

fn bench(stalls: bool) -> Bench {
    let logs = tempfile::tempdir().unwrap();
    let board = Board::new();
    let seat = |name| board.seat(name, stalls, logs.path(), &Expected::default());
    let (dut, far) = (seat("dut").unwrap(), seat("far").unwrap());
    Bench {
        _logs: logs,
        dut,
        far,
    }
}

fn wait(seat: &Seat) -> Result<()> {
    seat.wait("it".into(), SHORT, |_| None)
}

/// The heartbeat of a machine that was last heard so long ago.
fn last_heard(seat: &Seat, ago: Duration) {
    let then = Instant::now()
        .checked_sub(ago)
        .expect("this machine is up for longer");
    seat.post(|seat| seat.beat = Heart::Beating(then));
}

#[test]
fn a_wait_ends_when_it_is_done_or_over() {
    let bench = bench(false);
    let poster = bench.dut.clone();
    let thread = std::thread::spawn(move || poster.note(Note::KlogLost));
    let long = Duration::from_secs(20);
    let lost = bench
        .dut
        .wait("a note".into(), long, |seat| seat.klog_lost.then_some(7));
    assert_eq!(lost.unwrap(), 7);
    thread.join().unwrap();
    assert!(matches!(wait(&bench.dut), Err(Error::TimedOut { .. })));
}

#[test]
fn the_trouble_of_one_is_told_to_who_waits_for_the_other() {
    let bench = bench(false);
    bench.far.gone("QEMU ended".into());
    // What matters may still be coming in, so even then it is not told at once.
    let error = wait(&bench.dut).unwrap_err();
    assert!(
        matches!(&error, Error::MachineGone { machine, .. } if machine == "far"),
        "{error}"
    );
}

#[test]
fn a_fault_goes_before_the_end_that_it_caused() {
    let bench = bench(false);
    bench.dut.gone("QEMU ended".into());
    bench.dut.console("Kernel panic - not syncing: test");
    bench.dut.console("Call Trace:");
    let error = wait(&bench.far).unwrap_err();
    let Error::KernelFault { machine, tail, .. } = &error else {
        panic!("not a fault: {error}");
    };
    assert_eq!(machine, "dut");
    assert!(tail.contains("Call Trace"), "{tail}");
}

#[test]
fn silence_is_a_stall_only_where_there_are_stalls() {
    let hang = bench(false);
    last_heard(&hang.dut, BEAT_LIMIT * 2);
    assert!(matches!(wait(&hang.far), Err(Error::MachineHung { .. })));
    let stall = bench(true);
    last_heard(&stall.dut, BEAT_LIMIT * 2);
    assert!(wait(&stall.far).unwrap_err().is_rig_stall());
    last_heard(&stall.dut, BEAT_LIMIT / 2);
    assert!(matches!(wait(&stall.far), Err(Error::TimedOut { .. })));
}

#[test]
fn a_cpu_that_stops_in_boot_is_a_stall_only_where_there_are_stalls() {
    const STOPPED: &str = "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:";
    let fault_of = |stalls, line: &str, beats: bool| {
        let bench = bench(stalls);
        bench.dut.await_heart();
        if beats {
            last_heard(&bench.dut, Duration::ZERO);
        }
        bench.dut.console(line);
        wait(&bench.dut).unwrap_err()
    };
    let stall = |error: &Error| matches!(error, Error::RigStalled { .. });
    assert!(stall(&fault_of(true, STOPPED, false)));
    assert!(!stall(&fault_of(false, STOPPED, false)));
    // With a heart that beats, or another fault, it is the kernel's, always.
    assert!(!stall(&fault_of(true, STOPPED, true)));
    assert!(!stall(&fault_of(true, "BUG: unable to handle", false)));
}

#[test]
fn a_cpu_that_takes_no_nmi_is_stopped_by_the_emulation() {
    let end_of = |stalls, answer: &str, heard: Duration| {
        let bench = bench(stalls);
        last_heard(&bench.dut, heard);
        bench
            .dut
            .console("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:");
        bench
            .dut
            .console("rcu: \t1-...0: (1 GPs behind) idle=abcc/1/0x4000000000000000");
        bench.dut.console(answer);
        // The kernel waits for the answer, and so does the lab.
        bench
            .dut
            .post(|seat| seat.console.age(Duration::from_secs(14)));
        wait(&bench.far).unwrap_err()
    };
    let (nothing, answer) = (
        "Sending NMI from CPU 0 to CPUs 1:",
        "NMI backtrace for cpu 1",
    );
    let long = BEAT_LIMIT;
    assert!(end_of(true, nothing, long).is_rig_stall());
    for error in [
        end_of(true, answer, long),
        end_of(true, nothing, Duration::ZERO),
        end_of(false, nothing, long),
    ] {
        assert!(matches!(error, Error::KernelFault { .. }), "{error}");
    }
}

#[test]
fn heartbeats_are_waited_for() {
    let bench = bench(true);
    let heart = bench.dut.clone();
    let thread = std::thread::spawn(move || (0..3).for_each(|_| heart.beat()));
    thread.join().unwrap();
    let heart = bench.dut.clone();
    let thread = std::thread::spawn(move || {
        while heart.look(|seat| seat.beats) < 6 {
            heart.beat();
            std::thread::sleep(SHORT);
        }
    });
    bench.dut.wait_beats(3).unwrap();
    thread.join().unwrap();
    last_heard(&bench.dut, BEAT_LIMIT * 2);
    assert!(bench.dut.wait_beats(1).unwrap_err().is_rig_stall());
}

#[test]
fn a_wordless_reset_is_the_rigs_only_where_there_are_stalls() {
    let end_of = |stalls, exit, said: &str| {
        let bench = bench(stalls);
        last_heard(&bench.dut, Duration::ZERO);
        let job = bench.far.open_job();
        bench.far.carry(job, bench.dut.clone());
        let (stream, data) = (Stream::Err, said.as_bytes().to_vec());
        bench.far.note(Note::Output { job, stream, data });
        bench.far.note(Note::Exit { job, exit });
        wait(&bench.far).unwrap_err()
    };
    let reset = end_of(true, Exit::Code(0), "");
    assert!(matches!(reset, Error::RigReset { .. }) && reset.is_rig_stall());
    for (stalls, exit, said) in [
        (false, Exit::Code(0), ""),
        (true, Exit::Code(1), ""),
        (true, Exit::Signal(9), ""),
        (true, Exit::Code(0), "could not load the kernel"),
    ] {
        let error = end_of(stalls, exit, said);
        assert!(matches!(error, Error::MachineGone { .. }), "{error}");
    }
}

#[test]
fn a_reset_with_a_word_from_the_kernel_is_a_fault() {
    let bench = bench(true);
    bench.far.qemu_ended("exit status", true, "");
    bench.far.console("Kernel panic - not syncing: test");
    let error = wait(&bench.dut).unwrap_err();
    assert!(matches!(error, Error::KernelFault { .. }), "{error}");
}

#[test]
fn a_machine_that_leaves_may_end_but_not_stop() {
    let bench = bench(true);
    bench.dut.post(|seat| seat.leaving = true);
    last_heard(&bench.dut, BEAT_LIMIT * 2);
    assert!(wait(&bench.dut).unwrap_err().is_rig_stall());
    bench.dut.gone("QEMU ended".into());
    bench.dut.wait_gone("its end".into(), SHORT).unwrap();
}

#[test]
fn a_held_machine_is_not_missed() {
    let bench = bench(false);
    bench.dut.beat();
    bench.dut.hold_heart();
    // Sent before it was held, and read after.
    bench.dut.beat();
    assert!(matches!(bench.dut.look(|seat| seat.beat), Heart::Held));
    bench.dut.release_heart();
    bench.dut.beat();
    assert!(matches!(
        bench.dut.look(|seat| seat.beat),
        Heart::Beating(_)
    ));
}

#[test]
fn output_of_a_forgotten_job_is_dropped() {
    let bench = bench(false);
    let job = bench.dut.open_job();
    let output = |text: &str| Note::Output {
        job,
        stream: Stream::Out,
        data: text.into(),
    };
    bench.dut.note(output("one "));
    bench.dut.note(output("two"));
    assert_eq!(
        bench.dut.look(|seat| seat.jobs[&job].stdout.clone()),
        b"one two"
    );
    bench.dut.close_job(job);
    bench.dut.note(output("late"));
    bench.dut.note(Note::Exit {
        job,
        exit: Exit::Code(0),
    });
    assert!(bench.dut.look(|seat| seat.jobs.is_empty()));
}

#[test]
fn the_end_of_a_carrying_job_is_the_machines_end() {
    let bench = bench(true);
    let job = bench.far.open_job();
    bench.far.carry(job, bench.dut.clone());
    bench.far.note(Note::Exit {
        job,
        exit: Exit::Code(1),
    });
    assert!(
        matches!(wait(&bench.far), Err(Error::MachineGone { machine, .. }) if machine == "dut")
    );
}

#[test]
fn a_program_cannot_feign_a_fault_of_the_kernel() {
    let bench = bench(false);
    let record = |from_user| KlogRecord {
        level: Level(4),
        sequence: 1,
        micros: 1,
        text: "BUG: made up".into(),
        from_user,
    };
    bench.dut.note(Note::Klog(record(true)));
    assert!(matches!(wait(&bench.dut), Err(Error::TimedOut { .. })));
    bench.dut.note(Note::Klog(record(false)));
    assert!(matches!(wait(&bench.dut), Err(Error::KernelFault { .. })));
}
