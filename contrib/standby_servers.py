"""A primary and a standby of `seawall serve` or of PostgreSQL, for measure_standby.py."""
import os, pwd, re, shutil, signal, socket, struct, subprocess, threading, time

from measure_server import Server, position

CATCH_UP_SECONDS = 3_600
WAIT_SECONDS = 60


class Connection:
    """A session for short questions, which costs next to nothing while it rests."""

    def __init__(self, server):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_SECONDS)
        self.socket.connect(os.path.join(server.socket_directory, f".s.PGSQL.{server.port}"))
        body = struct.pack("!I", 196608) + b"user\0postgres\0database\0postgres\0\0"
        self.socket.sendall(struct.pack("!I", len(body) + 4) + body)
        self.received = b""
        self.answer()

    def take(self, count):
        while len(self.received) < count:
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("the server has ended the connection")
            self.received += more
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def answer(self):
        """The first field of the last row, if there is one; an error as an exception."""
        field, error = None, None
        while True:
            kind, length = struct.unpack("!cI", self.take(5))
            body = self.take(length - 4)
            if kind == b"D" and body[:2] != b"\0\0":
                size = struct.unpack("!i", body[2:6])[0]
                field = None if size < 0 else body[6:6 + size].decode()
            elif kind == b"E":
                error = body
            elif kind == b"Z":
                if error:
                    raise RuntimeError(error.replace(b"\0", b" ").decode())
                return field

    def ask(self, text):
        body = text.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!I", len(body) + 4) + body)
        return self.answer()

    def close(self):
        self.socket.close()


class Share:
    """A share of one processor for a process and its children: a control group, or else stops by signals."""

    def __init__(self, share):
        self.share, self.group, self.stopping = share, None, None
        name = f"measure-standby-{os.getpid()}"
        for root, setting, value in [
            ("/sys/fs/cgroup", "cpu.max", f"{int(share * 100_000)} 100000"),
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", str(int(share * 100_000))),
        ]:
            if not os.path.exists(os.path.join(root, "cgroup.procs")):
                continue
            group = os.path.join(root, name)
            try:
                os.mkdir(group)
            except OSError:
                continue
            try:
                # Without making a file: a group that lacks it has no such controller.
                with open(os.open(os.path.join(group, setting), os.O_WRONLY), "w") as file:
                    file.write(value)
                self.group = group
                return
            except OSError:
                os.rmdir(group)

    def command(self, command):
        """The command, in the group from its beginning on."""
        if not self.group:
            return command
        return ["sh", "-c", f"echo $$ > {self.group}/cgroup.procs && exec \"$@\"", "sh", *command]

    def hold(self, server):
        """Without a group: stops the processes for the rest of each tenth of a second."""
        if self.group:
            return
        self.stopping = threading.Event()

        def alternate():
            while not self.stopping.is_set():
                for send, seconds in [(signal.SIGCONT, self.share * 0.1), (signal.SIGSTOP, (1 - self.share) * 0.1)]:
                    for number in server.family():
                        try:
                            os.kill(number, send)
                        except ProcessLookupError:
                            pass
                    self.stopping.wait(seconds)
            for number in server.family():
                os.kill(number, signal.SIGCONT)

        self.thread = threading.Thread(target=alternate)
        self.thread.start()

    def end(self):
        if self.stopping:
            self.stopping.set()
            self.thread.join()
            self.stopping = None

    def remove(self):
        self.end()
        if self.group:
            for _ in range(50):
                try:
                    os.rmdir(self.group)
                    return
                except OSError:
                    time.sleep(0.1)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def with_slow_syncs(command, milliseconds):
    """The command, with so much more for each call that makes something durable. strace is no parent of the server: signals reach the server."""
    calls = "fdatasync,fsync,pwritev2"
    return ["strace", "-D", "-f", "--seccomp-bpf", "-qqq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", "signal=none",
            "-e", f"inject={calls}:delay_exit={milliseconds * 1000}", *command]


class Node(Server):
    """A primary or a standby. What differs between products is in the classes below."""

    def __init__(self, given, name, port, upstream=None):
        self.name, self.upstream, self.share, self.processor, self.sync_ms = name, upstream, None, None, 0
        # Standbys that its commits wait for, as PostgreSQL writes them.
        self.acknowledged_by = ""
        super().__init__(given, port)
        self.socket_directory = self.directory
        self.data = os.path.join(self.directory, "data")

    def launch(self, command):
        if self.share:
            command = self.share.command(command)
        if self.sync_ms:
            command = with_slow_syncs(command, self.sync_ms)
        if self.processor is not None:
            command = ["taskset", "-c", str(self.processor), *command]
        self.start(command)
        if self.share:
            self.share.hold(self)

    def stop(self):
        if self.process.poll() is None:
            if self.share:
                self.share.end()
            super().stop()

    def kill(self):
        for number in self.family():
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait(WAIT_SECONDS)

    def memory(self):
        """Proportional and anonymous KiB of all its processes."""
        proportional = anonymous = 0
        for number in self.family():
            try:
                with open(f"/proc/{number}/smaps_rollup") as rollup:
                    text = rollup.read()
            except (FileNotFoundError, ProcessLookupError):
                continue
            size = lambda name: int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M).group(1))
            proportional, anonymous = proportional + size("Pss"), anonymous + size("Anonymous")
        return proportional, anonymous


    def make(self, origin):
        """Makes a standby whose upstream is another server than the one that it is copied from."""


