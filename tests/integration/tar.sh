#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tar archives to and from the mount, and compares.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need tar
setup

source_tree "$SRC/tree"
tar -C "$SRC" --format=posix -cf "$MNT/tree.tar" tree
tar -C "$MNT" -xpf "$MNT/tree.tar"
tar -C "$MNT" --compare -f "$MNT/tree.tar"
same_tree "$SRC/tree" "$MNT/tree"
tar -C "$MNT" -czf "$MNT/tree.tar.gz" tree
remount
tar -C "$SRC" --compare -f "$MNT/tree.tar"
tar -C "$SRC" --compare -zf "$MNT/tree.tar.gz"
# Over itself: every file is replaced.
tar -C "$MNT" -xpf "$MNT/tree.tar"
same_tree "$SRC/tree" "$MNT/tree"
finish
