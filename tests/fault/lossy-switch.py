"""lossy-switch.py DELAY_MS LOSS_PERCENT INTERFACE…: a switch between interfaces that keeps each frame DELAY_MS, and a quarter
of it more or less at random, and drops LOSS_PERCENT of them: what tc's netem does, where a kernel has none. Frames of an interface
stay in order. Needs root; ends when it is killed."""
import heapq, random, select, socket, sys, time

delay, loss, names = float(sys.argv[1]) / 1e3, float(sys.argv[2]) / 100, sys.argv[3:]
random.seed(1)
ports = []
for name in names:
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.bind((name, 0))
    s.setblocking(False)
    ports.append(s)
waiting, last, number, seen = [], [0.0] * len(ports), 0, {}
while True:
    now = time.monotonic()
    while waiting and waiting[0][0] <= now:
        _, _, at, frame = heapq.heappop(waiting)
        to = seen.get(frame[:6])
        for i, p in enumerate(ports):
            if i != at and to in (None, i):
                try:
                    p.send(frame)
                except OSError:
                    pass
    ready = select.select(ports, [], [], max(0, waiting[0][0] - now) if waiting else 1)[0]
    for s in ready:
        at = ports.index(s)
        while True:
            try:
                frame, where = s.recvfrom(65536)
            except BlockingIOError:
                break
            if where[2] == socket.PACKET_OUTGOING or random.random() < loss:
                continue
            seen[frame[6:12]] = at
            last[at] = max(last[at], time.monotonic() + delay * random.uniform(.75, 1.25))
            number += 1
            heapq.heappush(waiting, (last[at], number, at, frame))
