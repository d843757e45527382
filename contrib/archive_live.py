"""What measure_archive.py measures with a live PostgreSQL: the lag of its archiver, and what archiving costs it.

A cluster and a store are made in a scratch directory, and listen on this machine only. If root starts this, PostgreSQL and the archiver
run as the user postgres, who must be able to read their programs."""
import contextlib, json, os, pwd, socket, subprocess, sys, tempfile, time

SEGMENT_BYTES = 16 << 20
MESSAGE_BYTES = 64 << 10
# What the published query computes from these is their distance in segments.
LAG_QUERY = "select pg_walfile_name(pg_current_wal_lsn()), last_archived_wal, failed_count, archived_count from pg_stat_archiver"
KEY, SECRET = "archive", "archive-secret"
GIVEN_REPOSITORY = os.environ.get("SEAWALL_REPOSITORY")


# PostgreSQL does not run as root.
USER = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


@contextlib.contextmanager
def scratch_directory(parent):
    with tempfile.TemporaryDirectory(dir=parent) as scratch:
        if USER:
            user = pwd.getpwnam("postgres")
            os.chown(scratch, user.pw_uid, user.pw_gid)
            os.environ["HOME"] = user.pw_dir
        yield scratch


def shell(command, directory=None, **more):
    return subprocess.run(["sh", "-c", command], cwd=directory, **USER, **more)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for(what, is_there, seconds=60):
    end = time.time() + seconds
    while not is_there():
        if time.time() > end:
            raise SystemExit(f"{what} does not come")
        time.sleep(0.1)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def segment_number(name):
    return (int(name[8:16], 16) << 8) + int(name[16:24], 16)


class Store:
    """versitygw, with a bucket, behind slow_store.py."""

    def __init__(self, scratch, program, put_ms, jitter_ms):
        self.port, behind = free_port(), free_port()
        os.makedirs(f"{scratch}/store/wal")
        log = open(f"{scratch}/store.log", "w")
        keys = ["--access", KEY, "--secret", SECRET]
        self.store = subprocess.Popen(
            [program, *keys, "--port", f"127.0.0.1:{behind}", "posix", f"{scratch}/store"], stdout=log, stderr=log
        )
        wait_for("the store", lambda: listens(behind))
        slow = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slow_store.py")
        delays = ["--put-ms", str(put_ms), "--jitter-ms", str(jitter_ms)]
        command = [sys.executable, slow, "--store", str(behind), "--listen", str(self.port), *delays]
        self.slow = subprocess.Popen(command, stdin=subprocess.PIPE)
        wait_for("the slow store", lambda: listens(self.port))
        self.url = f"s3://wal/archive?endpoint=http://127.0.0.1:{self.port}&region=us-east-1"

    def stop(self):
        self.slow.stdin.close()
        self.slow.wait()
        self.store.terminate()
        self.store.wait()


class Server:
    """A PostgreSQL that archives."""

    def __init__(self, scratch, programs, settings):
        self.programs, self.data, self.port, self.socket = programs, f"{scratch}/data", free_port(), scratch
        self.log = f"{scratch}/server.log"
        self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "--no-sync", quiet=True)
        with open(f"{self.data}/postgresql.conf", "a") as config:
            config.write(f"listen_addresses=''\nunix_socket_directories='{scratch}'\nport={self.port}\narchive_mode=on\n")
            config.write("archive_command='/bin/false'\nmax_wal_size=64GB\ncheckpoint_timeout=30min\n" + settings)
        self.run("pg_ctl", "-D", self.data, "-l", self.log, "-w", "start", quiet=True)

    def run(self, program, *words, quiet=False):
        output = subprocess.DEVNULL if quiet else None
        subprocess.run([f"{self.programs}/{program}", *words], check=True, stdout=output, cwd=self.socket, **USER)

    def client(self, program, *words):
        return [f"{self.programs}/{program}", "-h", self.socket, "-p", str(self.port), "-U", "postgres", *words]

    def ask(self, query):
        words = self.client("psql", "-XAtq", "-F", "\t", "-d", "postgres", "-c", query)
        return subprocess.run(words, check=True, capture_output=True, text=True, **USER).stdout.strip().split("\t")

    def fill(self, scale):
        words = self.client("pgbench", "-i", "-q", "-s", str(scale), "postgres")
        subprocess.run(words, check=True, capture_output=True, **USER)

    def archive_with(self, command):
        self.ask("alter system set archive_command = '%s'" % command.replace("'", "''"))
        self.ask("select pg_reload_conf()")

    def pgbench(self, *words):
        words = self.client("pgbench", "-n", *words, "postgres")
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **USER)

    def lag(self):
        """In segments; 1 is none: the segment that is being written. And how many calls have failed."""
        now, archived, failed, _ = self.ask(LAG_QUERY)
        return segment_number(now) - (segment_number(archived) if archived else 0), int(failed)

    def stop(self):
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop", quiet=True)


def prepare_messages(server):
    """Texts of which LZ4 makes half, so that a load costs PostgreSQL little."""
    text = f"select string_agg(md5((a * 100000 + b)::text), '') from generate_series(1, {MESSAGE_BYTES // 32}) b"
    server.ask(f"create table texts as select a as id, ({text}) as content from generate_series(1, 100) a")
    script = f"{server.socket}/messages.sql"
    with open(script, "w") as file:
        file.write("\\set id random(1, 100)\nselect pg_logical_emit_message(false, 'load', content) from texts where id = :id;\n")
    return script


