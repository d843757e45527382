#!/usr/bin/env python3
"""Measures standbys of `seawall serve` and of PostgreSQL on the same machine, with pgbench and psql, both in turns.

  measure_standby.py --seawall target/release/seawall --postgresql /usr/lib/postgresql/15/bin --dir /var/tmp/standbys

Needs PostgreSQL's programs (initdb, postgres, pg_basebackup, pg_ctl, psql, pgbench) and nothing beside Python. --dir is on the disk to be
measured, and is removed at the end. Each cell gets a new primary and a new standby, connected by a Unix socket; PostgreSQL's standby is made by
pg_basebackup, with a slot. Both servers keep their defaults, but for memory for pages, connections, and no TLS.

Loads (--loads):
  two-phase     --clients clients, each update of one row by PREPARE TRANSACTION and COMMIT PREPARED, --seconds long, with checkpoints
  tpcb          pgbench's TPC-B, 8 clients, --seconds long, with checkpoints
  drop          --tables tables dropped by psql, a transaction each
  drop-4        the same, four of them a transaction
  truncate      --tables tables of one row truncated by psql, a transaction each
  insert-N      N transactions that insert 10,000 rows of three texts of 135 digits each
  mixed         --seconds long: one client drops and makes tables, seven update rows and insert 10,000 at a time

Modes (--modes), of each load:
  live          the standby follows during the load
  weak          the same with a quarter of a processor for the standby: a control group, or else stops of the process by signals
  slow-disk     the same with 5 ms more for each sync of the standby (needs strace, which delays the calls)
  later         the standby is started after the load
  resumed       the standby receives during the load, and applies after it

Other measurements (--loads):
  promotion     TPC-B on the primary, which is killed; then from the order (`seawall promote`, `pg_ctl promote`) to the first row that
                the former standby has acknowledged, to a session that was there before. --runs tries
  promotion-acknowledged  the same, and the row waits until a standby of the former standby has it on stable storage
  cost          TPC-B of --seconds with a standby and without one, in turns. The primary and pgbench have processor 0, the standby has another
                one: what its apply costs is not taken from the primary. --runs of both

"produced" is the time of the load, "catch-up" the time after it until the standby shows all of it (in mode later: from the start of the
process). Ten times a second the primary is asked for the end of its log, and the standby until it shows that: the time between is the lag
in milliseconds. "questions" is the time of the two questions alone, which the lag holds, too. --csv DIR gets a file for each cell, with a
line for each second: highest lag in bytes and milliseconds, memory of the standby in KiB (proportional and anonymous).
"""
import argparse, csv, json, os, random, shutil, signal, statistics, sys, tempfile, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measure_server import position, script, shown
from standby_servers import Connection, Pair, Share, WAIT_SECONDS

LOADS = "two-phase,tpcb,drop,drop-4,truncate,insert-300,insert-900,mixed"
ROWS_EACH = 10_000
TABLES_EACH = 1_000
MIXED_TABLES = 3_000
SAMPLE_SECONDS = 0.1
QUARTER = 0.25
SLOW_SYNC_MS = 5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seawall", default="target/release/seawall")
    parser.add_argument("--postgresql", default="/usr/lib/postgresql/15/bin", help="where its programs are")
    parser.add_argument("--dir", default="target/standbys")
    parser.add_argument("--servers", default="seawall,postgresql")
    parser.add_argument("--loads", default=LOADS + ",promotion,promotion-acknowledged,cost")
    parser.add_argument("--modes", default="live,weak,later")
    parser.add_argument("--seconds", type=int, default=200, help="of loads that end by time")
    parser.add_argument("--tables", type=int, default=100_000, help="that are dropped or truncated")
    parser.add_argument("--clients", type=int, default=80, help="of the two-phase load")
    parser.add_argument("--checkpoint-seconds", type=float, default=30, help="between two checkpoints of the primary; 0: its own only")
    parser.add_argument("--scale", type=int, default=10, help="of pgbench: 100,000 accounts each")
    parser.add_argument("--cache-mib", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3, help="of promotions and cost")
    parser.add_argument("--csv", default="", help="directory for a file of each cell")
    parser.add_argument("--json", action="store_true", help="a JSON value for each cell instead of the table")
    given = parser.parse_args()
    given.connections = 200
    return given


