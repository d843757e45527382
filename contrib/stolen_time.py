#!/usr/bin/env python3
"""Shows how long a machine takes its processors away: a loop at the highest priority that only reads the clock.

  stolen_time.py --processors 1 --seconds 10     # one busy processor
  stolen_time.py --processors 2 --seconds 10     # two

On a virtual machine that is otherwise idle, the host or an interrupt takes the time between two readings. Gaps of 0.2 ms and more count.
Needs root, for the priority; Linux.
"""
import argparse, multiprocessing, os, time

GAP_SECONDS = 0.0002


def spin(processor, seconds, lost):
    os.sched_setaffinity(0, {processor})
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    gaps, last = [], time.perf_counter()
    end = last + seconds
    while last < end:
        now = time.perf_counter()
        if now - last >= GAP_SECONDS:
            gaps.append((now - last) * 1000)
        last = now
    lost.put((processor, gaps))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processors", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args()
    lost = multiprocessing.Queue()
    loops = [multiprocessing.Process(target=spin, args=(number, given.seconds, lost)) for number in range(given.processors)]
    for loop in loops:
        loop.start()
    for processor, gaps in sorted(lost.get() for _ in loops):
        print(f"processor {processor}: {sum(gaps):.1f} ms lost in {len(gaps)} gaps, {max(gaps, default=0):.1f} ms the longest")
    for loop in loops:
        loop.join()


if __name__ == "__main__":
    main()
