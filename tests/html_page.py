"""Pages of HTML as programs read them.

html_page.py check PAGE…         what every page must hold, a complaint a line; status 1 if there is one
html_page.py table PAGE CAPTION [HEADING]   that table as tab-separated lines, of all or of the piece below <h3>HEADING</h3>
html_page.py text PAGE           its text
html_page.py links PAGE…          dead links among these pages, a line each; status 1 if there is one
html_page.py elsewhere PAGE…      addresses of other places
"""
import os, re, sys
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "col", "wbr"}
NAMES = re.compile(r"^[a-z][a-z0-9]*$")


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.path, self.wrong, self.open = path, [], []
        self.ids, self.links, self.headings, self.titles, self.words = set(), [], [], [], []
        self.tables, self.table, self.cell, self.h3 = [], None, None, ""
        self.lang = self.kind = None
        self.nameless = False
        self.text = open(path, encoding="utf-8", errors="strict").read()
        self.feed(self.text)
        self.close()
        if self.open:
            self.say("never closed: " + " ".join(self.open))

    def say(self, what):
        self.wrong.append(f"{self.path}:{self.getpos()[0]}: {what}")

    def handle_decl(self, decl):
        self.kind = decl

    def handle_starttag(self, tag, attrs, void=False):
        at = dict(attrs)
        if len(at) != len(attrs):
            self.say(f"<{tag}> has an attribute twice")
        if tag == "html":
            self.lang = at.get("lang")
        if "id" in at:
            if at["id"] in self.ids:
                self.say(f"two elements have the id {at['id']}")
            self.ids.add(at["id"])
        for name in ("href", "src"):
            if at.get(name) is not None:
                self.links.append(at[name])
        for name in at:
            if name.startswith("on") or name.startswith("{"):
                self.say(f"<{tag}> has {name}")
        if tag == "script":
            self.say("a script")
        if tag in ("img",) and not at.get("alt"):
            self.say("a picture without alt")
        if tag == "svg":
            self.nameless = at.get("role") != "img" or not at.get("aria-label")
        if tag == "title" and "svg" in self.open:
            self.nameless = False
        if tag == "th" and at.get("scope") not in ("col", "row"):
            self.say("<th> without scope")
        if tag == "table":
            self.table = {"caption": "", "class": at.get("class") or "", "rows": [], "h3": self.h3}
            self.tables.append(self.table)
        if tag == "tr" and self.table is not None:
            self.table["rows"].append([])
        if tag in ("th", "td", "caption"):
            self.cell = []
        if re.match(r"^h[1-6]$", tag):
            self.headings.append((int(tag[1]), []))
            self.cell = self.cell if self.cell is not None else None
        if tag not in VOID and not void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        if "svg" not in self.open and tag not in VOID:
            self.say(f"<{tag}/> outside of svg")
        self.handle_starttag(tag, attrs, void=True)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.say(f"</{tag}> ends {self.open[-1] if self.open else 'nothing'}")
            if tag in self.open:
                while self.open.pop() != tag:
                    pass
            return
        self.open.pop()
        if tag in ("th", "td"):
            self.table["rows"][-1].append("".join(self.cell))
            self.cell = None
        if tag == "caption":
            self.table["caption"] = "".join(self.cell)
            self.cell = None
        if tag == "svg" and self.nameless:
            self.say("an svg that is no image with a name")
        if tag == "h3":
            self.h3 = "".join(self.headings[-1][1])
        if tag == "table":
            self.table = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell.append(data)
        if self.headings and any(re.match(r"^h[1-6]$", t) for t in self.open):
            self.headings[-1][1].append(data)
        if self.open and self.open[-1] == "title" and "svg" not in self.open:
            self.titles.append(data)
        if not self.open or self.open[-1] not in ("style", "title"):
            self.words.append(data)


def check(page):
    if page.kind != "DOCTYPE html":
        page.say("no doctype")
    if not page.lang:
        page.say("no language")
    if not "".join(page.titles).strip():
        page.say("no title")
    levels = [l for l, _ in page.headings]
    if not levels or levels[0] != 1 or levels.count(1) != 1:
        page.say("not one <h1> first")
    for a, b in zip(levels, levels[1:]):
        if b > a + 1:
            page.say(f"<h{b}> follows <h{a}>")
    for _, words in page.headings:
        if not "".join(words).strip():
            page.say("an empty heading")
    for t in page.tables:
        if not t["caption"].strip() and not t["class"].startswith(("head", "foot", "Nm", "Bl-column")):
            page.say("a table without caption")
        widths = {len(r) for r in t["rows"]}
        if len(widths) > 1 and t["caption"]:
            page.say(f"rows of {sorted(widths)} cells in {t['caption']}")
    if re.search(r"url\(|@import|javascript:", page.text):
        page.say("it loads something")
    return page.wrong


def dead_links(paths):
    pages = {os.path.basename(p): Page(p) for p in paths}
    dead = []
    for name, page in pages.items():
        for link in page.links:
            to, _, at = link.partition("#")
            if to.endswith(".css") and os.path.exists(os.path.join(os.path.dirname(page.path), to)):
                continue
            if not re.match(r"^[a-z]+:", link) and ((to or name) not in pages or (at and at not in pages[to or name].ids)):
                dead.append(f"{name}: {link}")
    return dead


if sys.argv[1] == "check":
    wrong = [w for p in sys.argv[2:] for w in check(Page(p))]
    print("\n".join(wrong[:20]))
    sys.exit(bool(wrong))
elif sys.argv[1] == "links":
    dead = dead_links(sys.argv[2:])
    print("\n".join(dead[:20]))
    sys.exit(bool(dead))
elif sys.argv[1] == "elsewhere":
    print("\n".join(sorted({l for p in sys.argv[2:] for l in Page(p).links if re.match(r"^[a-z]+:", l)})))
elif sys.argv[1] == "text":
    print("".join(Page(sys.argv[2]).words))
elif sys.argv[1] == "table":
    for t in Page(sys.argv[2]).tables:
        if t["caption"] == sys.argv[3] and (len(sys.argv) < 5 or t["h3"] == sys.argv[4]):
            for r in t["rows"]:
                print("\t".join(r))
