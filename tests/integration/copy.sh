#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cp -a of a source tree gives the same tree, at once and after a remount, and back again.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup

source_tree "$SRC/tree"
cp -a "$SRC/tree" "$MNT/"
same_tree "$SRC/tree" "$MNT/tree"
remount
same_tree "$SRC/tree" "$MNT/tree"
cp -a "$MNT/tree" "$SRC/back"
same_tree "$SRC/tree" "$SRC/back"
cp -a "$MNT/tree" "$MNT/twin"
same_tree "$MNT/tree" "$MNT/twin"
rm -rf "$MNT/tree" "$MNT/twin"
same "" "$(ls -A "$MNT")" "what rm -rf left"
finish
