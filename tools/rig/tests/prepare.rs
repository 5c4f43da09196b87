// SPDX-License-Identifier: GPL-2.0

//! Prepares a kernel in an empty cache, as on a new machine.
//!
//! Fetches 200 MB and builds for minutes, so it runs only when asked for, in the lab root:
//! `tools/labroot.sh run cargo test --manifest-path tools/Cargo.toml -p rig --test prepare -- --ignored`

use rig::{Cache, Kernel, Progress};
use std::time::Instant;

#[test]
#[ignore = "fetches and builds for minutes"]
fn a_kernel_is_prepared_from_nothing() {
    let folder = Cache::open()
        .unwrap()
        .entry(&format!("test-{}", std::process::id()));
    let cache = Cache::at(folder.clone()).unwrap();
    let progress = Progress::new();
    let kernel = Kernel::prepare(&cache, &progress).unwrap();
    let stated = kernel.source().join("include/config/kernel.release");
    assert_eq!(
        std::fs::read_to_string(stated).unwrap().trim(),
        kernel.release()
    );
    assert!(
        kernel
            .source()
            .join("Module.symvers")
            .metadata()
            .unwrap()
            .len()
            > 0
    );
    assert!(kernel.source().join("rust/libkernel.rmeta").is_file());
    assert!(kernel.image().is_file());
    assert!(kernel.modules().join("modules.dep").is_file());
    for program in kernel.tests().all() {
        assert!(program.is_file(), "{} is missing", program.display());
    }
    // The second time, it is there.
    let started = Instant::now();
    let again = Kernel::prepare(&cache, &progress).unwrap();
    assert_eq!(again.release(), kernel.release());
    assert!(started.elapsed().as_secs() < 2);
    std::fs::remove_dir_all(folder).unwrap();
}
