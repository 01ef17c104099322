"""A worker written from docs/PROTOCOL.md, and proto/control.proto which that names, alone: no file
of the program is read, and nothing but the standard library is used. One layer, fp32, tcp, sync.

    second.py ADDRESS PROTO IMAGES LABELS [how]    trains as a worker; `how` it lies, see LIES
    second.py ADDRESS PROTO hello KIND             one login that is not as it should be
    second.py ADDRESS PROTO crowd ROLE             150 that log in, beat and do not join
"""
import hashlib, hmac, math, os, queue, re, socket, struct, sys, threading, time

# ---- section 2 and 3: checksums, proofs, login, frames

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc(data):
    c = 0xFFFFFFFF
    for byte in data:
        c = TABLE[(c ^ byte) & 255] ^ c >> 8
    return c ^ 0xFFFFFFFF


assert crc(b"123456789") == 0xE3069283


def mac(secret, purpose, data):
    return hmac.new(secret, purpose + data, hashlib.sha256).digest()


HEARTBEAT, CONTROL, PUSH, WANT, WEIGHTS = range(1, 6)
WORKER, OBSERVER, NOBODY = 3, 4, 0xFFFFFFFF
OWN = os.urandom(32)  # this member's secret


def hello(role, incarnation, rank=NOBODY, job=0, epoch=0, expects=0, generation=1, link=0, links=1,
          version=2, magic=b"GWHELLO\0", spoil=0, secret=OWN):
    head = magic + struct.pack("<HHI", version, 96, 0) + b"second 1".ljust(24, b"\0")
    head += struct.pack("<BBBBIIIQQQ", role, link, links, 0, generation, rank, epoch, job,
                        incarnation, expects)
    pair = mac(secret, b"gradweir pair", struct.pack("<Q", expects))
    head += mac(pair, b"gradweir hello", head)[:12] if expects else bytes(12)
    return head + struct.pack("<I", crc(head) ^ spoil)


# the bytes of the page
OF_THE_PAGE = hello(WORKER, 0x2122232425262728, 5, 0x1112131415161718, 2, 0x3132333435363738, 7, 1,
                    2, secret=bytes(range(1, 33))).replace(b"second 1", b"1.2.3\0\0\0")
OF_THE_PAGE = OF_THE_PAGE[:80]
PAIR = mac(bytes(range(1, 33)), b"gradweir pair", struct.pack("<Q", 0x3132333435363738))
assert mac(PAIR, b"gradweir hello", OF_THE_PAGE)[:12].hex() == "4a28b1e0febbe23b8385b942"


def take(sock, n):
    data = b""
    while len(data) < n:
        more = sock.recv(n - len(data))
        if not more:
            raise EOFError("closed")
        data += more
    return data