def tps_of(output):
    lines = [line for line in output.splitlines() if line.startswith("tps")]
    if not lines:
        raise SystemExit(output)
    return round(float(lines[-1].split("=")[1].split()[0]), 1)


def agent_numbers(given, server):
    """The agent's own: what it says of uploads, acknowledgements and answers."""
    if not given.status:
        return None
    words = shell(given.status, server.data, capture_output=True, text=True)
    if words.returncode != 0:
        return {"error": words.stderr.strip()}
    status = json.loads(words.stdout)
    repository = status["repositories"][0]
    names = {"uploads": repository, "requests": repository, "acknowledgements": status, "answers": status}
    return {name: of.get(name) for name, of in names.items()}


def lag(given, put_ms, jitter_ms, rate):
    """One load, and the lag each second; then how long it takes until nothing waits."""
    with scratch_directory(given.scratch) as scratch:
        store = Store(scratch, given.store, put_ms, jitter_ms)
        os.environ.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET, SEAWALL_REPOSITORY=store.url)
        os.environ["SEAWALL_SPOOL"] = f"{scratch}/spool"
        server = Server(scratch, given.postgresql, "")
        try:
            if given.create:
                shell(given.create, check=True, stdout=subprocess.DEVNULL)
            script = prepare_messages(server)
            if not rate:
                server.fill(given.scale)
            server.ask("checkpoint")
            server.archive_with(given.push)
            server.ask("select pg_switch_wal()")
            wait_for("the first archived segment", lambda: server.lag()[0] <= 1, 300)
            begun, first = time.time(), segment_number(server.ask(LAG_QUERY)[0])
            load = ["-T", str(given.seconds)]
            if rate:
                load += ["-c", "2", "-j", "2", "-f", script, "-R", str(rate * SEGMENT_BYTES / MESSAGE_BYTES)]
            else:
                load += ["-c", "1"]
            bench = server.pgbench(*load)
            lags, following, failed_before = [], begun, server.lag()[1]
            while bench.poll() is None:
                lags.append(server.lag()[0])
                following += 1
                time.sleep(max(0, following - time.time()))
            seconds, ended = time.time() - begun, time.time()
            written = segment_number(server.ask(LAG_QUERY)[0]) - first
            at_end = server.lag()[0]
            wait_for("the end of the queue", lambda: server.lag()[0] <= 1, given.drain_max)
            return {
                "put_ms": put_ms,
                "jitter_ms": jitter_ms,
                "load": f"{rate} segments a second" if rate else f"TPC-B, one client, scale {given.scale}",
                "seconds": round(seconds, 1),
                "segments": written,
                "segments_per_second": round(written / seconds, 2),
                "tps": tps_of(bench.stdout.read()),
                "largest_lag": max(lags),
                "lag_at_end": at_end,
                "drain_seconds": round(time.time() - ended, 1),
                "failed_calls": server.lag()[1] - failed_before,
                "lags": lags,
                "agent": agent_numbers(given, server),
            }
        finally:
            stop_all(given, server, store)


def beside(given):
    """TPC-B alone, with segments that are archived beside it, and alone again."""
    with scratch_directory(given.scratch) as scratch:
        os.environ["SEAWALL_SPOOL"] = f"{scratch}/spool"
        os.environ["SEAWALL_REPOSITORY"] = GIVEN_REPOSITORY or f"{scratch}/repository"
        server = Server(scratch, given.postgresql, "synchronous_commit=on\n")
        try:
            if given.create:
                shell(given.create, check=True, stdout=subprocess.DEVNULL)
            script = prepare_messages(server)
            server.fill(given.scale)
            each = given.count * SEGMENT_BYTES // MESSAGE_BYTES
            server.pgbench("-c", "1", "-t", str(each), "-f", script).communicate()
            server.ask("checkpoint")
            waiting = lambda: sum(name.endswith(".ready") for name in os.listdir(f"{server.data}/pg_wal/archive_status"))
            begun_with = waiting()

            def tps():
                bench = server.pgbench("-c", "4", "-j", "2", "-T", str(given.seconds))
                return tps_of(bench.communicate()[0])

            before = tps()
            server.archive_with(given.push)
            begun = time.time()
            during, left = tps(), waiting()
            wait_for("the end of the queue", lambda: waiting() == 0, given.drain_max)
            pushed = time.time() - begun
            server.archive_with("/bin/true")
            after = tps()
            alone = (before + after) / 2
            return {
                "segments": begun_with,
                "tps_before": before,
                "tps_during": during,
                "tps_after": after,
                "loss_percent": round((1 - during / alone) * 100, 1),
                "waiting_at_the_end_of_the_load": left,
                "seconds_until_nothing_waits": round(pushed, 1),
                "agent": agent_numbers(given, server),
            }
        finally:
            stop_all(given, server, None)


def stop_all(given, server, store):
    if given.stop:
        shell(given.stop, server.data, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server.stop()
    if store:
        store.stop()


def run(given):
    """What the arguments ask for; prints a JSON object for each run."""
    if given.lag:
        for put_ms in given.put_ms:
            for rate in given.rate:
                print(json.dumps(lag(given, put_ms, given.jitter_ms, rate)), flush=True)
    if given.beside:
        print(json.dumps(beside(given)), flush=True)
