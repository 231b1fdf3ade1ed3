#!/bin/sh
# Programs as they are packed: hardened, without the folder of the build, one program for all tools; the wheel and the image of it.
# `make release-check` does the rest: Debian packages, two whole builds, bare roots.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'packages are made of the plain build'
cd "$CTR_TOP" || exit 1
programs=$(ls "$CTR_BUILD"/bin/* "$CTR_BUILD/single/ctrkit" "$CTR_BUILD/static/ctrkit")

# ---- hardening
if command -v readelf >/dev/null; then
    hardened() { # hardened PROGRAM: says what it lacks
        readelf -hldsW "$1" >"$W/elf" || return
        grep -q 'Type:.*DYN' "$W/elf" || echo "not position-independent"
        grep -q 'GNU_RELRO' "$W/elf" || echo "no RELRO"
        grep -qE 'BIND_NOW|FLAGS_1.*NOW' "$W/elf" || ! grep -q NEEDED "$W/elf" || echo "not bound at the start"
        grep 'GNU_STACK' "$W/elf" | grep -q 'RW ' || echo "executable stack"
        grep -q '__stack_chk_fail' "$W/elf" || echo "no stack protector"
        grep -q '__snprintf_chk' "$W/elf" || echo "no _FORTIFY_SOURCE"
    }
    for p in $programs; do is "${p#"$CTR_BUILD/"} is hardened" "$(hardened "$p")" ''; done
    printf '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' >"$W/soft.c"
    ok 'a program without' cc -no-pie -fno-stack-protector -Wl,-z,norelro,-z,lazy -o "$W/soft" "$W/soft.c"
    is 'is found' "$(hardened "$W/soft" | wc -l)" 5
    case $(uname -m) in x86_64)
        ok 'targets of jumps are marked' sh -c "readelf -nW '$CTR_BUILD/libctr.a' | grep -q 'IBT, SHSTK'" ;;
    esac
else
    skip 'programs are hardened' 'no readelf: install binutils'
fi

# ---- the folder of the build
found() { grep -cF "$1" "$2"; }
for p in $programs; do is "${p#"$CTR_BUILD/"} does not name the folder it was built in" "$(found "$CTR_TOP" "$p")" 0; done
locale=C
for at in one two/deeper; do
    mkdir -p "$W/$at"
    cp -r Makefile src man tests "$W/$at"
    LC_ALL=$locale make -s -C "$W/$at" B=build/x NVCC= build/x/src/tools/ctr-cat.o build/x/src/tools/ctrkit.o build/x/src/common/op/op_text.o >/dev/null 2>&1
    locale=C.UTF-8
done
for o in tools/ctr-cat tools/ctrkit common/op/op_text; do
    ok "$o.o is the same from two folders" cmp "$W/one/build/x/src/$o.o" "$W/two/deeper/build/x/src/$o.o"
done

# ---- one program for all
S=$CTR_BUILD/single
is 'links by all names' "$(cd "$S" && find . -type l | sed 's,^./,,' | sort)" "$(cd "$CTR_BUILD/bin" && ls | grep -v '^ctrkit$')"
is 'a name chooses' "$("$S/ctr-join" --version)" "$(ctr-join --version)"
is 'so does the first word' "$("$S/ctrkit" join --version)" "$(ctr-join --version)"
is 'behind options' "$("$S/ctrkit" -q join --version)" "$(ctr-join --version)"
is 'it lists the tools' "$("$S/ctrkit" --list)" "$(ctrkit --list)"
is 'completes them' "$("$S/ctrkit" --completion bash)" "$(ctrkit --completion bash)"
is 'and opens manuals' "$("$S/ctrkit" help eval | head -n 3)" "$(ctrkit help eval | head -n 3)"
ln -s "$S/ctrkit" "$W/ctr-info" && cp "$S/ctrkit" "$W/anything"
is 'by a link anywhere' "$("$W/ctr-info" --version)" "$(ctr-info --version)"
is 'another name is ctrkit' "$("$W/anything" --version)" "$(ctrkit --version)"
exits 'no such tool' 2 "$S/ctrkit" trian
err_like 'names the nearest' "^ctrkit: there is no tool 'trian'; the nearest is 'train'"
exits 'no tool of that name' 2 "$S/ctrkit" cat --no-such-option
err_like 'messages have the name of the tool' "^ctr-cat: "
ctr-synth -q -o "$W/world" --rows 3000 --seed 1
pipeline() {
    "$1/ctr-import" -q -f tsv --header --time time "$W/world/impressions.tsv" | "$1/ctr-join" -q -k impression_id "$2" |
        "$1/ctr-select" --columns impression_id,time,click_time,position | "$1/ctr-info" --digest
}
ctr-import -q -f tsv --header --time click_time "$W/world/clicks.tsv" | ctr-select --columns impression_id,click_time -o "$W/clicks.arrows"
digest=$(pipeline "$CTR_BUILD/bin" "$W/clicks.arrows")
is 'a pipeline of it' "$(pipeline "$S" "$W/clicks.arrows")" "$digest"
is 'and of the one with all libraries' "$(pipeline "$CTR_BUILD/static" "$W/clicks.arrows")" "$digest"
if command -v readelf >/dev/null; then
    is 'which needs no library' "$(readelf -dlW "$CTR_BUILD/static/ctrkit" | grep -E 'NEEDED|INTERP')" ''
fi
exits 'and opens none' 1 "$CTR_BUILD/static/ctr-train" lr --minibatch 10 --device gpu -q -o "$W/none" "$W/clicks.arrows"
err_like 'which it says' 'this program is static'

# ---- the wheel
python=$(command -v python3) || { skip 'the wheel' 'no python3'; done_testing; exit 0; }
version=$(ctrkit --version | cut -d' ' -f2)
packed() { # packed WHAT: made in a copy, so that build/dist is left alone
    mkdir -p "$W/tree/build" && cp -r .ci Makefile LICENSE README.md src "$W/tree/" && (cd "$W/tree" && B=$CTR_BUILD VERSION=$version SOURCE_DATE_EPOCH=1700000000 PYTHONDONTWRITEBYTECODE=1 .ci/package/"$1")
}
ok 'a wheel' packed wheel
cat "$W/.ok" | sed 's/^/# /'
wheel=$(ls "$W"/tree/build/dist/*.whl)
cp "$wheel" "$W/first.whl"
ok 'again' packed wheel
ok 'is the same, byte for byte' cmp "$wheel" "$W/first.whl"
cat >"$W/wheel.py" <<'END'
import base64, csv, hashlib, io, os, sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
record = [n for n in z.namelist() if n.endswith("/RECORD")][0]
rows = list(csv.reader(io.StringIO(z.read(record).decode())))
assert sorted(r[0] for r in rows) == sorted(z.namelist()), "names"
for name, digest, size in rows:
    data = z.read(name)
    assert name == record or (digest, size) == ("sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), str(len(data))), name
total = sum(i.file_size for i in z.infolist())
assert total < 15e6, total
for i in z.infolist(): # as pip places them
    to = os.path.join(sys.argv[2], "bin" if "/scripts/" in i.filename else "lib", i.filename.split("/scripts/")[-1])
    os.makedirs(os.path.dirname(to), exist_ok=True)
    open(to, "wb").write(z.read(i))
    os.chmod(to, i.external_attr >> 16)
END
ok 'its record is right, and it is below 15 MB' "$python" "$W/wheel.py" "$wheel" "$W/venv"
is 'the commands' "$(ls "$W/venv/bin")" "$(ls "$CTR_BUILD/bin")"
is 'run' "$(pipeline "$W/venv/bin" "$W/clicks.arrows")" "$digest"
ln -s "$W/venv/bin/ctr-info" "$W/info"
is 'by a link, too' "$("$W/info" --version)" "$(ctr-info --version)"
is 'their status is that of the tool' "$("$W/venv/bin/ctr-cat" "$W/none" 2>/dev/null; echo $?)" 1
is 'the module' "$(cd / && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$W/venv/lib" "$python" -c 'import ctrkit; print(ctrkit.__version__)')" "$version"
is 'its platforms' "${wheel##*-none-}" "$(m=$(uname -m) && echo "manylinux_2_17_$m.manylinux2014_$m.musllinux_1_1_$m.whl")"

# ---- the image
ok 'an image' packed image
cat >"$W/image.py" <<'END'
import hashlib, io, json, sys, tarfile
t = tarfile.open(sys.argv[1])
blob = lambda d: t.extractfile("blobs/sha256/" + d["digest"].partition(":")[2]).read()
def checked(d):
    data = blob(d)
    assert d["size"] == len(data) and d["digest"] == "sha256:" + hashlib.sha256(data).hexdigest(), d
    return data
assert json.load(t.extractfile("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
manifest = json.loads(checked(json.load(t.extractfile("index.json"))["manifests"][0]))
config, (layer,) = json.loads(checked(manifest["config"])), map(checked, manifest["layers"])
import gzip
plain = gzip.decompress(layer)
assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(plain).hexdigest()]
tarfile.open(fileobj=io.BytesIO(plain)).extractall(sys.argv[2])
END
image=$(ls "$W"/tree/build/dist/*.oci.tar)
ok 'its digests are right' "$python" -W ignore "$W/image.py" "$image" "$W/root"
if [ "$(id -u)" = 0 ] && chroot "$W/root" /usr/bin/ctr-info --version >/dev/null 2>&1; then
    cp "$W/clicks.arrows" tests/golden/parquet/*.parquet "$W/root/data/"
    is 'it works where there is nothing else' "$(chroot --userspec 1000:1000 "$W/root" /usr/bin/ctr-info --digest /data/clicks.arrows)" "$(ctr-info --digest "$W/clicks.arrows")"
    nm "$CTR_BUILD/static/ctrkit" | grep -q ' T snappy_compress' && snappy=snappy || snappy=
    for f in tests/golden/parquet/*.parquet; do
        case $snappy$f in tests/*duckdb*) continue ;; esac # it is packed with Snappy
        is "${f##*/} by the codecs in it" "$(chroot "$W/root" /usr/bin/ctr-import -q "/data/${f##*/}" 2>&1 | ctr-info --digest)" "$(ctr-import -q "$f" | ctr-info --digest)"
    done
    chroot "$W/root" /usr/bin/ctr-export --codec "${snappy:-none}" -o /data/s.parquet /data/clicks.arrows
    is 'and Snappy to write' "$(ctr-import -q "$W/root/data/s.parquet" | ctr-info --digest)" "$(ctr-info --digest "$W/clicks.arrows")"