class Watch:
    """Looks at the lag and the memory of a standby until it is ended."""

    def __init__(self, pair):
        self.pair, self.seconds, self.lags, self.questions, self.failure = pair, {}, [], [], None
        self.ended, self.begun = threading.Event(), time.monotonic()
        self.threads = [threading.Thread(target=self.keep, args=(look,)) for look in (self.look_at_lag, self.look_at_memory)]
        for thread in self.threads:
            thread.start()

    def keep(self, look):
        try:
            look()
        except (OSError, RuntimeError) as error:
            self.failure = error

    def note(self, **figures):
        second = self.seconds.setdefault(int(time.monotonic() - self.begun), {})
        for name, figure in figures.items():
            second[name] = max(second.get(name, 0), figure)

    def look_at_lag(self):
        primary, standby = Connection(self.pair.primary), Connection(self.pair.standby)
        while not self.ended.is_set():
            asked = time.monotonic()
            end = position(primary.ask("select pg_current_wal_flush_lsn()"))
            rest, is_first = 0.0005, True
            while not self.ended.is_set():
                behind = end - position(standby.ask("select pg_last_wal_replay_lsn()") or "0/0")
                lag = (time.monotonic() - asked) * 1000
                if is_first:
                    self.questions.append(lag)
                    is_first = False
                self.note(bytes=max(behind, 0), milliseconds=lag)
                if behind <= 0:
                    self.lags.append(lag)
                    break
                self.ended.wait(rest)
                rest = min(rest * 1.5, 0.05)
            self.ended.wait(max(0, SAMPLE_SECONDS - (time.monotonic() - asked)))
        primary.close()
        standby.close()

    def look_at_memory(self):
        while not self.ended.wait(1):
            proportional, anonymous = self.pair.standby.memory()
            self.note(proportional=proportional, anonymous=anonymous)

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        if self.failure:
            raise SystemExit(f"the standby cannot be watched: {self.failure}")

    def highest(self, name):
        return max((second.get(name, 0) for second in self.seconds.values()), default=0)

    @staticmethod
    def quantile(figures, share):
        ordered = sorted(figures)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")

    def write(self, path):
        with open(path, "w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["second", "lag_bytes", "lag_milliseconds", "proportional_kib", "anonymous_kib"])
            for second, figures in sorted(self.seconds.items()):
                lines.writerow([second, figures.get("bytes", ""), f"{figures.get('milliseconds', 0):.1f}",
                                figures.get("proportional", ""), figures.get("anonymous", "")])


class Checkpoints:
    """Checkpoints of the primary at an interval."""

    def __init__(self, primary, seconds):
        self.ended = threading.Event()

        def keep():
            while not self.ended.wait(seconds):
                primary.sql("checkpoint;")

        self.thread = threading.Thread(target=keep) if seconds else None
        if self.thread:
            self.thread.start()

    def end(self):
        self.ended.set()
        if self.thread:
            self.thread.join()


# Loads: how a primary is prepared, and what runs then.

ACCOUNT = "\\set aid random(1, 100000 * :scale)\n"
UPDATE = "update pgbench_accounts set abalance = abalance + 1 where aid = :aid;\n"
TWO_PHASE = f"{ACCOUNT}begin;\n{UPDATE}prepare transaction 'update-:client_id';\ncommit prepared 'update-:client_id';\n"
MIXED_DROP = f"\\set n random(1, {MIXED_TABLES})\nbegin;\ndrop table mixed_:n;\ncreate table mixed_:n (id integer);\ncommit;\n"
MIXED_INSERT = "begin;\ntruncate inserted_:client_id;\ninsert into inserted_:client_id select * from digits;\ncommit;\n"


def accounts(primary, given):
    primary.run("pgbench", "-i", "-q", "-s", str(given.scale))


def statements(primary, texts, per_transaction=TABLES_EACH):
    def lines():
        for first in range(0, len(texts), per_transaction):
            yield "begin;\n" + "\n".join(texts[first:first + per_transaction]) + "\ncommit;\n"
    primary.sql("".join(lines()))


def empty_tables(primary, given):
    statements(primary, [f"create table t_{n} (id integer);" for n in range(given.tables)])


def tables_of_a_row(primary, given):
    statements(primary, [f"create table t_{n} (id integer); insert into t_{n} values (1);" for n in range(given.tables)])


def digits(primary, given):
    path = os.path.join(given.dir, "digits.tsv")
    if not os.path.exists(path):
        draw = random.Random(7)
        with open(path, "w") as file:
            for _ in range(ROWS_EACH):
                file.write("\t".join(f"{draw.randrange(10 ** 135):0135}" for _ in range(3)) + "\n")
        os.chmod(path, 0o644)
    primary.sql(f"create table digits (a text, b text, c text);\n\\copy digits from '{path}'")
    primary.sql("create table inserted (a text, b text, c text);")


def mixed_tables(primary, given):
    accounts(primary, given)
    digits(primary, given)
    statements(primary, [f"create table mixed_{n} (id integer);" for n in range(1, MIXED_TABLES + 1)])
    statements(primary, [f"create table inserted_{n} (a text, b text, c text);" for n in range(7)])


def timed(primary, given, files, clients, *options):
    paths = [part for name, text, weight in files for part in ("-f", f"{script(given, name, text)}@{weight}")]
    primary.run("pgbench", "-n", "-M", "simple", "-c", str(clients), "-j", "2", "-T", str(given.seconds),
                "-D", f"scale={given.scale}", *options, *paths)


def two_phase(primary, given):
    timed(primary, given, [("two-phase", TWO_PHASE, 1)], given.clients)


def tpcb(primary, given):
    primary.pgbench("-M", "prepared", "-c", "8", "-j", "2", "-T", str(given.seconds))


def shuffled(given):
    numbers = list(range(given.tables))
    random.Random(7).shuffle(numbers)
    return numbers


def drop(primary, given):
    primary.sql("".join(f"drop table t_{n};\n" for n in shuffled(given)))


def drop_four(primary, given):
    statements(primary, [f"drop table t_{n};" for n in shuffled(given)], 4)


def truncate(primary, given):
    primary.sql("".join(f"truncate t_{n};\n" for n in shuffled(given)))


def insert(count):
    def load(primary, _given):
        primary.sql("insert into inserted select * from digits;\n" * count)
    return load


def mixed(primary, given):
    drops = threading.Thread(target=timed, args=(primary, given, [("mixed-drop", MIXED_DROP, 1)], 1))
    drops.start()
    timed(primary, given, [("mixed-update", ACCOUNT + UPDATE, 9999), ("mixed-insert", MIXED_INSERT, 1)], 7)
    drops.join()


LOADS_MADE = {
    "two-phase": (accounts, two_phase), "tpcb": (accounts, tpcb), "drop": (empty_tables, drop), "drop-4": (empty_tables, drop_four),
    "truncate": (tables_of_a_row, truncate), "mixed": (mixed_tables, mixed),
}


def load_named(name):
    if name.startswith("insert-"):
        return digits, insert(int(name.removeprefix("insert-")))
    return LOADS_MADE[name]


def measure(given, product, name, mode):
    """A cell: what a load took, and what the standby made of it."""
    prepare, load = load_named(name)
    share, sync_ms = Share(QUARTER) if mode == "weak" else None, SLOW_SYNC_MS if mode == "slow-disk" else 0
    pair = Pair(given, product, prepare, share, sync_ms=sync_ms)
    try:
        before = pair.standby.cpu_seconds()
        watch = None
        if mode == "later":
            pair.standby.stop()
        elif mode == "resumed":
            pair.standby.sql("select pg_wal_replay_pause()")
        else:
            watch = Watch(pair)
        checkpoints = Checkpoints(pair.primary, given.checkpoint_seconds)
        log_begun, begun = pair.end_of_log(), time.monotonic()
        load(pair.primary, given)
        produced = time.monotonic() - begun
        checkpoints.end()
        log_bytes = pair.end_of_log() - log_begun
        begun = time.monotonic()
        if mode == "later":
            pair.standby.open()
            before = 0
        elif mode == "resumed":
            pair.standby.sql("select pg_wal_replay_resume()")
        pair.wait_until_caught_up()
        caught_up = time.monotonic() - begun
        cpu, memory = pair.standby.cpu_seconds() - before, pair.standby.memory()
        cell = {
            "load": name, "mode": mode, "server": product, "produced_s": produced, "log_mib": log_bytes / (1 << 20),
            "catch_up_s": caught_up, "share": caught_up / produced, "standby_cpu_s": cpu,
            "anonymous_mib": memory[1] / 1024, "proportional_mib": memory[0] / 1024,
        }
        if watch:
            watch.end()
            cell |= {
                "lag_p50_ms": watch.quantile(watch.lags, 0.5), "lag_p99_ms": watch.quantile(watch.lags, 0.99),
                "lag_max_ms": watch.highest("milliseconds"), "questions_p99_ms": watch.quantile(watch.questions, 0.99),
                "lag_max_bytes": watch.highest("bytes"),
                "anonymous_mib": max(watch.highest("anonymous"), memory[1]) / 1024,
                "proportional_mib": max(watch.highest("proportional"), memory[0]) / 1024,
            }
            if given.csv:
                watch.write(os.path.join(given.csv, f"{name}-{mode}-{product}.csv"))
        return cell
    finally:
        pair.end()


def promotion(given, product, is_acknowledged):
    """Milliseconds from the order to the first row acknowledged, and what the order answers."""
    def prepare(primary, given):
        accounts(primary, given)
        primary.sql("create table first (n integer);")

    pair = Pair(given, product, prepare, has_second=is_acknowledged)
    try:
        bench = threading.Thread(target=lambda: pair.primary.run(
            "pgbench", "-n", "-M", "prepared", "-c", "8", "-j", "2", "-T", str(given.seconds), check=False))
        bench.start()
        session = Connection(pair.standby)
        time.sleep(min(5, given.seconds / 2))
        pair.primary.kill()
        bench.join()
        time.sleep(1)
        acknowledged = []

        def try_to_write():
            while True:
                try:
                    session.ask("insert into first values (1)")
                    acknowledged.append(time.monotonic())
                    return
                except RuntimeError as error:
                    if "25006" not in str(error):
                        raise

        writer = threading.Thread(target=try_to_write, daemon=True)
        writer.start()
        ordered = time.monotonic()
        answer = pair.standby.promote()
        writer.join(WAIT_SECONDS)
        if not acknowledged:
            raise SystemExit(f"no row is acknowledged after the promotion: see {pair.standby.log.name}")
        name = "promotion-acknowledged" if is_acknowledged else "promotion"
        return {"load": name, "server": product, "order_to_first_row_ms": (acknowledged[0] - ordered) * 1000, "answer": answer}
    finally:
        pair.end()


def cost(given, product):
    """Transactions a second without a standby and with one that has a processor of its own; the primary's CPU for each."""
    pair = Pair(given, product, accounts, processors=(0, max(1, (os.cpu_count() or 2) - 1)))
    own = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {0})
        figures = {"without": [], "with": []}
        for run in range(given.runs):
            for name in figures:
                if name == "without":
                    pair.standby.stop()
                elif pair.standby.process.poll() is not None:
                    pair.standby.open()
                    pair.wait_until_caught_up()
                pair.primary.sql("checkpoint;")
                primary_before = pair.primary.cpu_seconds()
                rate = pair.primary.pgbench("-M", "prepared", "-c", "8", "-j", "1", "-T", str(given.seconds))
                primary_cpu = pair.primary.cpu_seconds() - primary_before
                figures[name].append((rate, primary_cpu * 1e6 / (rate * given.seconds)))
        middle = lambda name, which: statistics.median(run[which] for run in figures[name])
        return {
            "load": "cost", "server": product, "tps_without": middle("without", 0), "tps_with": middle("with", 0),
            "kept": middle("with", 0) / middle("without", 0),
            "primary_us_without": middle("without", 1), "primary_us_with": middle("with", 1),
        }
    finally:
        os.sched_setaffinity(0, own)
        pair.end()


