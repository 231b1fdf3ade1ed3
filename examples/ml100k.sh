#!/bin/sh
# The files of MovieLens-100k: ml100k.sh FOLDER [DATA]. They come from DATA/ml100k if they are there (gzipped or not), else from the archive of
# GroupLens, which is fetched once. Its licence allows no copies, so nothing of it is in this repository. The files are checked, so that everybody
# gets the same digests from them.
set -eu
to=$1 from=${2:-}
url=https://files.grouplens.org/datasets/movielens/ml-100k.zip
archive=50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229 # sha256 of it

die() { echo "ml100k.sh: $*" >&2; exit 1; }
is() { [ "$(sha256sum <"$1" | cut -c1-64)" = "$2" ]; }
mkdir -p "$to"
trap 'rm -f "$to"/*.part "$to/part.zip"' EXIT

fetch() { # the archive, whole or not at all
    if command -v curl >/dev/null; then curl -fsSL --retry 2 --max-time 300 -o "$to/part.zip" "$url"; else wget -q -T 60 -t 2 -O "$to/part.zip" "$url"; fi
}
unpack() { # FILE of the archive, to stdout
    if command -v unzip >/dev/null; then unzip -p "$to/ml-100k.zip" "ml-100k/$1"; else
        python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read("ml-100k/" + sys.argv[2]))' "$to/ml-100k.zip" "$1"; fi
}
need_archive() {
    command -v unzip >/dev/null || command -v python3 >/dev/null || die "neither unzip nor python3 is there to unpack the archive: install unzip"
    if [ ! -e "$to/ml-100k.zip" ]; then
        fetch 2>"$to/fetch.err" || { rm -f "$to/part.zip"
            die "cannot fetch $url ($(tail -n 1 "$to/fetch.err")): without a network, fetch it elsewhere and put it into $to, or name a folder with its files: DATA=FOLDER with ml100k/u.data"; }
        rm -f "$to/fetch.err"
        is "$to/part.zip" $archive || die "$(wc -c <"$to/part.zip") bytes came from $url, which are not the archive that this was written for (sha256 $archive): a proxy may have answered in its place, or the site has another one"
        mv "$to/part.zip" "$to/ml-100k.zip"
    fi
    is "$to/ml-100k.zip" $archive || die "$to/ml-100k.zip is not the archive of $url that this was written for (sha256 $archive): remove it and try again"
}

# FILE SHA256
take() {
    [ -e "$to/$1" ] && is "$to/$1" "$2" && return
    if [ -e "$from/ml100k/$1" ]; then cat "$from/ml100k/$1"
    elif [ -e "$from/ml100k/$1.gz" ]; then gzip -dc "$from/ml100k/$1.gz"
    else need_archive; unpack "$1"; fi >"$to/$1.part"
    is "$to/$1.part" "$2" || die "$1 is not that of MovieLens-100k (sha256 $2)"
    mv "$to/$1.part" "$to/$1"
}
take u.data 06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490
take u.item 553841ebc7de3a0fd0d6b62a204ea30c1e651aacfb2814c7a6584ac52f2c5701
take u.user f120e114da2e8cf314fd28f99417c94ae9ddf1cb6db8ce0e4b5995d40e90e62c
