#!/usr/bin/env python3
"""Measures an archiver as PostgreSQL uses it: one command after another, oldest segment first; or beside a live PostgreSQL.

  measure_archive.py --cluster DIR --segments DIR --push 'seawall archive-push --repository=R %p' \\
                     --get 'seawall archive-get --repository=R %f %p'

--cluster is a data directory of a stopped server, for its global/pg_control; --segments has its segments, at best on the file system
of the scratch directory (TMPDIR). Works with any archiver, so that two can be compared on the same segments:
--push 'pgbackrest --stanza=main --pg1-path=$PWD archive-push %p'. Prints one JSON object:

  push         all segments wait, as after an outage: seconds, segments a second
  acknowledge  the command for a segment that is archived already: milliseconds of a whole process
  get          all segments back in order: seconds without what it takes to compare and replay them, milliseconds of each command,
               and which segments were waited for
  cpu_ms       of push and of get, a segment, all processes

  measure_archive.py --lag --store versitygw --put-ms 500,1400 --rate 3,0 --seconds 120 --postgresql DIR \\
                     --push 'seawall archive-push %p' --create 'seawall repo create' \\
                     --status 'seawall archive-status --json' --stop 'seawall archive-stop'
  measure_archive.py --beside --postgresql DIR --push 'taskset -c 0 seawall archive-push %p' --create 'seawall repo create' ...

--lag makes a cluster and an S3 store that answers a PUT late, and loads the cluster: with so many segments a second, or, at a rate of 0,
with pgbench's TPC-B by one client as fast as it goes. Each second it asks pg_stat_archiver how far archiving is behind (1: not at all),
and at the end how long it takes until nothing waits. --beside runs TPC-B alone, while segments that wait are archived into a directory,
and alone again. The agent's own durations come from --status. Prints one JSON object a run.
"""
import argparse, ctypes, filecmp, json, os, resource, shutil, statistics, subprocess, tempfile, time

