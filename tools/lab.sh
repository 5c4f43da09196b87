#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Builds the lab's command line, if need be, and becomes it. Runs inside of the
# lab root: tools/labroot.sh run tools/lab.sh COMMAND…
set -eu
cargo build --release --manifest-path tools/Cargo.toml -p lab
exec "$CARGO_TARGET_DIR/release/lab" "$@"
