#!/usr/bin/env python3
"""Measures `seawall serve` and PostgreSQL on the same machine, with pgbench and psql, both in turns.

  measure_server.py --seawall target/release/seawall --postgresql /usr/lib/postgresql/15/bin --dir /var/tmp/servers

Needs PostgreSQL's programs (initdb, postgres, psql, pgbench) and nothing beside Python. --dir is on the disk to be measured, and is
removed at the end. Both servers keep their defaults, but for what is made equal: memory for pages, connections, no TLS. For each
measurement they take turns (A B A B), each after a checkpoint of its own; the median of --runs counts.

  tpcb-N, simple-N, select-N  pgbench's TPC-B, -N and -S, prepared statements, N clients: transactions a second
  two-phase-80                a TPC-B of three updates that PREPARE TRANSACTION ends, 80 clients: transactions a second
  copy-in, copy-in-numbered   1,000,000 rows by COPY into a new table, with a primary key and without one: rows a second
  copy-in-accounts            1,000,000 rows of pgbench's accounts, with a primary key: rows a second
  aggregate-.., join-..       over 1,000,000 rows: seconds
  tables                      1,000 tables with a key made and dropped again, a transaction each: tables a second
  creates, drops              --tables tables made and dropped again by psql -f, a transaction each, with --tables-cache-mib of memory
                              for pages: tables a second. One run, whatever --runs says: PostgreSQL needs minutes
  lookups                     psql's \\d of a table beside --tables others, made by one transaction each: seconds
  cpu-..                      processor time of the server, user and system, for a statement of one client: microseconds
  busy-..                     the same for a transaction of many clients; beside it on stderr what pgbench itself takes, and how often the
                              threads of a server that are still there afterwards were switched
  log-bytes                   log of a TPC-B transaction of one client, right after a checkpoint: bytes
  idle                        memory of --connections connections that do nothing: MiB
  first-command               README's first command in a copy of the sources without anything built: minutes. Only if it is named

"ratio" is above 1 where Seawall is better, also where less is better.
"""
import argparse, json, os, pwd, re, shutil, signal, socket, statistics, struct, subprocess, sys, tempfile, time

ROWS = 1_000_000
CUSTOMERS = 10_000
TABLES = 1_000
# Measured once: a run takes minutes.
ONCE = ("creates", "drops", "lookups", "first-command")
# Measured only if they are named.
SELDOM = ("first-command",)
WAIT_SECONDS = 60


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seawall", default="target/release/seawall")
    parser.add_argument("--postgresql", default="/usr/lib/postgresql/15/bin", help="where its programs are")
    parser.add_argument("--dir", default="target/servers")
    parser.add_argument("--servers", default="seawall,postgresql")
    parser.add_argument("--only", default="", help="names of measurements, with commas; the beginning of a name is enough")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=20, help="of each run of pgbench")
    parser.add_argument("--scale", type=int, default=10, help="of pgbench: 100,000 accounts each")
    parser.add_argument("--cache-mib", type=int, default=256)
    parser.add_argument("--connections", type=int, default=1000, help="idle ones that are opened for their memory")
    parser.add_argument("--tables", type=int, default=100_000, help="tables that creates, drops and lookups are about")
    parser.add_argument("--tables-cache-mib", type=int, default=8192, help="memory for pages meanwhile")
    parser.add_argument("--json", action="store_true", help="a JSON value instead of the table")
    return parser.parse_args()


