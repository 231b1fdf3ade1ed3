# A section that a page names and does not have is one of the manual that it names next: "BAD ROWS of ctrkit(7)". Its link goes there.
# mandoc writes a hyphen as one in the id of a section, and as _ in links to it.
function plain(id) { gsub(/-/, "_", id); return id }
{ text = text $0 "\n" }
END {
    for (rest = text; match(rest, / id="[^"]*"/); rest = substr(rest, RSTART + RLENGTH)) {
        name = substr(rest, RSTART + 5, RLENGTH - 6)
        id[plain(name)] = name
    }
    while (match(text, /class="Sx" href="#[^"]*"/)) {
        name = substr(text, RSTART + 18, RLENGTH - 19)
        printf "%sclass=\"Sx\" href=\"", substr(text, 1, RSTART - 1)
        text = substr(text, RSTART + RLENGTH)
        if (plain(name) in id) name = id[plain(name)]
        else if (match(text, /class="Xr" href="[^"]*"/)) printf "%s", substr(text, RSTART + 17, RLENGTH - 18)
        printf "#%s\"", name
    }
    printf "%s", text
}
