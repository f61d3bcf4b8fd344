#!/usr/bin/env bash
# Draws docs/pictures/top.svg: a real `forebay top` of a served disk under some seconds of load.
#
#   scripts/top-picture.sh [FILE]
#
# Needs fio with its engine nbd, but no root. Leaves no file, socket or process behind.
# Environment: FOREBAY  the command (default target/release/forebay)
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8

picture=${1:-docs/pictures/top.svg}
forebay=${FOREBAY:-target/release/forebay}
[ -x "$forebay" ] || {
    echo "top-picture: no $forebay; run 'make build' first" >&2
    exit 1
}
fio --enghelp 2>/dev/null | grep -qw nbd || {
    echo "top-picture: needs fio with its engine nbd (scripts/setup.sh run)" >&2
    exit 1
}

# Short, because top shortens long addresses.
work=$(mktemp -d /tmp/fb.XXXX)
folder=$(mktemp -d /dev/shm/forebay-top.XXXXXX)
daemon="" load=""
clean_up() {
    [ -z "$load" ] || kill "$load" 2>/dev/null || true
    [ -z "$daemon" ] || { kill "$daemon" 2>/dev/null && wait "$daemon"; } || true
    rm -rf "$work" "$folder"
}
trap clean_up EXIT

truncate -s 1G "$work/disk.img"
truncate -s 256M "$work/second.img"
"$forebay" create "$folder/pool" --size 96M >/dev/null
cat >"$work/forebay.toml" <<END
pool = ["$folder/pool"]
nbd = ["unix:$work/nbd"]
[[volume]]
name = "disk"
backing = "$work/disk.img"
[[volume]]
name = "second"
backing = "$work/second.img"
END
"$forebay" serve --config "$work/forebay.toml" >"$work/log" 2>&1 &
daemon=$!
until grep -q '^ready' "$work/log"; do
    kill -0 "$daemon" 2>/dev/null || {
        cat "$work/log" >&2
        exit 1
    }
    sleep 0.1
done

# Popular blocks are read and overwritten, as a database does.
fio --name=load --ioengine=nbd --uri="nbd+unix:///disk?socket=$work/nbd" \
    --rw=randrw --rwmixread=60 --bs=4k --iodepth=4 --size=512M --random_distribution=zipf:1.1 \
    --time_based --runtime=30 >/dev/null 2>&1 &
load=$!
sleep 10
# Names of this run mean nothing to a reader; the new ones are as long where columns follow.
"$forebay" top "$folder/pool" --once --interval 2 |
    sed -e "s|$folder/pool|/dev/shm/forebay/pool|" -e "s|$work/nbd|/run/forebay/nbd|" >"$work/screen"
kill "$load" 2>/dev/null || true
wait "$load" 2>/dev/null || true
load=""

# Every character has a cell of its own, so that no font moves a column.
awk '
function escaped(text) {
    gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text)
    return text
}
# Some awks count bytes; these are the characters of top that have several.
function cells(text) {
    gsub(/µ|…/, "u", text)
    return length(text)
}
function put(column, text, class) {
    if (text !~ /[^ ]/) return
    printf "<text x=\"%.1f\" y=\"%d\" textLength=\"%.1f\" xml:space=\"preserve\"%s>%s</text>\n", \
        left + column * cell, top + row * line_height, cells(text) * cell, \
        class == "" ? "" : " class=\"" class "\"", escaped(text)
}
BEGIN { cell = 8.4; line_height = 18; left = 18; top = 40 }
{ lines[NR] = $0; sub(/ +$/, "", lines[NR]) }
END {
    rows = NR
    while (rows > 0 && lines[rows] == "") rows--
    width = int(80 * cell + 2 * left); height = top + rows * line_height + 18
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n", width, height, width, height
    print "<title>forebay top: a served disk under load</title>"
    print "<style>"
    print ".page{fill:#fbfcfd;stroke:#c9d1d9}.bar{fill:#e7ebf0}.dot{fill:#b7bfc9}"
    print "text{font:14px ui-monospace,\"DejaVu Sans Mono\",Menlo,Consolas,monospace;fill:#1f2730}"
    print ".label{fill:#0b6e8f}.level{fill:#1a7f37}.strong{font-weight:bold}"
    print "@media (prefers-color-scheme:dark){.page{fill:#11161d;stroke:#30363d}.bar{fill:#1b222c}.dot{fill:#4a535f}"
    print "text{fill:#d7dee6}.label{fill:#5cc8e8}.level{fill:#5fd07c}}"
    print "</style>"
    printf "<rect class=\"page\" x=\".5\" y=\".5\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", width - 1, height - 1
    printf "<path class=\"bar\" d=\"M1 30V8.500a7.500 7.500 0 0 1 7.500-7.500H%.1fa7.500 7.500 0 0 1 7.500 7.500V30z\"/>\n", width - 8.5
    for (dot = 0; dot < 3; dot++) printf "<circle class=\"dot\" cx=\"%d\" cy=\"15\" r=\"5\"/>\n", 20 + dot * 18
    for (row = 1; row <= rows; row++) {
        line = lines[row]
        if (row == 1) { put(0, line, "strong"); continue }
        if (match(line, /^[a-z]+( ends)?/)) {
            put(0, substr(line, 1, RLENGTH), "label")
            rest = substr(line, RLENGTH + 1); column = RLENGTH
        } else { rest = line; column = 0 }
        # The filled part of a level.
        if (match(rest, /\[=+/)) {
            put(column, substr(rest, 1, RSTART), "")
            put(column + RSTART, substr(rest, RSTART + 1, RLENGTH - 1), "level")
            column += RSTART + RLENGTH - 1
            rest = substr(rest, RSTART + RLENGTH)
        }
        match(rest, /^ */)
        put(column + RLENGTH, substr(rest, RLENGTH + 1), "")
    }
    print "</svg>"
}' "$work/screen" >"$work/picture.svg"
mkdir -p "$(dirname "$picture")"
cp "$work/picture.svg" "$picture"
echo "top-picture: drew $picture"
