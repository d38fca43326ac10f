#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rsync to the mount; the second run finds nothing to do, and one change moves one file.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need rsync
setup

source_tree "$SRC/tree"
rsync -aHAX --modify-window=-1 "$SRC/tree/" "$MNT/tree/"
same_tree "$SRC/tree" "$MNT/tree"
same "" "$(rsync -aHAX --itemize-changes "$SRC/tree/" "$MNT/tree/")" "what a second run moves"
remount
same "" "$(rsync -aHAX -c --itemize-changes "$SRC/tree/" "$MNT/tree/")" "what a run with -c moves"
echo more >>"$SRC/tree/LICENSE"
rm "$SRC/tree/dangling"
same 2 "$(rsync -a --delete --itemize-changes --omit-dir-times "$SRC/tree/" "$MNT/tree/" | wc -l)" \
    "lines for one change and one removal"
touch -r "$SRC/tree" "$MNT/tree"
same_tree "$SRC/tree" "$MNT/tree"
# In place, with delta transfer: reads and writes of one file in turn.
fsop write "$SRC/tree/shared/blob" 1500000 changed
rsync -a --inplace --no-whole-file "$SRC/tree/shared/blob" "$MNT/tree/shared/blob"
cmp "$SRC/tree/shared/blob" "$MNT/tree/shared/blob"
finish
