"""A thousand callers, a service, and its outage: the load that retries make, with a budget or not.

980 coroutines and 20 threads make a request each 10 seconds or so. Each request is one call of the
service and up to four retries, after growing, jittered waits. The service answers 99 of 100 calls;
then, for two minutes, none; then as before. All on the virtual clock, with seeded generators: the
figures are the same each time, and another seed for each round. Run as
``python -m tests.benchmarks.outage`` from the project's root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backoff_ticker import RetryBudget
from tests.benchmarks._callers import HEALTHY, OUTAGE, RECOVERY, Count, Plan, run
from tests.benchmarks._table import options, say, show

if TYPE_CHECKING:
    from tests.benchmarks._callers import Course

WITHOUT, WITH = "no budget", "one RetryBudget"
WIDTH = 25


def figures(course: Course) -> dict[str, float]:
    """Return what the table shows of it."""
    phases = {phase: course.of(phase) for phase in (HEALTHY, OUTAGE, RECOVERY)}
    return {
        "requests (first calls)": course.total.requests,
        "retries": course.total.retries,
        **{f"{phase}: calls a request": count.load for phase, count in phases.items()},
        **{f"{phase}: % answered": count.share * 100 for phase, count in phases.items()},
    }


def bar(value: float, full: float) -> str:
    """Return a bar for a value; nothing if it is nothing."""
    return ("#" * round(value / full * WIDTH)).ljust(WIDTH)


def timeline(without: Course, limited: Course) -> None:
    """Print what went on, window by window."""
    plan = limited.plan
    windows = range(int(plan.end // plan.window))
    most = max(without.by_window[n].calls for n in windows)
    held = limited.promise.max_tokens
    say("")
    head = ("calls/s, " + WITHOUT, "calls/s, " + WITH, "tokens left")
    say("from  service   " + "  ".join(text.ljust(WIDTH + 6) for text in head).rstrip())
    for n in windows:
        cells = [
            f"{course.by_window[n].calls / plan.window:5.0f} {bar(course.by_window[n].calls, most)}"
            for course in (without, limited)
        ]
        tokens = limited.by_window[n].tokens
        cells.append(f"{tokens:5.1f} {bar(tokens, held)}")
        start = n * plan.window
        say(f"{start:3.0f}s  {plan.phase(start):8}  {'  '.join(cells)}".rstrip())


def told(without: Course, course: Course) -> None:
    """Print what the budget promised, whether it kept that, and how it was full again."""
    plan, budget, total = course.plan, course.promise, course.total
    most = float(course.most_retries(total.answered))
    say("")
    say(f"{budget}")
    say("promise: retries <= (max_tokens + token_ratio * successes) / retry_cost")
    say(
        f"         {total.retries:,} <= ({budget.max_tokens:,.0f} + {budget.token_ratio} * "
        f"{total.answered:,}) / {budget.retry_cost:g} = {most:,.1f}"
    )
    kept = "yes" if course.broken_at is None else f"NO, broken at {course.broken_at:.1f} s"
    say(f"kept at each single retry: {kept}")
    say(
        f"retries while the service was down: {course.of(OUTAGE).retries:,}; "
        f"with {WITHOUT}: {without.of(OUTAGE).retries:,}"
    )
    if course.full_at is None:
        say("full again after the outage: not within the time")
        return
    recovery, after = course.of(RECOVERY), course.since_full
    until = Count(
        recovery.requests - after.requests,
        recovery.calls - after.calls,
        recovery.answered - after.answered,
    )
    say(f"full again {course.full_at - plan.up_again:.1f} s after the outage")
    say(f"answered of the requests of that time: {until.share:.2%}; since: {after.share:.2%}")


def main() -> None:
    """Print what went on, the promise, and the two ways side by side."""
    chosen = options(__doc__, rounds=1)
    small = {"tasks": 18, "threads": 2, "healthy": 20, "outage": 60, "recovery": 100}
    measured, goals = [], {}
    for seed in range(1, chosen.rounds + 1):
        plan = Plan(seed=seed, **(small if chosen.quick else {}))
        budget = RetryBudget(max_tokens=5) if chosen.quick else RetryBudget()
        without, limited = run(plan, None, promise=budget), run(plan, budget)
        measured.append({WITHOUT: figures(without), WITH: figures(limited)})
        most = float(limited.most_retries(limited.total.answered))
        if seed == 1:
            timeline(without, limited)
            told(without, limited)
            goals[WITH, "retries"] = f"<= {most:.1f}"
    show(f"{plan.tasks + plan.threads:,} callers", measured, goals)


if __name__ == "__main__":
    main()