import archive_live


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [float(number) for number in text.split(",")]
    for name in ("cluster", "segments"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--push", required=True)
    parser.add_argument("--lag", action="store_true", help="the lag of a live server")
    parser.add_argument("--beside", action="store_true", help="what archiving costs a live server")
    parser.add_argument("--postgresql", help="directory of its programs")
    parser.add_argument("--store", default="versitygw", help="the program versitygw")
    parser.add_argument("--put-ms", type=numbers, default=[500], help="delays of the store's answer to a PUT, one run each")
    parser.add_argument("--jitter-ms", type=float, default=0, help="up to so much more, and three times as much for one in twenty")
    parser.add_argument("--rate", type=numbers, default=[3], help="segments a second, one run each; 0: TPC-B, unpaced")
    parser.add_argument("--scale", type=int, default=100, help="of pgbench's tables")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--drain-max", type=float, default=600, help="seconds until nothing may wait any more")
    parser.add_argument("--create", help="makes the repository, which is in SEAWALL_REPOSITORY")
    parser.add_argument("--status", help="prints the agent's numbers as JSON")
    parser.add_argument("--scratch", help="directory for clusters and stores; default TMPDIR")
    parser.add_argument("--get", help="also fetch everything back")
    parser.add_argument("--stop", help="ends what works in the background, so that its CPU time is counted")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--acknowledge", type=int, default=100, help="so many segments are asked for when they are archived; 0: none")
    parser.add_argument("--compare-each", type=int, default=20, help="every so many segments are compared: it costs CPU that others want")
    parser.add_argument("--replay", type=float, default=0, metavar="MS", help="between two segments that are got, as recovery takes")
    given = parser.parse_args()
    if given.lag or given.beside:
        if not given.postgresql:
            parser.error("--lag and --beside need --postgresql")
    elif not given.cluster or not given.segments:
        parser.error("expected --cluster and --segments, or --lag, or --beside")
    return given


def call(command, data, path, name):
    text = command.replace("%p", path).replace("%f", name)
    begun = time.perf_counter()
    code = subprocess.call(["sh", "-c", text], cwd=data)
    return code, (time.perf_counter() - begun) * 1000


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def end(command, data):
    """Ends what works in the background, and waits for it: it was handed to this process when its parent ended."""
    if command:
        call(command, data, "", "")
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def with_cpu(given, data, names, run):
    before = cpu_seconds()
    result = run()
    end(given.stop, data)
    return {**result, "cpu_ms": round((cpu_seconds() - before) * 1000 / len(names), 1)}


PR_SET_CHILD_SUBREAPER = 36


# A command that takes longer has waited for something, and recovery for it.
WAIT_MS = 50


def quantiles(milliseconds):
    ordered = sorted(milliseconds)
    return {"median_ms": round(statistics.median(ordered), 2), "p99_ms": round(ordered[int(len(ordered) * 0.99)], 2)}


def push(command, data, names):
    times, failures = [], 0
    begun = time.perf_counter()
    for name in names:
        while True:
            code, milliseconds = call(command, data, f"pg_wal/{name}", name)
            if code == 0:
                break
            failures += 1
            if failures > 100:
                raise SystemExit(f"{name} is not archived")
            time.sleep(1)  # as PostgreSQL does
        times.append(milliseconds)
        status = f"{data}/pg_wal/archive_status/{name}"
        os.rename(f"{status}.ready", f"{status}.done")
    seconds = time.perf_counter() - begun
    return {"seconds": round(seconds, 2), "per_second": round(len(names) / seconds, 2), "failures": failures, **quantiles(times)}


def acknowledge(command, data, names):
    """Segments that an archiver has taken while it was asked for others: it is asked for the last first."""
    for name in names:
        open(f"{data}/pg_wal/archive_status/{name}.ready", "w").close()
    for name in reversed(names):
        call(command, data, f"pg_wal/{name}", name)
    return quantiles([call(command, data, f"pg_wal/{name}", name)[1] for name in names])


def get(command, data, source, names, compare_each, replay):
    times, not_counted = [], 0
    begun = time.perf_counter()
    for name in names:
        code, milliseconds = call(command, data, "pg_wal/RECOVERYXLOG", name)
        times.append(milliseconds)
        fetched = f"{data}/pg_wal/RECOVERYXLOG"
        if code != 0:
            raise SystemExit(f"{name} did not come back")
        pause_begun = time.perf_counter()
        if len(times) % compare_each == 0 and not filecmp.cmp(fetched, f"{source}/{name}", shallow=False):
            raise SystemExit(f"{name} did not come back as it was")
        os.unlink(fetched)
        time.sleep(replay / 1000)
        not_counted += time.perf_counter() - pause_begun
    seconds = time.perf_counter() - begun - not_counted
    waits = [index + 1 for index, milliseconds in enumerate(times) if milliseconds > WAIT_MS]
    return {"seconds": round(seconds, 2), "per_second": round(len(names) / seconds, 2), "waited_for": waits[:20], **quantiles(times)}


def put_in_place(source, target):
    """A second name for the segment, and its content in memory: what is measured is not how the disk writes and reads it here."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)
    with open(target, "rb") as file:
        while file.read(1 << 20):
            pass


def main():
    given = arguments()
    if given.lag or given.beside:
        archive_live.run(given)
        return
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    names = sorted(os.listdir(given.segments))[: given.count]
    with tempfile.TemporaryDirectory() as scratch:
        data = f"{scratch}/data"
        shutil.copytree(given.cluster, data, ignore=shutil.ignore_patterns("pg_wal"))
        os.makedirs(f"{data}/pg_wal/archive_status")
        for name in names:
            put_in_place(f"{given.segments}/{name}", f"{data}/pg_wal/{name}")
            open(f"{data}/pg_wal/archive_status/{name}.ready", "w").close()
        result = {"segments": len(names), "push": with_cpu(given, data, names, lambda: push(given.push, data, names))}
        if given.acknowledge:
            result["acknowledge"] = acknowledge(given.push, data, names[: given.acknowledge])
            end(given.stop, data)
        if given.get:
            fetch = lambda: get(given.get, data, given.segments, names, given.compare_each, given.replay)
            result["get"] = with_cpu(given, data, names, fetch)
        print(json.dumps(result))


if __name__ == "__main__":
    main()
