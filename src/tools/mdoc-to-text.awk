# Makes plain text of manual pages, for `ctrkit help` where neither man nor mandoc is: awk -f this man/*.[1-9].
# A line "\f NAME.SECTION" begins a page. It knows the macros of mdoc(7) that our pages use and stops at any other one;
# tests/help.t holds its words against those of mandoc.

BEGIN {
    WIDTH = 78
    split("Fl Ar Cm Op Pq Dq Sq Ql Li Em Sy Pa Ev Xr Sx No Ns Nm Lk Po Pc Do Dc Oo Oc So Sc Ap", list, " ")
    for (i in list) callable[list[i]] = 1
    open["Op"] = open["Oo"] = "["; open["Pq"] = open["Po"] = "("; open["Dq"] = open["Do"] = "\""; open["Sq"] = open["So"] = open["Ql"] = "'"
    shut["Op"] = shut["Oc"] = "]"; shut["Pq"] = shut["Pc"] = ")"; shut["Dq"] = shut["Dc"] = "\""; shut["Sq"] = shut["Sc"] = shut["Ql"] = "'"
}

FNR == 1 {
    flush_line()
    page = FILENAME
    sub(/.*\//, "", page)
    depth = literal = synopsis = 0; indent = 0; name = ""
}

# Words are collected in `line` and printed filled; `glue` suppresses the space before the next word.
function word(w) {
    if (line == "") line = w
    else line = line (glue ? "" : " ") w
    glue = 0
}
function spaces(n) { return n > 0 ? sprintf("%" n "s", "") : "" }
function put_lead() { if (lead != "") print lead; lead = ""; blanked = 0 }
function blank() { if (lead != "") put_lead(); if (!blanked) print ""; blanked = 1 }
function put(text) {
    if (lead != "" && length(lead) < indent) text = lead spaces(indent - length(lead)) substr(text, indent + 1)
    else put_lead()
    lead = ""
    print text
    blanked = text == ""
}
function flush_line(   n, list, i, out) {
    n = split(line, list, " ")
    out = ""
    for (i = 1; i <= n; i++) {
        if (out != "" && length(out) + 1 + length(list[i]) > WIDTH - indent) {
            put(spaces(indent) out)
            out = ""
        }
        out = out == "" ? list[i] : out " " list[i]
    }
    if (out != "") put(spaces(indent) out)
    line = ""; glue = 0
}
function plain(s) {
    gsub(/\\&/, "", s); gsub(/\\-/, "-", s)
    gsub(/\\\(dq/, "\"", s); gsub(/\\\(aq/, "'", s)
    gsub(/\\[e\\]/, "\\", s)
    return s
}
# Arguments of a macro line into arg[1..]; quoted[i] says that one was in quotes, so that it is no macro.
function parse(s,   n, i, c, a, q) {
    n = 0
    while (s ~ /[^ ]/) {
        sub(/^ +/, "", s)
        q = substr(s, 1, 1) == "\""
        a = ""
        for (i = q ? 2 : 1; i <= length(s); i++) {
            c = substr(s, i, 1)
            if (q && c == "\"") {
                if (substr(s, i + 1, 1) != "\"") break
                i++
            } else if (!q && c == " ") break
            a = a c
        }
        s = substr(s, i + 1)
        arg[++n] = a; quoted[n] = q
    }
    return n
}
function is_punctuation(w) { return w ~ /^[.,:;?!)\]]$/ }
# Words of arg[from..n], with the macros among them.
function words(from, n,   i, macro, last, closers, w) {
    for (last = n; last >= from && is_punctuation(arg[last]) && !quoted[last]; last--)
        ;
    macro = closers = ""
    for (i = from; i <= last; i++) {
        w = arg[i]
        if (!quoted[i] && (w in callable)) {
            macro = w
            if (w == "Ns") { glue = 1; macro = "No" }
            else if (w == "Ap") { glue = 1; word("'"); glue = 1 }
            else if (w ~ /^[PDOS]c$/) { glue = 1; word(shut[w]); macro = "No" }
            else if (w in open) {
                word(open[w]); glue = 1
                if (w !~ /o$/) closers = shut[w] closers
                macro = "No"
            } else if (w == "Nm" && (i == last || is_punctuation(arg[i + 1]) || (arg[i + 1] in callable))) word(name)
            else if (w == "Fl" && (i == last || (arg[i + 1] in callable))) word("-")
            else if (w == "Ar" && (i == last || (arg[i + 1] in callable))) word("file ...")
            continue
        }
        if (is_punctuation(w) && !quoted[i]) { glue = 1; word(w); continue }
        if (w ~ /^[(\[]$/ && !quoted[i]) { word(w); glue = 1; continue }
        w = plain(w)
        if (macro == "Fl" && w != "|") w = "-" w
        if (macro == "Xr" && i < last) { w = w "(" arg[++i] ")" }
        word(w)
    }
    if (closers != "") { glue = 1; word(closers) }
    for (; i <= n; i++) { glue = 1; word(arg[i]) }
}
function begin_list(s) {
    depth++
    compact[depth] = s ~ /-compact/
    kind[depth] = s ~ /-bullet/ ? "bullet" : s ~ /-column/ ? "column" : "tag"
    base[depth] = indent
    wide[depth] = kind[depth] == "bullet" ? 2 : 8
    if (match(s, /-width ("[^"]*"|[^ ]+)/)) {
        s = substr(s, RSTART + 7, RLENGTH - 7)
        gsub(/"/, "", s)
        if (s != "Ds") wide[depth] = length(s) + 2
    }
}
function item(rest,   n, i, out, tag, cells) {
    flush_line()
    if (lead != "") put_lead()
    if (!compact[depth] && kind[depth] != "column") blank()
    indent = base[depth]
    if (kind[depth] == "column") {
        n = split(rest, cells, / Ta /)
        for (i = 1; i <= n; i++) {
            line = ""
            words(1, parse(cells[i]))
            out = i == n ? out line : out sprintf("%-24s  ", line)
        }
        line = ""
        put(spaces(indent) out)
        return
    }
    if (kind[depth] == "bullet") tag = "o"
    else {
        words(1, parse(rest))
        tag = line
        line = ""; glue = 0
    }
    lead = spaces(indent) tag # stands at the left of the first line of its text if there is room
    if (length(tag) >= wide[depth]) put_lead()
    indent = base[depth] + wide[depth]
}

{ sub(/\r$/, "") }
/^\.\\"/ { next }
literal && !/^\.(Ed|Bd)/ {
    if (/^\.[A-Z]/) {
        n = parse(substr($0, 2))
        line = ""; words(1, n); text = line; line = ""
    } else text = plain($0)
    put(text == "" ? "" : spaces(indent) text)
    next
}
!/^\./ { if ($0 == "") { flush_line(); blank() } else word(plain($0)); next }
{ macro = $1; rest = substr($0, length(macro) + 2) }
macro == ".Dd" || macro == ".Os" { next }
macro == ".Dt" { printf "\f %s\n", page; blanked = 1; next }
macro == ".Sh" {
    flush_line(); blank()
    put(plain(rest)); indent = 5; depth = 0
    synopsis = rest == "SYNOPSIS"
    next
}
macro == ".Ss" { flush_line(); blank(); put("  " plain(rest)); indent = 5; next }
macro == ".Nm" {
    if (synopsis) flush_line()
    n = parse(rest)
    if (name == "" && n) name = arg[1]
    if (!n || is_punctuation(arg[1]) || (arg[1] in callable)) word(name)
    words(1, n)
    next
}
macro == ".Nd" { word("-"); word(plain(rest)); next }
macro == ".Pp" { flush_line(); blank(); next }
macro == ".Bl" { flush_line(); begin_list(rest); next }
macro == ".It" { item(rest); next }
macro == ".El" { flush_line(); indent = base[depth--]; next }
macro == ".Bd" {
    flush_line()
    if (rest !~ /-compact/) blank()
    shift = 0
    if (match(rest, /-offset [^ ]+/)) shift = substr(rest, RSTART + 8, RLENGTH - 8) == "indent" ? 6 : 2
    indent += shift; literal = 1
    next
}
macro == ".Ed" { indent -= shift; literal = 0; next }
macro == ".Dl" { flush_line(); n = parse(rest); words(1, n); put(spaces(indent + 6) line); line = ""; next }
macro == ".Rs" { reference = authors = ""; next }
macro == ".%A" { authors = authors (authors == "" ? "" : " and ") plain(rest); next }
macro == ".%T" { reference = authors ", \"" plain(rest) "\""; next }
macro ~ /^\.%/ { reference = reference ", " plain(rest); next }
macro == ".Re" { word(reference "."); flush_line(); next }
{
    macro = substr(macro, 2)
    if (!(macro in callable)) {
        print FILENAME ":" FNR ": mdoc-to-text.awk does not know ." macro > "/dev/stderr"
        exit 1
    }
    words(1, parse(substr($0, 2)))
}
END { flush_line() }
