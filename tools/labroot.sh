#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The lab root: a Debian 13 system in the user's cache, in which the module, the
# tools and the virtual machines are built and run, so that a Debian 12 host and
# a Debian 13 host are the same machine to everything else in this project.
#
#   tools/labroot.sh make           make the root, unless the cache has it
#   tools/labroot.sh run CMD ARG…   run a command in it, from this checkout
#   tools/labroot.sh path           print where it stands
#
# Needs root: mmdebstrap, mount and chroot do. The command runs in a mount and a
# PID namespace of its own, so nothing stays mounted and no process stays behind.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd -P)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/virtio_vsock_rs

# What builds the module and the kernel: the versions that built Debian's own.
build_packages='rustc rust-src cargo rust-clippy rustfmt bindgen gcc-14 gcc
	clang-19 lld-19 llvm-19 libclang-19-dev make flex bison bc libelf-dev
	libssl-dev kmod python3 pahole cpio xz-utils zstd libc6-dev pkg-config
	liburing-dev'
# What runs the virtual machines, and what a guest image takes its parts from.
run_packages='virtiofsd busybox-static iproute2 ca-certificates procps
	util-linux mount udev socat openssh-server openssh-client ncat tcpdump'
# QEMU comes from backports: with 10.0, a nested rig's outer guest stalls.
backports_packages='qemu-system-x86'

die() { echo "labroot: $*" >&2; exit 1; }

key=$(printf '%s ' "$build_packages $run_packages $backports_packages" v1 | sha256sum | cut -c1-12)
root=$cache/root-$key

# The Debian mirror that this machine's own apt uses; no host is named here.
mirror() {
	# shellcheck disable=SC2016 # the dollars are apt's
	apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(CODENAME)' |
		awk '$2 == "Debian" && $3 !~ /-/ { print $1; exit }'
}

make_root() {
	[ -e "$root/.complete" ] && return
	[ "$(id -u)" = 0 ] || die "must be root, to make and enter a Debian root"
	mkdir -p "$cache"
	exec 9>"$cache/.root-lock"
	flock 9
	[ -e "$root/.complete" ] && return
	if ! command -v mmdebstrap >/dev/null || ! command -v unshare >/dev/null; then
		echo "labroot: installing mmdebstrap with apt-get" >&2
		{ apt-get update && apt-get install -y --no-install-recommends mmdebstrap util-linux; } >&2 ||
			die "could not install mmdebstrap; install it and run this again"
	fi
	uri=$(mirror)
	[ -n "$uri" ] || { apt-get update >&2; uri=$(mirror); }
	[ -n "$uri" ] || die "apt has no Debian archive in its sources; add one and run 'apt-get update'"
	echo "labroot: making the Debian 13 root (about 90 s) in $root" >&2
	rm -rf "$root.part"
	packages=$(echo $build_packages $run_packages | tr ' ' ',')
	mmdebstrap --variant=minbase --include="$packages" \
		--aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Retries "3"' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--customize-hook='chroot "$1" apt-get install -y --no-install-recommends -t trixie-backports '"$backports_packages" \
		trixie "$root.part" \
		"deb $uri trixie main" "deb $uri trixie-updates main" "deb $uri trixie-backports main" \
		>"$cache/root.log" 2>&1 ||
		{ tail -n 20 "$cache/root.log" >&2; die "making the root failed; the whole log is $cache/root.log"; }
	touch "$root.part/.complete"
	mv "$root.part" "$root"
	echo "labroot: done" >&2
}

# EXTRA=NAME:FOLDER[,NAME:FOLDER…] names sets of modules for the bench, which may
# lie anywhere: each is shown in the root as /lab/extra/NAME, and named so.
bind_extra() {
	inside=
	for item in $(echo "${EXTRA:-}" | tr , ' '); do
		name=${item%%:*} folder=${item#*:}
		case $item in
		*/*:* | :*) die "EXTRA: '$item' has no plain name; give NAME:FOLDER" ;;
		*:*) ;;
		*) die "EXTRA: '$item' names no folder; give NAME:FOLDER" ;;
		esac
		[ -d "$folder" ] || die "EXTRA: $folder is not a folder"
		mkdir -p "$root/lab/extra/$name"
		mount --bind "$folder" "$root/lab/extra/$name"
		inside=${inside:+$inside,}$name:/lab/extra/$name
	done
	EXTRA=$inside
}

# Runs inside the new namespaces: lay the mounts, then become the command.
enter() {
	# The root itself, without what is mounted on it below: a host VM's root.
	mkdir -p "$root/lab/root" "$root/lab/cache" "$root$top"
	mount --bind "$root" "$root/lab/root"
	mount -t proc proc "$root/proc"
	mount --rbind /sys "$root/sys"
	mount --rbind /dev "$root/dev"
	mount -t tmpfs -o mode=1777 tmp "$root/tmp"
	mount -t tmpfs -o mode=755 run "$root/run"
	mkdir -p "$root$top"
	mount --bind "$top" "$root$top"
	mount --bind "$cache" "$root/lab/cache"
	for f in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
		[ -e "$f" ] && [ -e "$root$f" ] && mount --bind "$(readlink -f "$f")" "$root$f"
	done
	bind_extra
	cd /
	exec chroot "$root" /usr/bin/env -i -C "$top" \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" LAB_CACHE=/lab/cache \
		CARGO_HOME=/lab/cache/cargo CARGO_TARGET_DIR=/lab/cache/target \
		CARGO_HTTP_CAINFO=/etc/ssl/certs/ca-certificates.crt \
		${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
		${CI:+CI="$CI"} ${RIG:+RIG="$RIG"} ${KERNEL:+KERNEL="$KERNEL"} \
		${QUICK:+QUICK="$QUICK"} ${ROUNDS:+ROUNDS="$ROUNDS"} ${EXTRA:+EXTRA="$EXTRA"} \
		${SECONDS:+SECONDS="$SECONDS"} ${SEED:+SEED="$SEED"} ${NO_COLOR:+NO_COLOR="$NO_COLOR"} \
		"$@"
}

case ${1:-} in
make) make_root ;;
path) echo "$root" ;;
run)
	shift
	make_root
	exec unshare --mount --propagation private --pid --fork --kill-child -- "$0" .enter "$@"
	;;
.enter) shift; enter "$@" ;;
*) die "usage: tools/labroot.sh make | run CMD ARG… | path" ;;
esac