def processes():
    """The parent of each process, and the ticks that it, and those of its children that have ended, have used."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    return found


class Server:
    """A server under measurement: its process, and what clients need to reach it."""

    def __init__(self, given, port):
        self.given, self.port, self.cache_mib = given, port, given.cache_mib
        self.directory = os.path.join(given.dir, self.name)
        os.makedirs(self.directory)

    def start(self, command):
        self.log = open(f"{self.directory}.log", "w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + WAIT_SECONDS
        while not self.is_ready():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(f"{self.name} does not start: see {self.log.name}")
            time.sleep(0.1)

    def reopen(self, cache_mib):
        """Starts again, with so much memory for pages; nothing if that is as it was."""
        if cache_mib != self.cache_mib:
            self.stop()
            self.cache_mib = cache_mib
            self.open()

    def is_ready(self):
        return self.run("pg_isready", "-q", check=False).returncode == 0

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(WAIT_SECONDS)

    def family(self):
        """The process and all that came from it, with their ticks."""
        known = processes()
        family, before = {self.process.pid}, 0
        while len(family) != before:
            before = len(family)
            family |= {number for number, (parent, _) in known.items() if parent in family}
        return {number: known[number][1] for number in family}

    def cpu_seconds(self):
        return sum(self.family().values()) / os.sysconf("SC_CLK_TCK")

    def memory_kib(self):
        """Memory of all its processes; what several of them share counts once."""
        total = 0
        for number in self.family():
            try:
                with open(f"/proc/{number}/smaps_rollup") as rollup:
                    total += int(re.search(r"^Pss:\s+(\d+) kB", rollup.read(), re.M).group(1))
            except (FileNotFoundError, ProcessLookupError):
                continue  # It has ended meanwhile.
        return total

    def run(self, program, *options, check=True, text=None):
        reach = ["-h", self.socket_directory, "-p", str(self.port), "-U", "postgres"]
        database = [] if program == "pg_isready" else ["postgres"]
        command = [os.path.join(self.given.postgresql, program), *reach, *options, *database]
        done = subprocess.run(command, capture_output=True, text=True, input=text, env={**os.environ, "PGOPTIONS": ""})
        if check and done.returncode != 0:
            raise SystemExit(f"{self.name}: {' '.join(command)}: {done.stderr.strip()[-2000:]}")
        return done

    def sql(self, text):
        return self.run("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", text=text).stdout.strip()

    def pgbench(self, *options):
        done = self.run("pgbench", "-n", *options)
        self.transactions = int(re.search(r"actually processed: (\d+)", done.stdout).group(1))
        return float(re.search(r"^tps = ([0-9.]+)", done.stdout, re.M).group(1))

    def switches(self):
        """How often its threads and processes that are there now have been switched."""
        total = 0
        for number in self.family():
            try:
                threads = os.listdir(f"/proc/{number}/task")
            except FileNotFoundError:
                continue  # It has ended meanwhile.
            for thread in threads:
                try:
                    with open(f"/proc/{number}/task/{thread}/status") as status:
                        total += sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", status.read())))
                except FileNotFoundError:
                    continue
        return total


class Seawall(Server):
    name = "seawall"

    def open(self):
        self.socket_directory = self.directory
        given = self.given
        self.start([
            given.seawall, "serve", os.path.join(self.directory, "data"), "--port", str(self.port),
            "--socket-directory", self.socket_directory, "--cache-mib", str(self.cache_mib),
            "--connections", str(given.connections + 100),
        ])

    def version(self):
        return subprocess.run([self.given.seawall, "--version"], capture_output=True, text=True, check=True).stdout.strip()


class PostgreSQL(Server):
    name = "postgresql"

    def open(self):
        self.socket_directory = self.directory
        given, data = self.given, os.path.join(self.directory, "data")
        # PostgreSQL refuses to run as root.
        as_user = []
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.directory, user.pw_uid, user.pw_gid)
            as_user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        program = lambda name: os.path.join(given.postgresql, name)
        if not os.path.exists(data):
            initdb = [*as_user, program("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8"]
            subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL)
        settings = {
            "port": self.port,
            "listen_addresses": "",
            "unix_socket_directories": self.socket_directory,
            "shared_buffers": f"{self.cache_mib}MB",
            "max_connections": given.connections + 100,
            "max_prepared_transactions": 100,
        }
        self.start([*as_user, program("postgres"), "-D", data, *(f"--{name}={value}" for name, value in settings.items())])

    def version(self):
        return self.sql("select version()")


class Connections:
    """Connections that have logged in and do nothing."""

    def __init__(self, server, count):
        self.sockets = [self.connect(server) for _ in range(count)]

    @staticmethod
    def connect(server):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(WAIT_SECONDS)
        connection.connect(os.path.join(server.socket_directory, f".s.PGSQL.{server.port}"))
        body = struct.pack("!I", 196608) + b"user\0postgres\0database\0postgres\0\0"
        connection.sendall(struct.pack("!I", len(body) + 4) + body)
        received = b""
        while not received.endswith(b"Z\0\0\0\5I"):
            more = connection.recv(65536)
            if not more:
                raise SystemExit(f"{server.name} refuses a connection: {received[-200:]!r}")
            received += more
        return connection

    def close(self):
        for connection in self.sockets:
            connection.close()


def script(given, name, text):
    path = os.path.join(given.dir, f"{name}.sql")
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o644)
    return path


ACCOUNT = "\\set aid random(1, 100000 * :scale)\n"
TWO_PHASE = ACCOUNT + """\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
begin;
update pgbench_accounts set abalance = abalance + :delta where aid = :aid;
update pgbench_tellers set tbalance = tbalance + :delta where tid = :tid;
insert into pgbench_history (tid, bid, aid, delta, mtime) values (:tid, :bid, :aid, :delta, current_timestamp);
prepare transaction 'transfer-:client_id';
commit prepared 'transfer-:client_id';
"""
UPDATE = ACCOUNT + "update pgbench_accounts set abalance = abalance + 1 where aid = :aid;\n"


def pgbench(options, clients):
    def measure(server, given):
        threads = min(clients, os.cpu_count() or 1)
        return server.pgbench(*options, "-c", str(clients), "-j", str(threads), "-T", str(given.seconds))
    return measure


def two_phase_options(given):
    # The name of a transaction is no parameter, so statements are sent as texts.
    return ["-M", "simple", "-f", script(given, "two-phase", TWO_PHASE), "-D", f"scale={given.scale}"]


def two_phase(server, given):
    return pgbench(two_phase_options(given), 80)(server, given)


def sales(given):
    """A file with rows of sales."""
    path = os.path.join(given.dir, "sales.tsv")
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.writelines(
                f"{number}\t{number * 7919 % CUSTOMERS}\t{number * 31 % 100000 / 100:.2f}\t{number * 37 % 1000}\t"
                f"{2020 + number % 5}-{number % 12 + 1:02}-{number % 28 + 1:02}\n" for number in range(ROWS))
    return path


def accounts(given):
    """A file with rows as pgbench's of accounts."""
    path = os.path.join(given.dir, "accounts.tsv")
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.writelines(f"{number}\t{number // 100_000 + 1}\t0\t{'':84}\n" for number in range(1, ROWS + 1))
    return path


