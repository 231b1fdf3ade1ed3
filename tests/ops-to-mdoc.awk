# The operators of `ctr-extract --list-ops` as they stand in ctr-plan(5): awk -F'\t' -f tests/ops-to-mdoc.awk
function roff(s) {
    gsub(/\\/, "\\e", s)
    gsub(/"/, "\\(dq", s)
    gsub(/; /, ";\n", s)
    return s
}
BEGIN { print ".Bl -tag -width Ds" }
{ printf ".It Li \"%s\"\n%s.\n", roff($2), roff($3) }
END { print ".El" }
