# InnoDB without double writes: its pages of 16 KiB are torn or not, and its checksums see it.
#
#   mariadb.sh obstacle | make | load | stop | check   DIRECTORY
set -euo pipefail
what=$1 place=${2:-}
data=$place/data
readonly ROWS=20000
PATH=$PATH:/usr/sbin

ask() {
    mariadb --no-defaults --user=root --socket="$place/socket" --batch --skip-column-names "$@"
}

start() {
    mariadbd --no-defaults --user=root --datadir="$data" --socket="$place/socket" \
        --pid-file="$place/pid" --skip-networking --innodb-page-size=16k --innodb-doublewrite=0 \
        --innodb-flush-method=O_DIRECT --innodb-buffer-pool-size=6M --innodb-log-file-size=4M \
        --innodb-flush-log-at-trx-commit=1 --innodb-max-dirty-pages-pct=1 \
        --innodb-max-dirty-pages-pct-lwm=0.1 --innodb-io-capacity=2000 \
        >>"$place/log" 2>&1 </dev/null &
    for _ in $(seq 600); do
        ask -e 'select 1' >/dev/null 2>&1 && return
        kill -0 $! 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$place/log"
    exit 1
}

case $what in
obstacle)
    command -v mariadbd >/dev/null && command -v innochecksum >/dev/null &&
        command -v mariadb-install-db >/dev/null || echo "no MariaDB here"
    ;;
make)
    mariadb-install-db --no-defaults --user=root --datadir="$data" --skip-test-db \
        --auth-root-authentication-method=normal >"$place/log" 2>&1
    start
    ask -e "create database rig; use rig;
        create table pages (id int primary key, n int not null, pad varchar(300) not null, key (n)) engine=innodb;
        insert into pages select seq, 0, repeat('x', 200) from seq_1_to_$ROWS;"
    sync -f "$place"
    ;;
load)
    for client in 1 2 3 4; do
        while :; do
            id=$((RANDOM % ROWS + 1))
            echo "update pages set n = n + 1, pad = repeat(char(65 + $((RANDOM % 26))), 200 + $((RANDOM % 100))) where id = $id;"
        done | ask rig &
    done
    wait
    ;;
stop)
    kill -KILL "$(cat "$place/pid")"
    while kill -0 "$(cat "$place/pid")" 2>/dev/null; do sleep 0.05; done
    ;;
check)
    rm -f "$place/pid" "$place/socket"
    : >"$place/log"
    start
    found=$(ask rig -e 'check table pages extended')
    grep -q 'status.*OK' <<<"$found" || { echo "$found"; exit 1; }
    [ "$(ask rig -e 'select count(*) from pages')" = $ROWS ] || { echo "rows are missing"; exit 1; }
    ask -e shutdown
    while kill -0 "$(cat "$place/pid" 2>/dev/null)" 2>/dev/null; do sleep 0.05; done
    wait
    for file in "$data/rig/pages.ibd" "$data/ibdata1"; do innochecksum "$file"; done
    ;;
esac