def copy(table, columns, file):
    def measure(server, given):
        path = file(given)
        server.sql(f"drop table if exists {table}; create table {table} ({columns});")
        begun = time.perf_counter()
        server.sql(f"\\copy {table} from '{path}'")
        seconds = time.perf_counter() - begun
        server.sql(f"analyze {table};")
        return ROWS / seconds
    return measure


SALES = "customer integer not null, price numeric(10,2) not null, quantity integer not null, day date not null"
ACCOUNTS = "aid integer not null, bid integer, abalance integer, filler character(84)"
copy_in = copy("sales", f"id bigint primary key, {SALES}", sales)


def query(text):
    def measure(server, _given):
        begun = time.perf_counter()
        server.sql(text)
        return time.perf_counter() - begun
    return measure


def tables(server, _given):
    made = "".join(f"create table made_{n} (id integer primary key, name text);\n" for n in range(TABLES))
    dropped = "".join(f"drop table made_{n};\n" for n in range(TABLES))
    begun = time.perf_counter()
    server.sql(made + dropped)
    return TABLES / (time.perf_counter() - begun)


def statements(server, given, name, text):
    """A file with a statement for each of the tables; the server has the memory for pages that they are measured with."""
    server.reopen(given.tables_cache_mib)
    path = os.path.join(given.dir, f"{name}.sql")
    with open(path, "w") as file:
        file.writelines(text.format(number) for number in range(given.tables))
    os.chmod(path, 0o644)
    return path


