#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: sqlite.sh delete|wal
# A SQLite database on the mount, in this journal mode: writers and readers side by side, and it is
# whole afterwards.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need sqlite3
setup

mode=$1
db=$MNT/test.db

sql() {
    sqlite3 -bail -cmd '.timeout 20000' "$db" "$@"
}

same "$mode" "$(sql "PRAGMA journal_mode=$mode;")" "journal mode"
sql 'CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT); CREATE INDEX t_a ON t (a);'

# rows FIRST COUNT: in transactions of 50
rows() {
    local i
    for ((i = 0; i < $2; i++)); do
        ((i % 50 != 0)) || echo 'BEGIN IMMEDIATE;'
        echo "INSERT INTO t VALUES ($(($1 + i)), $((i * 7919 % 1000)), hex(randomblob(60)));"
        ((i % 50 != 49)) || echo 'COMMIT;'
    done | sql
}

rows 0 2000 &
one=$!
rows 100000 2000 &
other=$!
while alive "$one" || alive "$other"; do
    sql 'SELECT count(*), sum(a) FROM t;' >"$WORK/count"
done
wait "$one"
wait "$other"
same 4000 "$(sql 'SELECT count(*) FROM t;')" rows
sql 'UPDATE t SET a = a + 1 WHERE id % 3 = 0; DELETE FROM t WHERE id % 5 = 0;'
sql 'BEGIN; DELETE FROM t; ROLLBACK;'
same ok "$(sql 'PRAGMA integrity_check;')" integrity
sum=$(sql 'SELECT count(*), sum(a), sum(length(b)) FROM t;')
remount
same "$mode" "$(sql 'PRAGMA journal_mode;')" "journal mode after a remount"
same "$sum" "$(sql 'SELECT count(*), sum(a), sum(length(b)) FROM t;')" "sums after a remount"
sql 'VACUUM;'
same ok "$(sql 'PRAGMA integrity_check;')" "integrity after a remount and VACUUM"
finish
