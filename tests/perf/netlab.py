"""Hosts for the measurements in this directory: a network namespace each, behind a
bridge, with as much up and down as asked for. Needs root, ip and tc (iproute2)."""
import contextlib
import itertools
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

# Of each shaper. What does not fit its queue, at line rate, is dropped; its burst holds
# an offloaded segment, and what passes while it is late to wake up.
QUEUE_S = 0.020
QUEUE_LEAST = BURST = 128 << 10  # bytes


def lacks():
    """Why there can be no hosts here, or None."""
    if os.geteuid() != 0:
        return "not root"
    for program in ("ip", "tc"):
        if not shutil.which(program):
            return f"no {program}: install iproute2"
    name = f"gw-probe-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], stderr=subprocess.DEVNULL,
                      check=False).returncode != 0:
        return "no network namespace can be made here"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


def controls():
    """The congestion controls that this kernel has loaded."""
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control",
              encoding="ascii") as names:
        return names.read().split()


def sh(*words):
    subprocess.run(words, check=True)


def remove(name):
    """A namespace, and what still runs in it."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        pids = subprocess.run(["ip", "netns", "pids", name], check=False,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL).stdout.split()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), sign)
        if pids:
            time.sleep(1)
    subprocess.run(["ip", "netns", "del", name], check=False,
                   stderr=subprocess.DEVNULL)


def remove_left():
    """What labs have left whose program was killed."""
    listed = subprocess.run(["ip", "netns", "list"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    for name, pid in re.findall(r"^(gw-(\d+)-\S+)", listed, re.MULTILINE):
        if not os.path.exists(f"/proc/{pid}"):
            remove(name)


class Lab:
    """`hosts` hosts, each with `bits_per_s` in each direction; None: as fast as the
    machine is. Host i has the address of index i. `congestion` is the control that
    their connections use; `burst` is what a line that was idle takes at once."""

    def __init__(self, hosts, bits_per_s, congestion, burst=BURST):
        self.congestion, self.burst = congestion, burst
        self.switch = f"gw-{os.getpid()}-switch"
        self.names = [f"gw-{os.getpid()}-h{i}" for i in range(hosts)]
        self.addresses = [f"10.77.0.{i + 1}" for i in range(hosts)]
        try:
            self.build(bits_per_s)
        except BaseException:
            self.close()
            raise

    def build(self, bits_per_s):
        sh("ip", "netns", "add", self.switch)
        sh("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge",
           "forward_delay", "0", "stp_state", "0")
        sh("ip", "-n", self.switch, "link", "set", "br0", "up")
        for i, name in enumerate(self.names):
            port = f"p{i}"
            sh("ip", "netns", "add", name)
            sh("ip", "-n", self.switch, "link", "add", port, "type", "veth", "peer",
               "name", "eth0", "netns", name)
            sh("ip", "-n", name, "link", "set", "lo", "up")
            sh("ip", "-n", name, "addr", "add", self.addresses[i] + "/24", "dev",
               "eth0")
            sh("ip", "-n", name, "link", "set", "eth0", "up")
            sh("ip", "-n", name, "route", "replace", "10.77.0.0/24", "dev", "eth0",
               "src", self.addresses[i], "congctl",
               self.congestion)
            sh("ip", "-n", self.switch, "link", "set", port, "master", "br0", "up")
            if bits_per_s:
                self.shape(name, "eth0", bits_per_s)
                self.shape(self.switch, port, bits_per_s)

    def shape(self, name, device, bits_per_s):
        limit = max(QUEUE_LEAST, int(bits_per_s / 8 * QUEUE_S))
        sh("tc", "-n", name, "qdisc", "add", "dev", device, "root", "tbf", "rate",
           f"{bits_per_s:.0f}bit", "burst", str(self.burst), "limit", str(limit))

    def on(self, host):
        """What a command begins with to run on a host."""
        return ["ip", "netns", "exec", self.names[host]]

    def close(self):
        for name in [*self.names, self.switch]:
            remove(name)


# ---- what bare TCP makes of it ----

PORT = 7077
PINGS = 200
SETTLE_S, STREAM_S = 1, 3


def pour(conn):
    """Until the other end closes."""
    with contextlib.suppress(OSError):
        while True:
            conn.sendall(bytes(1 << 16))


def drink(conn):
    """Bytes per second that come, once they have settled."""
    got, begin = 0, time.monotonic()
    now = begin
    while now < begin + SETTLE_S + STREAM_S:
        more = len(conn.recv(1 << 20))
        now = time.monotonic()
        if now >= begin + SETTLE_S:
            got += more
    return got / (now - begin - SETTLE_S)


def bounce(conn, begins):
    """Seconds one way, the median."""
    took = []
    for _ in range(PINGS):
        begin = time.monotonic()
        if begins:
            conn.sendall(b"x")
        conn.recv(1)
        if not begins:
            conn.sendall(b"x")
        took.append(time.monotonic() - begin)
    return statistics.median(took) / 2


def end_of_line(begins, conns):
    """One end of two connections: prints seconds one way, waits for a line, and
    prints bytes per second that come while as much goes."""
    for conn in conns:
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(bounce(conns[0], begins), flush=True)
    sys.stdin.readline()
    out, back = conns if begins else conns[::-1]
    threading.Thread(target=pour, args=[out], daemon=True).start()
    print(drink(back), flush=True)


def start_end(lab, host, role, address):
    return subprocess.Popen(lab.on(host) + [sys.executable, __file__, role, *address],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def lines(lab, some, others):
    """(bytes per second that go and come at each host while all of `some` are busy in
    both directions with all of `others`, seconds one way) of bare TCP."""
    ends, seconds = [], []
    try:
        for i, pair in enumerate(itertools.product(some, others)):
            address = lab.addresses[pair[0]], str(PORT + i)
            ends.append(start_end(lab, pair[0], "serve", address))
            ends[-1].stdout.readline()  # it listens
            ends.append(start_end(lab, pair[1], "ask", address))
            seconds += [float(end.stdout.readline()) for end in ends[-2:]]
        for end in ends:
            end.stdin.write("\n")
            end.stdin.flush()
        rate = sum(float(end.stdout.readline()) for end in ends)
    finally:
        for end in ends:
            end.kill()
            end.communicate()
    return rate / (len(some) + len(others)), statistics.median(seconds)


def main():
    role, address, port = sys.argv[1:]
    if role == "serve":
        with socket.create_server((address, int(port))) as listener:
            print("listens", flush=True)
            end_of_line(False, [listener.accept()[0] for _ in range(2)])
    else:
        end_of_line(True, [socket.create_connection((address, int(port)), 10)
                           for _ in range(2)])


if __name__ == "__main__":
    main()
