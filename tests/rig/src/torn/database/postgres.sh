# PostgreSQL without full-page writes: its pages of 8 KiB are torn or not, and its checksums see it.
#
#   postgres.sh obstacle | make | load | stop | check   DIRECTORY
set -euo pipefail
what=$1 place=${2:-}
programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
data=$place/data

as_postgres() {
    (cd / && setpriv --reuid=postgres --regid=postgres --clear-groups "$@")
}

start() {
    as_postgres "$programs/pg_ctl" -D "$data" -w -t 120 -l "$place/log" \
        -o "-k $place -c listen_addresses=" start >/dev/null ||
        { tail -n 20 "$place/log"; exit 1; }
}

ask() {
    as_postgres psql -h "$place" -X -v ON_ERROR_STOP=1 -Atqc "$1" postgres
}

case $what in
obstacle)
    [ -x "$programs/pg_amcheck" ] || echo "no PostgreSQL 14 or newer here"
    command -v pgbench >/dev/null || echo "no pgbench here"
    ;;
make)
    chown postgres "$place"
    as_postgres "$programs/initdb" -D "$data" --data-checksums --no-sync --auth=trust --wal-segsize=1 >/dev/null
    cat >>"$data/postgresql.conf" <<END
full_page_writes = off
shared_buffers = 4MB
min_wal_size = 2MB
max_wal_size = 16MB
checkpoint_timeout = 30s
bgwriter_delay = 10ms
autovacuum_naptime = 1s
END
    start
    as_postgres pgbench -h "$place" -i -s 2 -q postgres 2>/dev/null >/dev/null
    ask 'create extension amcheck'
    # What initdb made was not synced.
    sync -f "$place"
    ;;
load)
    # After each checkpoint pages are changed anew.
    while ask checkpoint; do sleep 0.3; done &
    as_postgres pgbench -h "$place" -n -c 4 -j 2 -T 3600 postgres
    ;;
stop)
    as_postgres "$programs/pg_ctl" -D "$data" -m immediate stop >/dev/null
    ;;
check)
    # The processes they name are of another life of the machine.
    rm -f "$data/postmaster.pid" "$place"/.s.PGSQL.*
    : >"$place/log"
    start
    sums=$(ask "select count(distinct sum) from (
        select sum(abalance) from pgbench_accounts union all select sum(bbalance) from pgbench_branches
        union all select sum(tbalance) from pgbench_tellers
        union all select coalesce(sum(delta), 0) from pgbench_history) as sums")
    [ "$sums" = 1 ] || { echo "accounts, branches, tellers and history do not agree"; exit 1; }
    as_postgres "$programs/pg_amcheck" -h "$place" --heapallindexed postgres
    as_postgres "$programs/pg_ctl" -D "$data" -m fast -w stop >/dev/null
    as_postgres "$programs/pg_checksums" --check -D "$data"
    ;;
esac