else
    skip 'it works where there is nothing else' 'chroot needs root'
fi

# ---- the conda recipe, as rattler-build reads it
if "$PY" -c 'import rattler_build' 2>/dev/null; then
    sed "s|@VERSION@|$version|; s|@TARBALL@|/ctrkit.tar.gz|; s|@SHA256@|$(sha256sum <LICENSE | cut -d' ' -f1)|" .ci/package/conda-recipe/recipe.yaml >"$W/recipe.yaml"
    recipe() { "$PY" -c 'import sys, rattler_build as r
for v in r.Stage0Recipe.from_yaml(sys.stdin.read()).render(): print(v.recipe.package.name, v.recipe.package.version, v.recipe.sources[0].to_dict()["url"])' 2>&1; }
    is 'the conda recipe' "$(recipe <"$W/recipe.yaml")" "ctrkit $version file:///ctrkit.tar.gz"
    is 'a word that it does not know is refused' "$(sed 's/^  host:/  hosts:/' "$W/recipe.yaml" | recipe | grep -c "unknown field 'hosts'")" 1
    is 'its script installs' "$(sed -n 's/^  script: //p' "$W/recipe.yaml" | (cd .ci/package/conda-recipe && xargs ls))" build.sh
else
    skip 'the conda recipe' 'no py-rattler-build'
fi
done_testing