COLUMNS = {
    "produced_s": "produced, s", "log_mib": "log, MiB", "catch_up_s": "catch-up, s", "share": "share", "lag_p50_ms": "lag p50, ms",
    "lag_p99_ms": "p99", "lag_max_ms": "max", "questions_p99_ms": "questions p99", "lag_max_bytes": "max, bytes",
    "anonymous_mib": "anonymous, MiB", "standby_cpu_s": "standby's CPU, s",
}


def table(cells):
    loads = [cell for cell in cells if "mode" in cell]
    if loads:
        print("| load | mode | server | " + " | ".join(COLUMNS.values()) + " |")
        print("|---|---|---|" + "---:|" * len(COLUMNS))
        for cell in loads:
            figures = (shown(cell[name]) if name in cell else "" for name in COLUMNS)
            print(f"| {cell['load']} | {cell['mode']} | {cell['server']} | " + " | ".join(figures) + " |")
    for cell in cells:
        if "mode" not in cell:
            print("\n" + ", ".join(f"{name} {shown(figure) if isinstance(figure, float) else figure}" for name, figure in cell.items()))


def main():
    given = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    if given.csv:
        os.makedirs(given.csv, exist_ok=True)
    os.makedirs(given.dir, exist_ok=True)
    given.dir = tempfile.mkdtemp(dir=os.path.abspath(given.dir))
    os.chmod(given.dir, 0o755)
    work = []
    for name in given.loads.split(","):
        if name in ("promotion", "promotion-acknowledged"):
            work += [(promotion, (name == "promotion-acknowledged",))] * given.runs
        elif name == "cost":
            work.append((cost, ()))
        else:
            load_named(name)
            work += [(measure, (name, mode)) for mode in given.modes.split(",")]
    cells = []
    try:
        for measurement, options in work:
            for product in given.servers.split(","):
                cell = measurement(given, product, *options)
                cells.append(cell)
                print(json.dumps(cell), file=sys.stdout if given.json else sys.stderr, flush=True)
    finally:
        shutil.rmtree(given.dir)
    if not given.json:
        table(cells)


if __name__ == "__main__":
    main()