class SeawallNode(Node):
    product = "seawall"

    def make(self, origin):
        upstream, self.upstream = self.upstream, origin
        self.open()
        self.stop()
        self.upstream = upstream

    def open(self):
        given = self.given
        own = self.name.replace("-", "_")
        follow = []
        if self.upstream:
            host = f"host={self.upstream.socket_directory} port={self.upstream.port} user=postgres"
            follow = ["--follow", f"{host} application_name={own} slot={own}"]
        self.launch([
            given.seawall, "serve", self.data, "--port", str(self.port), "--socket-directory", self.socket_directory,
            "--cache-mib", str(given.cache_mib), "--connections", str(given.connections), *follow,
            *(["--synchronous-standby-names", self.acknowledged_by] if self.acknowledged_by else []),
        ])

    def promote(self):
        return subprocess.run([self.given.seawall, "promote", self.data], check=True, capture_output=True, text=True).stdout.strip()


class PostgreSQLNode(Node):
    product = "postgresql"

    def program(self, name):
        as_user = []
        if os.geteuid() == 0:
            as_user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        return [*as_user, os.path.join(self.given.postgresql, name)]

    def open(self):
        given = self.given
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.directory, user.pw_uid, user.pw_gid)
        if not os.path.exists(self.data):
            make = [*self.program("initdb"), "-D", self.data, "-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8"]
            if self.upstream:
                make = [*self.program("pg_basebackup"), "-D", self.data, "-h", self.upstream.socket_directory, "-p", str(self.upstream.port),
                        "-U", "postgres", "-R", "-X", "stream", "-c", "fast", "-C", "-S", "standby"]
            subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        settings = {
            "port": self.port, "listen_addresses": "", "unix_socket_directories": self.socket_directory,
            "shared_buffers": f"{given.cache_mib}MB", "max_connections": given.connections, "max_prepared_transactions": 200,
            "synchronous_standby_names": self.acknowledged_by,
        }
        self.launch([*self.program("postgres"), "-D", self.data, *(f"--{name}={value}" for name, value in settings.items())])

    def promote(self):
        subprocess.run([*self.program("pg_ctl"), "promote", "-D", self.data, "-W"], check=True, stdout=subprocess.DEVNULL)
        return ""


class Pair:
    """A primary with its load prepared, and a standby that has all of it; a second standby, which follows that one, has it, too."""

    def __init__(self, given, product, prepare, share=None, processors=(None, None), sync_ms=0, has_second=False):
        kind = {"seawall": SeawallNode, "postgresql": PostgreSQLNode}[product]
        given.number = getattr(given, "number", 0) + 1
        self.primary = kind(given, f"{product}-{given.number}-primary", free_port())
        self.primary.processor = processors[0]
        self.primary.open()
        self.standby = self.second = None
        try:
            prepare(self.primary, given)
            self.primary.sql("checkpoint;")
            self.standby = kind(given, f"{product}-{given.number}-standby", free_port(), self.primary)
            self.standby.processor, self.standby.share, self.standby.sync_ms = processors[1], share, sync_ms
            self.standby.acknowledged_by = "*" if has_second else ""
            self.standby.open()
            self.wait_until_caught_up()
            if has_second:
                self.second = kind(given, f"{product}-{given.number}-second", free_port(), self.standby)
                self.second.make(self.primary)
                self.second.open()
                self.wait_until_caught_up()
        except BaseException:
            self.end()
            raise

    def end_of_log(self):
        return position(self.primary.sql("select pg_current_wal_flush_lsn()"))

    def wait_until_caught_up(self):
        for standby in filter(None, (self.standby, self.second)):
            self.wait_for(standby, self.end_of_log())

    def wait_for(self, standby, end):
        deadline = time.monotonic() + CATCH_UP_SECONDS
        connection = Connection(standby)
        while True:
            shown_until = position(connection.ask("select pg_last_wal_replay_lsn()") or "0/0")
            if shown_until >= end:
                connection.close()
                return
            if time.monotonic() > deadline:
                raise SystemExit(f"{standby.name} does not catch up: see {standby.log.name}")
            time.sleep(0.005)

    def end(self):
        for node in (self.second, self.standby, self.primary):
            if node:
                node.stop()
                if node.share:
                    node.share.remove()
                shutil.rmtree(node.directory)
