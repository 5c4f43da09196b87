// SPDX-License-Identifier: GPL-2.0
//! Compiles the BPF program, which is in C, as the kernel's own are.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

const SOURCE: &str = "src/verdict.bpf.c";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang-19".into());
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    let machine = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let compiled = Command::new(&clang)
        .args(["-target", "bpf", "-O2", "-g", "-Wall", "-Werror", "-c"])
        // A compiler for BPF does not look where Debian has <asm/types.h>.
        .arg(format!("-idirafter/usr/include/{machine}-linux-gnu"))
        .args([SOURCE, "-o"])
        .arg(Path::new(&folder).join("verdict.o"))
        .status();
    match compiled {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            eprintln!("{clang} failed ({status}); its messages are above");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("cannot run {clang}: {error}; install it, or name another one by CLANG=");
            ExitCode::FAILURE
        }
    }
}