def creates(server, given):
    path = statements(server, given, "creates", "create table many_{0} (id integer primary key, name text);\n")
    begun = time.perf_counter()
    server.run("psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-f", path)
    server.has_many = True
    return given.tables / (time.perf_counter() - begun)


def make_many(server, given):
    if not getattr(server, "has_many", False):
        creates(server, given)


def lookups(server, given):
    make_many(server, given)
    begun = time.perf_counter()
    for number in range(10):
        server.sql(f"\\d many_{number * 7}")
    return (time.perf_counter() - begun) / 10


def drops(server, given):
    make_many(server, given)
    path = statements(server, given, "drops", "drop table many_{0};\n")
    begun = time.perf_counter()
    server.run("psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-f", path)
    seconds = time.perf_counter() - begun
    server.has_many = False
    server.reopen(given.cache_mib)
    return given.tables / seconds


def busy(options, clients):
    def measure(server, given):
        threads = min(clients, os.cpu_count() or 1)
        pgbench = [*options(server, given), "-c", str(clients), "-j", str(threads), "-T", str(given.seconds)]
        switches, before, own = server.switches(), server.cpu_seconds(), os.times()
        server.pgbench(*pgbench)
        after = os.times()
        of_pgbench = after.children_user + after.children_system - own.children_user - own.children_system
        count = server.transactions
        print(f"pgbench itself: {of_pgbench * 1e6 / count:.1f} us; switches: {(server.switches() - switches) / count:.1f}",
              file=sys.stderr)
        return (server.cpu_seconds() - before) * 1e6 / count
    return measure


def cpu(mode, make_options, transactions):
    def measure(server, given):
        options = [*make_options(given), "-M", mode, "-c", "1", "-t"]
        server.pgbench(*options, "1000")
        before = server.cpu_seconds()
        server.pgbench(*options, str(transactions))
        return (server.cpu_seconds() - before) * 1e6 / transactions
    return measure


def select_options(_given):
    return ["-S"]


def update_options(given):
    return ["-f", script(given, "update", UPDATE), "-D", f"scale={given.scale}"]


def log_bytes(server, _given):
    transactions = 5_000
    before = server.sql("select pg_current_wal_lsn()")
    server.pgbench("-M", "prepared", "-c", "1", "-t", str(transactions))
    after = server.sql("select pg_current_wal_lsn()")
    return (position(after) - position(before)) / transactions


def position(lsn):
    high, low = lsn.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def idle(server, given):
    Connections(server, 10).close()
    before = server.memory_kib()
    connections = Connections(server, given.connections)
    after = server.memory_kib()
    connections.close()
    return (after - before) / 1024