class Link:
    """One connection after its login; frames that arrive go into a queue, with whom they are of."""

    def __init__(self, address, inbox, tag, **who):
        host, port = address.rsplit(":", 1)
        self.sock = socket.create_connection((host, int(port)), 10)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.sendall(hello(**who))
        reply = take(self.sock, 256)
        assert reply[:8] == b"GWREPLY\0" and struct.unpack("<I", reply[252:])[0] == crc(reply[:252])
        self.wire, self.status = struct.unpack("<H", reply[8:10])[0], struct.unpack("<i", reply[40:44])[0]
        self.session, self.epoch = struct.unpack("<II", reply[44:52])
        self.job, self.incarnation = struct.unpack("<QQ", reply[56:72])
        self.reason = reply[72:232].rstrip(b"\0").decode()
        if self.status:
            return
        self.lock, self.told, self.heard, self.inbox, self.tag = threading.Lock(), 0, 0, inbox, tag
        self.sock.settimeout(None)
        threading.Thread(target=self.read, daemon=True).start()
        threading.Thread(target=self.beat, daemon=True).start()

    def send(self, kind, payload=b"", clock=0, offset=0, window=0, chunk=NOBODY, count=0, dtype=0,
             decision=0):
        head = struct.pack("<4sBBHIIQQIIIIBBHII", b"GWIR", 2, kind, 0, self.session, 1, clock, offset,
                           window, chunk, count, len(payload), 0, dtype, 64, decision, crc(payload))
        with self.lock:
            self.sock.sendall(head + struct.pack("<I", crc(head)) + payload)

    def tell(self, **body):
        self.told += 1
        self.send(CONTROL, encode("Control", body), clock=self.told, offset=self.heard)

    def beat(self):
        try:
            while True:
                time.sleep(0.1)
                self.send(HEARTBEAT, clock=time.monotonic_ns() // 1000, offset=self.heard)
        except OSError:
            pass

    def read(self):
        try:
            while True:
                head = take(self.sock, 64)
                assert head[:4] == b"GWIR" and crc(head[:60]) == struct.unpack("<I", head[60:])[0]
                kind, flags = head[5], struct.unpack("<H", head[6:8])[0]
                clock, offset, window, chunk, count, length = struct.unpack("<QQIIII", head[16:48])
                payload = take(self.sock, length)
                assert flags & 1 or not length or crc(payload) == struct.unpack("<I", head[56:60])[0]
                if kind == CONTROL:
                    self.heard = clock
                    self.inbox.put((self.tag, decode("Control", payload)))
                elif kind == WEIGHTS:
                    decision, = struct.unpack("<I", head[52:56])
                    self.inbox.put((self.tag, (decision, clock, offset, chunk, payload)))
        except (OSError, EOFError) as error:
            self.inbox.put((self.tag, error))


# ---- section 6: control messages, by the fields of control.proto

FIELDS = {}


def read_proto(path):
    for name, body in re.findall(r"message (\w+) \{(.*?)\n\}", open(path).read(), re.S):
        FIELDS[name] = {int(number): (field, kind, bool(many)) for many, kind, field, number in
                        re.findall(r"(repeated )?(\w+) (\w+) = (\d+);", body)}


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def encode(name, values):
    out = b""
    for number, (field, kind, many) in FIELDS[name].items():
        for value in (values.get(field, []) if many else [values[field]] if field in values else []):
            if kind in ("fixed64", "double"):
                out += varint(number << 3 | 1) + struct.pack("<Q" if kind == "fixed64" else "<d", value)
            elif kind in ("uint32", "uint64", "bool"):
                out += varint(number << 3) + varint(value)
            elif kind == "sint32":
                out += varint(number << 3) + varint(value << 1 ^ value >> 31)
            else:
                data = value if kind == "bytes" else value.encode() if kind == "string" else encode(kind, value)
                out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def decode(name, data):
    out, at = {field: [] for field, _, many in FIELDS[name].values() if many}, 0

    def number():
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    while at < len(data):
        tag = number()
        field, kind, many = FIELDS[name].get(tag >> 3, ("?", "uint64", False))
        if tag & 7 == 1:
            value = struct.unpack_from("<d" if kind == "double" else "<Q", data, at)[0]
            at += 8
        elif tag & 7 == 0:
            value = number()
            value = (value >> 1) ^ -(value & 1) if kind == "sint32" else value
        else:
            n = number()
            value, at = data[at:at + n], at + n
            if kind in FIELDS:
                value = decode(kind, value)
            elif kind == "string":
                value = value.decode()
            elif kind == "double":  # packed
                out[field] += struct.unpack("<%dd" % (n // 8), value)
                continue
            elif kind != "bytes":  # packed: none of those that are read here
                continue
        if many:
            out[field].append(value)
        else:
            out[field] = value
    return out


# ---- section 7 and 18: the map, and who has which samples


def make_map(shapes, shards):
    elems = [math.prod(shape) for _, shape in shapes]
    chunk_bytes = min(max(4 * sum(elems) // 64, 65536), 1048576) // 4096 * 4096
    chunks, load, ends, at = [], [0] * shards, [0] * shards, 0
    for n in elems:
        at = (at + 63) // 64 * 64
        for begin in range(0, 4 * n, chunk_bytes):
            size = min(chunk_bytes, 4 * n - begin)
            shard = load.index(min(load))
            chunks.append((at + begin, size, shard, ends[shard]))  # arena, bytes, shard, shard_offset
            load[shard] += size
            ends[shard] = (ends[shard] + size + 63) // 64 * 64
        at += 4 * n
    return chunks, at


def fnv(shapes):
    word = lambda n: struct.pack("<Q", n)
    data = word(len(shapes))
    for name, shape in shapes:
        data += name.encode() + b"\0" + word(1) + word(len(shape)) + b"".join(map(word, shape))
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return h


def philox(seed, c):
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return c


def permute(seed, epoch, n, i):
    h = 1
    while 1 << 2 * h < n:
        h += 1
    while True:
        l, r = i >> h, i & (1 << h) - 1
        for turn in range(4):
            l, r = r, l ^ philox(seed, [r, turn, epoch, 2])[0] & (1 << h) - 1
        i = l << h | r
        if i < n:
            return i


# ---- arithmetic: fp32 after each operation


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def gradient(weights, inputs, classes, picture, label):
    """Of -log softmax, of pictures with one pixel of 255: sums are exact whatever their order."""
    z = [f32(sum(weights[o * inputs + i] for i in range(inputs) if picture[i]) + weights[classes * inputs + o])
         for o in range(classes)]
    e = [math.exp(x - max(z)) for x in z]
    factor = 1 / sum(e)
    d = [f32(f32(factor * f32(x)) - (o == label)) for o, x in enumerate(e)]
    return [d[o] if picture[i] else 0.0 for o in range(classes) for i in range(inputs)] + d


# ---- section 8 and 9: a worker


class Worker:
    def __init__(self, address, images, labels, how):
        self.inbox, self.how, self.decision, self.end = queue.Queue(), how, 0, None
        self.incarnation = int.from_bytes(os.urandom(8), "little") | 1
        self.windows, self.version, self.address, self.ahead = {}, {}, address, []
        self.x, self.y = images, labels
        self.top = Link(address, self.inbox, "coordinator", role=WORKER, incarnation=self.incarnation)
        if self.top.status:
            raise SystemExit("%d %s" % (self.top.status, self.top.reason))

    def await_(self, kind, seconds=30):
        until = time.monotonic() + seconds
        while True:
            tag, what = self.inbox.get(timeout=max(until - time.monotonic(), 0.01))
            if isinstance(what, Exception):
                if self.how and tag != "coordinator":
                    raise EOFError(str(tag))
                raise SystemExit("link to %s: %s" % (tag, what))
            if isinstance(what, tuple) and what[0] > self.decision:
                self.ahead.append((tag, what))  # of no use before that decision
                continue
            if isinstance(what, tuple):
                self.put(*what[1:])
                body, message = "weights", None
            else:
                (body, message), = [(b, m) for b, m in what.items()]
            if body == "window":
                self.windows[tag, message["kind"]] = message["id"]
            elif body == "decision":
                self.decision = message["number"]
                self.end = message["clock"] if message["kind"] == 5 else self.end
                while self.ahead:
                    self.inbox.put(self.ahead.pop())
            elif body == "end" and kind != "end":
                raise SystemExit("%d %s" % (message.get("status", 0), message["text"]))
            if body == kind:
                return message

    def put(self, clock, offset, chunk, payload):
        self.arena[offset:offset + len(payload)] = payload
        self.version[chunk] = clock

    def join(self, rank, secret=None):
        proof = mac(secret, b"gradweir join", struct.pack("<QQQ", self.top.job, self.top.incarnation,
                                                          self.incarnation) + OWN) if secret else b""
        self.top.tell(join=dict(role=WORKER, host="second", pid=os.getpid(), threads=1, rank=rank,
                                secret=OWN, proof=proof))
        welcome = self.await_("welcome")
        self.rank, self.job = welcome.get("rank", 0), welcome["job"]

    def setting(self, name):
        return int(re.search(r"\b%s = (\d+)" % name, self.job).group(1))

    def declare(self):
        pixels, self.classes = len(self.x[0]), max(self.y) + 1
        side = math.isqrt(pixels)
        self.shapes = [("fc1.weight", (self.classes, pixels)), ("fc1.bias", (self.classes,))]
        shape = struct.pack("<6Q", len(self.x), 1, side, side, self.classes, 0)
        digest = hashlib.sha256(shape + b"".join(self.x) + struct.pack("<%di" % len(self.y), *self.y))
        self.workers = self.setting("workers")
        self.batch = self.setting("batch") * self.workers
        self.per_epoch = -(-len(self.x) // self.batch)
        self.top.tell(declare=dict(keys_hash=fnv(self.shapes), data_digest=digest.digest(),
                                   course=dict(batch=self.batch, samples=len(self.x)),
                                   total_steps=self.setting("steps"), test_samples=0, device="second",
                                   keys_total=2))
        self.members = []
        while len(self.members) < 1 or len(self.members) < self.members_total:
            view = self.await_("view")
            self.members_total = view["members_total"]
            self.members += view["members"]
        self.await_("start")

    def connect(self):
        shards = sorted((m for m in self.members if m["role"] == 2), key=lambda m: m.get("id", 0))
        self.chunks, size = make_map(self.shapes, len(shards))
        self.arena, self.links = bytearray(size), []
        for number, shard in enumerate(shards):
            plain = [a for a in shard["address"].split(",") if "://" not in a][0]
            for generation in range(1, 200):
                link = Link(plain, self.inbox, number, role=WORKER, incarnation=self.incarnation, rank=self.rank,
                            job=self.top.job, epoch=1, expects=shard["incarnation"], generation=generation)
                if link.status != -1:
                    break
                time.sleep(0.02)  # not ready yet
            if link.status:
                raise SystemExit("%d %s" % (link.status, link.reason))
            self.links.append(link)
        while len(self.windows) < len(shards):
            self.await_("window")

    def want(self, version):
        for number, link in enumerate(self.links):
            wants = b"".join(struct.pack("<IIQQIIBBBBI", c, 1, version, chunk[0], 9, c, 1, 0, 0, 0, 0)
                             for c, chunk in enumerate(self.chunks) if chunk[2] == number)
            if wants:
                link.send(WANT, wants, decision=self.decision)

    def part(self, t):
        first = t % self.per_epoch * self.batch
        n = min(self.batch, len(self.x) - first)
        return [permute(self.setting("seed"), t // self.per_epoch, len(self.x), first + i)
                for i in range(n * self.rank // self.workers, n * (self.rank + 1) // self.workers)]

    def step(self, t):
        while any(self.version.get(c, -1) < t for c in range(len(self.chunks))):
            if self.await_("weights") is None and self.end is not None and t > self.end:
                return False
        if self.end is not None and t >= self.end:
            return False
        weights = [x for c in self.chunks for x in struct.unpack("<%df" % (c[1] // 4), self.arena[c[0]:c[0] + c[1]])]
        part, total = self.part(t), [0.0] * len(weights)
        for i in part:
            made = gradient(weights, len(self.x[0]), self.classes, self.x[i], self.y[i])
            total = [f32(a + b) for a, b in zip(total, made)]
        at = 0
        for c, (_, size, shard, offset) in enumerate(self.chunks):
            payload = struct.pack("<%df" % (size // 4), *total[at:at + size // 4]) if part else b""
            window = self.windows[shard, PUSH] if part else 0
            count = LIES.get(self.how, len(part)) if part else 0
            self.links[shard].send(PUSH, payload, clock=t, offset=offset if part else 0, window=window, chunk=c,
                                   count=count, dtype=1 if part else 0, decision=self.decision)
            at += size // 4
        self.want(t + 1)
        return True

    def run(self):
        self.want(0)
        t = 0
        while self.step(t):
            self.top.tell(report=dict(clock=t, loss=1.0, samples=2, counters=[t + 1, 0, 2 * t], decision=self.decision))
            t += 1
        self.top.tell(bye=dict(clock=t))
        end = self.await_("end")
        print(end.get("status", 0), end["text"])


# counts of a push that no rank can have
LIES = {"many": 1000000, "one-more": 3}


def steal(worker, number):
    """As rank 0, whose incarnation is in the view, with the secret of this one."""
    victim = [m for m in worker.members if m["role"] == WORKER and m.get("id", 0) == 0][0]
    shard = [m for m in worker.members if m["role"] == 2 and m.get("id", 0) == number][0]
    plain = [a for a in shard["address"].split(",") if "://" not in a][0]
    for where, expects in ((plain, shard["incarnation"]), (worker.address, worker.top.incarnation)):
        link = Link(where, worker.inbox, "theft", role=WORKER, incarnation=victim["incarnation"], rank=0,
                    job=worker.top.job, epoch=1, expects=expects, generation=1000)
        print(link.status, link.reason)


def lie_at_login(address, kind):
    host, port = address.rsplit(":", 1)
    who = dict(role=OBSERVER, incarnation=7)
    who.update({"version": dict(version=1), "magic": dict(magic=b"GWHELLX\0"), "crc": dict(spoil=1),
                "role": dict(role=5), "links": dict(links=9), "link": dict(link=1), "incarnation": dict(incarnation=0),
                "generation": dict(generation=0), "job": dict(job=9), "expects": dict(expects=9),
                "coordinator": dict(role=1), "none": {}}[kind])
    sock = socket.create_connection((host, int(port)), 10)
    sock.sendall(hello(**who))
    try:
        reply = take(sock, 256)
        print(struct.unpack("<i", reply[40:44])[0], reply[72:232].rstrip(b"\0").decode())
    except (EOFError, ConnectionResetError):
        print("closed")


def crowd(address, role):
    """Whoever is put out comes again; until the input ends."""
    links = []

    def keep(n):
        while True:
            inbox = queue.Queue()
            try:
                Link(address, inbox, n, role=role, incarnation=n)
                inbox.get()
            except OSError:
                pass
            time.sleep(0.2)

    for n in range(1, 151):
        links.append(threading.Thread(target=keep, args=(n,), daemon=True))
        links[-1].start()
    time.sleep(1)
    print("crowded", flush=True)
    sys.stdin.read()


def idx(path):
    data = open(path, "rb").read()
    dims = struct.unpack(">%dI" % data[3], data[4:4 + 4 * data[3]])
    body, size = data[4 + 4 * data[3]:], math.prod(dims[1:])
    return [body[i * size:(i + 1) * size] for i in range(dims[0])]


def main():
    address, proto, images = sys.argv[1:4]
    read_proto(proto)
    if images == "hello":
        return lie_at_login(address, sys.argv[4])
    if images == "crowd":
        return crowd(address, int(sys.argv[4]))
    how = sys.argv[5] if len(sys.argv) > 5 else ""
    worker = Worker(address, idx(images), [b[0] for b in idx(sys.argv[4])], how)
    worker.join(1, os.urandom(32) if how == "other-secret" else None)
    worker.declare()
    worker.connect()
    if how == "steal":
        steal(worker, 0)
        worker.how = ""
    if how == "vanish":  # a message that no worker sends, and not a word more
        worker.top.tell(ready=dict(version=0))
        time.sleep(0.2)
        os._exit(0)
    try:
        worker.run()
    except EOFError as error:
        print("closed by shard", error)


main()
