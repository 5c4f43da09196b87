// SPDX-License-Identifier: GPL-2.0

//! Tells from a line of a kernel's log whether something is badly wrong.

use crate::choose::Accelerator;
use crate::error::{Error, Result};
use regex::{Regex, RegexSet};
use std::sync::LazyLock;

/// How kernels announce that they, or something in them, is broken.
static FAULTS: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new([
        r"Kernel panic - not syncing",
        r"\bOops(: |\[)",
        r"\bBUG: ",
        r"\bkernel BUG at ",
        r"\bWARNING: .*(CPU[:#]|possible |suspicious |inconsistent |still |held )",
        r"general protection fault",
        r"unable to handle (kernel|page fault)",
        r"(double|stack segment) fault",
        r"\brefcount_t: ",
        r"list_(add|del) corruption",
        r"\bUBSAN: ",
        r"\bODEBUG: ",
        r"\bDMA-API: .*(device driver|cacheline|exceeded)",
        r"\bCFI failure\b",
        r"\bDEBUG_LOCKS_WARN_ON\b",
        r"\bWARNING: (bad unlock|lock held|Nested lock|nested lock|unbalanced)",
        r"\bkmemleak: [1-9]\d* new suspected memory leaks",
        r"\bunreferenced object 0x",
        // KUnit counts what it has run; a list that fails is told after the tests in it.
        r"(^|[]:] )\s*not ok \d+ ",
        r"INFO: task .* blocked .*for more than",
        r"\brcu: INFO: .*(stall|detected)",
        r"\brcu: .*kthread starved",
        r"unregister_netdevice: waiting for",
        r"(Out of memory: Killed|invoked oom-killer)",
    ])
    .expect("the patterns are constant and valid")
});

/// Kernel messages that are no cause for alarm, as regular expressions.
#[derive(Clone, Debug)]
pub struct Expected(RegexSet);

impl Default for Expected {
    fn default() -> Self {
        Expected(RegexSet::empty())
    }
}

impl Expected {
    /// Messages that match one of `patterns`.
    pub fn new<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<Self> {
        let set = RegexSet::new(patterns);
        set.map(Expected)
            .map_err(|error| Error::Setup(format!("not a regular expression: {error}")))
    }

    /// These and those of `other`.
    pub fn and(&self, other: &Expected) -> Self {
        let patterns = self.0.patterns().iter().chain(other.0.patterns());
        Expected(RegexSet::new(patterns).expect("each was valid alone"))
    }

    /// What every kernel says that loads a module which its distribution did not sign.
    pub fn out_of_tree_module() -> Self {
        let patterns = [
            r"loading out-of-tree module taints kernel",
            r"module verification failed: signature and/or required key missing",
        ];
        Expected(RegexSet::new(patterns).expect("the patterns are constant and valid"))
    }

    /// Whatever a kernel says.
    pub(crate) fn anything() -> Self {
        Expected(RegexSet::new([""]).expect("the pattern is constant and valid"))
    }

    /// What kernels say now and then because they are emulated, slowly and by fits and starts.
    pub(crate) fn noise_of(accelerator: Accelerator) -> Self {
        let patterns: &[&str] = match accelerator {
            Accelerator::Kvm => &[],
            Accelerator::Tcg => &[
                r"^hpet: Lost \d+ RTC interrupts",
                r"^hrtimer: interrupt took",
                r"^clocksource: ",
                r"^perf: interrupt took too long",
                r"^sched: (RT|DL) ",
                r"^workqueue: .* hogged CPU for",
                r"^kvm \[\d+\]: .*[Uu]nhandled (RD|WR)MSR",
            ],
        };
        Expected(RegexSet::new(patterns).expect("the patterns are constant and valid"))
    }

    /// Whether `text` is one of them.
    pub fn covers(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// Whether a fault's line says that a CPU does not run any more.
pub(crate) fn is_stopped_cpu(line: &str) -> bool {
    line.contains("rcu: INFO: ") && (line.contains("stall") || line.contains("detected"))
}

/// A CPU that holds up RCU, as another CPU says in `lines`, if it was asked to show where it is and has
/// not done so. Asked are those that are listed, and the one on which RCU's own thread would have to run.
/// (`print_other_cpu_stall()` and `rcu_check_gp_kthread_starvation()` in kernel/rcu/tree_stall.h, and what
/// `dump_cpu_task()` has the CPU say.)
pub(crate) fn unanswered<'a>(lines: impl Iterator<Item = &'a str>) -> Option<u32> {
    static ACCUSED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\brcu:\s+(\d+)-\S+: \(|\bkthread starved for .*->cpu=(\d+)")
            .expect("the pattern is constant and valid")
    });
    static ANSWERED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"NMI backtrace for cpu (\d+)").expect("the pattern is constant and valid")
    });
    let number = |found: regex::Captures<'_>| -> Option<u32> {
        let cpu = found.iter().skip(1).flatten().next()?;
        cpu.as_str().parse().ok()
    };
    let (mut accused, mut answered) = (Vec::new(), Vec::new());
    let mut by_another = false;
    for line in lines {
        by_another |= line.contains("detected stalls on CPUs/tasks");
        accused.extend(ACCUSED.captures(line).and_then(number));
        answered.extend(ANSWERED.captures(line).and_then(number));
    }
    let silent = accused.into_iter().find(|cpu| !answered.contains(cpu));
    silent.filter(|_| by_another)
}