def first_command(server, given):
    if server.name != "seawall":
        return None
    sources = os.path.join(given.dir, "sources")
    subprocess.run(["git", "clone", "-q", os.path.dirname(os.path.dirname(os.path.abspath(__file__))), sources], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
    begun = time.perf_counter()
    # As `cargo run --release -- serve ledger` builds it; --version, so that it ends.
    subprocess.run(["cargo", "run", "-q", "--release", "--", "--version"], cwd=sources, env=environment, check=True,
                   stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begun) / 60


# Name: what a figure is, whether less is better, how it is measured.
MEASUREMENTS = {
    **{f"tpcb-{n}": ("transactions/s", False, pgbench(["-M", "prepared"], n)) for n in (1, 8, 32)},
    **{f"simple-{n}": ("transactions/s", False, pgbench(["-M", "prepared", "-N"], n)) for n in (8, 32)},
    "select-8": ("transactions/s", False, pgbench(["-M", "prepared", "-S"], 8)),
    "two-phase-80": ("transactions/s", False, two_phase),
    "copy-in": ("rows/s", False, copy_in),
    "copy-in-numbered": ("rows/s", False, copy("numbered", f"id bigint, {SALES}", sales)),
    "copy-in-accounts": ("rows/s", False, copy("accounts", f"{ACCOUNTS}, primary key (aid)", accounts)),
    "aggregate-total": ("s", True, query("select count(*), sum(quantity), max(day) from sales;")),
    "aggregate-groups": ("s", True, query("select customer, count(*), sum(quantity), min(day) from sales group by customer;")),
    "aggregate-numeric": ("s", True, query("select quantity, avg(price), sum(price * quantity) from sales group by quantity;")),
    "join-small": ("s", True, query("select region, count(*), sum(quantity) from sales join customers on customers.id = customer "
                                    "group by region;")),
    "join-large": ("s", True, query("select count(*), sum(a.quantity + b.quantity) from sales a join sales b on a.id = b.id + 1;")),
    "tables": ("tables/s", False, tables),
    "cpu-select": ("us", True, cpu("prepared", select_options, 50_000)),
    "cpu-select-text": ("us", True, cpu("simple", select_options, 50_000)),
    "cpu-update": ("us", True, cpu("prepared", update_options, 10_000)),
    **{f"busy-simple-{n}": ("us", True, busy(lambda _server, _given: ["-M", "prepared", "-N"], n)) for n in (8, 32)},
    "busy-two-phase-80": ("us", True, busy(lambda _server, given: two_phase_options(given), 80)),
    "log-bytes": ("bytes", True, log_bytes),
    "idle": ("MiB", True, idle),
    "creates": ("tables/s", False, creates),
    "lookups": ("s", True, lookups),
    "drops": ("tables/s", False, drops),
    "first-command": ("min", True, first_command),
}


def prepare(server, given, names):
    server.run("pgbench", "-i", "-q", "-s", str(given.scale))
    if any(name.startswith(("copy", "aggregate", "join")) for name in names):
        server.sql(f"create table customers (id integer primary key, region text not null);"
                   f"insert into customers select n, 'region ' || n % 20 from generate_series(0, {CUSTOMERS - 1}) n; analyze customers;")
        if "copy-in" not in names:
            copy_in(server, given)


def measured(given, servers, names):
    results = {name: {server.name: [] for server in servers} for name in names}
    for run in range(given.runs):
        for name in (name for name in names if run == 0 or name not in ONCE):
            for server in servers:
                server.sql("checkpoint;")
                figure = MEASUREMENTS[name][2](server, given)
                if figure is None:
                    continue
                results[name][server.name].append(figure)
                print(f"run {run + 1}: {name}: {server.name}: {shown(figure)} {MEASUREMENTS[name][0]}", file=sys.stderr)
    return results


def shown(figure):
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def table(results):
    print("| measurement | unit | Seawall | PostgreSQL | ratio |\n|---|---|---:|---:|---:|")
    for name, figures in results.items():
        unit, less_is_better, _ = MEASUREMENTS[name]
        cells, medians = [], []
        for server in ("seawall", "postgresql"):
            runs = figures.get(server, [])
            medians.append(statistics.median(runs) if runs else None)
            cells.append(f"{shown(medians[-1])} ({', '.join(map(shown, runs))})" if runs else "")
        ratio = ""
        if all(medians):
            seawall, postgresql = medians
            ratio = f"{postgresql / seawall if less_is_better else seawall / postgresql:.2f}"
        print(f"| {name} | {unit} | {cells[0]} | {cells[1]} | {ratio} |")


def main():
    given = arguments()
    wanted = tuple(filter(None, given.only.split(",")))
    names = [name for name in MEASUREMENTS if name.startswith(wanted or "") and (wanted or name not in SELDOM)]
    os.makedirs(given.dir, exist_ok=True)
    given.dir = tempfile.mkdtemp(dir=os.path.abspath(given.dir))
    os.chmod(given.dir, 0o755)
    kinds = {"seawall": Seawall, "postgresql": PostgreSQL}
    servers, port = [], 25432
    try:
        for name in given.servers.split(","):
            server = kinds[name](given, port)
            port += 1
            server.open()
            servers.append(server)
            print(server.version(), file=sys.stderr)
            prepare(server, given, names)
        results = measured(given, servers, names)
    finally:
        for server in servers:
            server.stop()
        shutil.rmtree(given.dir)
    if given.json:
        print(json.dumps(results, indent=2))
    else:
        table(results)


if __name__ == "__main__":
    main()
