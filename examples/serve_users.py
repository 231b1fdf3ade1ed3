# SPDX-License-Identifier: Apache-2.0
"""Users of examples/serve.sh: serve_users.py SOCKET REQUESTS SEED asks for rankings of ten ads, is shown the best two and one at random, and clicks; prints
what was shown as csv, and on stderr the click rate of the best ads. A user likes the topics of his taste: that is what there is to learn."""
import http.client
import json
import random
import socket
import sys


class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])


requests, seed = int(sys.argv[2]), int(sys.argv[3])
r = random.Random(seed)
server = Connection("localhost")
shown = clicked = 0
model = ""
print("request,ad,click")
for i in range(requests):
    user = r.randrange(200)
    ads = [{"ad": f"a{n}", "topic": f"x{n % 8}"} for n in r.sample(range(80), 10)]
    body = {"user": {"user": user, "taste": f"t{user % 8}"}, "context": {"hour": i % 24}, "ads": ads}
    server.request("POST", "/v1/rank", json.dumps(body), {"Content-Type": "application/json", "X-Request-Id": f"r{seed}-{i}"})
    answer = server.getresponse()
    text = answer.read()
    if answer.status != 200:
        sys.exit(f"serve_users.py: {answer.status}: {text.decode()}")
    ranked = json.loads(text)
    model = ranked["model"]
    best = [a["ad"] for a in ranked["ranked"][:2]]
    for place, n in enumerate(best + [r.choice([k for k in range(10) if k not in best])]):
        match = int(ads[n]["topic"][1:]) == user % 8
        click = r.random() < (.4 if match else .05)
        shown += place < 2
        clicked += place < 2 and click
        print(f"r{seed}-{i},{ads[n]['ad']},{int(click)}")
print(f"{seed}\t{model[:8]}\t{requests}\t{clicked / shown:.3f}", file=sys.stderr)