/// Whether a line of the kernel's log tells of a fault that nobody expected.
pub(crate) fn is_fault(line: &str, expected: &Expected) -> bool {
    FAULTS.is_match(line) && !expected.covers(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_recognised() {
        for line in [
            "[   12.1] Kernel panic - not syncing: Fatal exception",
            "[   12.1] Oops: Oops: 0002 [#1] SMP NOPTI",
            "BUG: kernel NULL pointer dereference, address: 0000000000000008",
            "kernel BUG at net/vmw_vsock/virtio_transport.c:100!",
            "WARNING: CPU: 1 PID: 77 at kernel/softirq.c:389 __local_bh_enable_ip+0x5d/0x70",
            "WARNING: net/core/skbuff.c:7200 at skb_x+0x1/0x2, CPU#0: insmod/88",
            "WARNING: possible circular locking dependency detected",
            "INFO: task rmmod:81 blocked for more than 30 seconds.",
            "rcu: INFO: rcu_preempt self-detected stall on CPU",
            "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [kworker/1:1:33]",
            "refcount_t: underflow; use-after-free.",
            "Oops: general protection fault, probably for non-canonical address",
            "BUG: KASAN: slab-use-after-free in rx_work+0x1/0x2",
            "BUG: KCSAN: data-race in a / b",
            "[ BUG: Invalid wait context ]",
            "BUG: sleeping function called from invalid context at mm/slub.c:1",
            "WARNING: possible recursive locking detected",
            "WARNING: suspicious RCU usage",
            "WARNING: inconsistent lock state",
            "WARNING: bad unlock balance detected!",
            "DEBUG_LOCKS_WARN_ON(lock->magic != lock)",
            "UBSAN: array-index-out-of-bounds in net/x.c:1:2",
            "ODEBUG: free active (active state 0) object: 0x1 object type: work_struct",
            "DMA-API: virtio-pci 0000:00:03.0: device driver frees DMA memory with wrong function",
            "CFI failure at x+0x1/0x2 [virtio_vsock_rs] (target: y; expected type: 0x1)",
            "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
            "unreferenced object 0xffff888004a1b2c0 (size 64):",
            "    not ok 2 every_reason_to_end_is_found",
            "[   12.345678] info:     not ok 1 virtio_vsock_rs_batch",
            "[   12.345678][  T123] not ok 1 virtio_vsock_rs_batch",
        ] {
            assert!(is_fault(line, &Expected::default()), "{line}");
        }
    }

    #[test]
    fn ordinary_lines_are_not() {
        for line in [
            "virtio_vsock_rs: loading out-of-tree module taints kernel.",
            "Spectre V2 : Mitigation: Retpolines",
            "rcu: Preemptible hierarchical RCU implementation.",
            "rcu: RCU restricting CPUs from NR_CPUS=8192 to nr_cpu_ids=2.",
            "debug: no fault here",
            "    ok 2 every_reason_to_end_is_found",
            "ok 1 virtio_vsock_rs_batch",
            "kmemleak: Kernel memory leak detector initialized (mem pool available: 37000)",
            "DMA-API: preallocated 65536 debug entries",
            "the device is not ok 2 times",
        ] {
            assert!(!is_fault(line, &Expected::default()), "{line}");
        }
    }

    #[test]
    fn a_cpu_that_shows_where_it_is_has_answered() {
        let report = [
            "[   30.830702] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "[   30.874381] rcu: \t1-...0: (1 GPs behind) idle=abcc/1/0x4000000000000000 softirq=741/742",
            "[   30.919326] rcu: \t(detected by 0, t=5252 jiffies, g=441, q=8 ncpus=2)",
            "[   30.919400] Sending NMI from CPU 0 to CPUs 1:",
        ];
        let with = |line| unanswered(report.into_iter().chain([line]));
        assert_eq!(unanswered(report.into_iter()), Some(1));
        assert_eq!(with("NMI backtrace for cpu 0"), Some(1));
        assert_eq!(with("NMI backtrace for cpu 1"), None);
        assert_eq!(with("NMI backtrace for cpu 1 skipped: idling at x"), None);
        // Nobody is listed, and RCU's own thread is not run.
        let starved = [
            report[0],
            "[   31.157020] rcu: \t(detected by 0, t=5252 jiffies, g=397, q=58 ncpus=2)",
            "[   31.413163] rcu: rcu_preempt kthread starved for 5252 jiffies! g397 f0x2 \
             RCU_GP_WAIT_FQS(5) ->state=R ->cpu=1",
            "[   31.588196] rcu: Stack dump where RCU GP kthread last ran:",
        ];
        let with = |line| unanswered(starved.into_iter().chain([line]));
        assert_eq!(unanswered(starved.into_iter()), Some(1));
        assert_eq!(with("NMI backtrace for cpu 0"), Some(1));
        assert_eq!(with("NMI backtrace for cpu 1"), None);
        // A CPU that says it of itself, or a task that is not on any.
        let itself = report[0].replace(
            "detected stalls on CPUs/tasks",
            "self-detected stall on CPU",
        );
        assert_eq!(unanswered([itself.as_str(), report[1]].into_iter()), None);
        let task = "rcu: \tTasks blocked on level-0 rcu_node (CPUs 0-1): P77/1:b..l";
        assert_eq!(unanswered([report[0], task].into_iter()), None);
    }

    #[test]
    fn what_is_expected_is_no_fault() {
        let expected = Expected::new([r"task vsock_peer:\d+ blocked"]).unwrap();
        let line = "INFO: task vsock_peer:81 blocked for more than 30 seconds.";
        assert!(!is_fault(line, &expected));
        assert!(!is_fault(
            line,
            &Expected::out_of_tree_module().and(&expected)
        ));
        assert!(is_fault(
            "INFO: task rmmod:81 blocked for more than 30 seconds.",
            &expected
        ));
        assert!(Expected::new(["("]).is_err());
    }
}
