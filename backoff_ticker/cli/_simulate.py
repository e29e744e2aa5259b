"""``backoff-ticker simulate``: what many clients with one policy do to a service."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from ._commands import Group, PolicyCommand, count_option, examples, form_options, plot_option
from ._param_types import numbers, rounded, seconds_within
from ._plot import figure_of_lines, title_of, write_figure
from ._policy_names import PolicyText
from ._policy_options import seed_option
from ._table import as_table, print_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from ._contention import Contention
    from ._outage import Outage
    from ._param_types import Context, Param
    from ._policy_names import PolicyArgument
    from ._table import Bar, Chart

_MOST_CLIENTS = 10_000
_COUNTS = f"numbers from 1 to {_MOST_CLIENTS}, as in 10,100"
_MOST_TRIALS = _MOST_TOKENS = 1_000_000
_SHORTEST, _LONGEST = 0.001, 864_000.0
_SPAN = seconds_within(lambda seconds: _SHORTEST <= seconds <= _LONGEST, "from 1ms to 10d")

AWS = (
    "zero",
    "exponential-feedback=exponential-feedback 10ms --max-delay 2s",
    "equal-jitter=equal-jitter 10ms 2s",
    "full-jitter=full-jitter 10ms 2s",
    "decorrelated-jitter=decorrelated-jitter 5ms 2s",
)
"""Those of the article, by names of policies; its base of 5 ms, counted from 1, is 10 here."""

_OF_BUDGET = "How many retries the budget of all clients holds."
PATIENT = ("constant 1s", "exponential", "full-jitter 1s 20s")

_POLICIES = """\
POLICY is a name that 'backoff-ticker delays --help' lists; with options, as 'backoff-ticker delays
NAME --help' lists them, in quotes: 'full-jitter 10ms --cap 2s'; LABEL= before it says what it is
called in the result. """


def simulate_group() -> click.Group:
    return Group(
        "simulate",
        commands={"contention": _contention_command(), "outage": _outage_command()},
        subcommand_metavar="SIMULATION [OPTIONS]... [POLICY]...",
        epilog=examples("simulate contention", "simulate outage --clients 20 exponential"),
        short_help="Show what many clients with one policy do to a service.",
        help="Show what many clients that retry by the same policy do to a service, and how long "
        "they take: policies side by side, in simulated time.",
    )


def _contention_command() -> click.Command:
    defaults = ", ".join(repr(text.rpartition("=")[2]) for text in AWS)
    return PolicyCommand(
        "contention",
        callback=_show_contention,
        epilog=examples(
            "simulate contention", "simulate contention --clients 20,40 aws 'full-jitter 10ms 2s'"
        ),
        params=[
            _policies(AWS),
            click.Option(
                ["--clients"],
                type=numbers("counts", _MOST_CLIENTS, _COUNTS),
                default="10,50,100,190",
                show_default=True,
                metavar="N,...",
                help="How many clients, one number after the other.",
            ),
            count_option(
                "--trials", 20, _MOST_TRIALS, "How often all is repeated; the figures are means."
            ),
            _duration("--latency", "10ms", "The mean time of a message; a fifth of it varies."),
            *_common_options(),
        ],
        short_help="Clients that all write the same row.",
        help="Simulate clients that all write the same row, with optimistic concurrency control: "
        "each reads the version of the row and writes it; if another one has written in between, "
        "the write fails, and the client backs off before it reads again. Show how many writes "
        "were tried, and how many seconds it took, until all have written.\n\n"
        f"{_POLICIES}The default is what the source compares, of 10 ms up to 2 s: {defaults}."
        '\n\nSource: "Exponential Backoff And Jitter", AWS Architecture Blog, and its simulator.',
    )


def _outage_command() -> click.Command:
    return PolicyCommand(
        "outage",
        callback=_show_outage,
        epilog=examples(
            "simulate outage --clients 20", "simulate outage --outage 30s 'full-jitter 1s 1m'"
        ),
        params=[
            _policies(PATIENT),
            count_option("--clients", 100, _MOST_CLIENTS, "How many clients."),
            _duration("--every", "10s", "The mean time between two requests of a client."),
            _duration("--healthy", "1m", "How long the service is up at first."),
            _duration("--outage", "2m", "How long it is down then."),
            _duration("--recovery", "2m", "How long clients make requests after that."),
            _duration("--latency", "50ms", "How long a call takes."),
            count_option("--budget", 100, _MOST_TOKENS, _OF_BUDGET, "TOKENS"),
            *_common_options(),
        ],
        short_help="Clients of a service that is down for a while.",
        help="Simulate clients of a service that is down for a while: each makes a request now and "
        "then, and retries it until it is answered, or the policy gives up. Each policy is "
        "shown alone, with a retry budget that all clients share, and with a circuit breaker that "
        "they share: how many calls the service got before, in and after the outage; the load, "
        "which is the calls in the outage as a multiple of the usual, and its peak; and how many "
        "seconds after the outage the last client had an answer.\n\n"
        f"{_POLICIES}The default is {', '.join(map(repr, PATIENT))}.",
    )


def _policies(default: Sequence[str]) -> click.Argument:
    kind = PolicyText()

    def or_default(ctx: Context, param: Param, given: Sequence[Any]) -> Sequence[Any]:
        # Older versions of click take no default for any number of arguments.
        return given or tuple(kind.convert(text, param, ctx) for text in default)

    return click.Argument(
        ["policies"], type=kind, nargs=-1, callback=or_default, metavar="[POLICY]..."
    )


def _duration(flag: str, default: str, text: str) -> click.Option:
    return click.Option([flag], type=_SPAN, default=default, show_default=True, help=text)


def _common_options() -> list[click.Option]:
    return [seed_option(), *form_options(json="JSON", csv="CSV"), plot_option("simulation.png")]


def _show_contention(
    policies: Sequence[PolicyArgument],
    seed: int | None,
    form: str | None,
    plot: str | None,
    **options: Any,
) -> None:
    from ._contention import Crowd, simulate_contention
    from ._progress import ShareDone

    crowd = Crowd(**options)
    with ShareDone() as bar:
        rows = simulate_contention(policies, crowd, seed, bar)
    parameters = {"trials": crowd.trials, "latency": crowd.latency, "seed": seed}
    write_figure(lambda: _contention_figure(rows, parameters), plot)
    columns = {
        "clients": [str(row.clients) for row in rows],
        "policy": [row.policy for row in rows],
        "calls": [rounded(row.calls) for row in rows],
        "time": [rounded(row.time) for row in rows],
    }
    if any(row.gave_up for row in rows):
        columns["gave up"] = [rounded(row.gave_up) for row in rows]
    most = {row.clients: row.calls for row in sorted(rows, key=attrgetter("calls"))}
    chart = _bars([row.calls / most[row.clients] for row in rows], "calls, by number of clients")
    table = partial(as_table, columns, dispensable=["time"], chart=chart, words=["policy"])
    about = {"simulation": "contention", **parameters}
    print_rows(form, "results", rows[0]._fields, rows, about, table)


def _show_outage(
    policies: Sequence[PolicyArgument],
    seed: int | None,
    form: str | None,
    plot: str | None,
    **options: Any,
) -> None:
    from ._outage import Scene, simulate_outage
    from ._progress import ShareDone

    scene = Scene(**options)
    with ShareDone() as bar:
        courses = [*simulate_outage(policies, scene, seed, bar)]
    parameters = {**scene._asdict(), "seed": seed}
    write_figure(lambda: _outage_figure(courses, parameters), plot)
    rows = [row for row, _ in courses]
    columns = {
        **{name: [str(getattr(row, name)) for row in rows] for name in rows[0]._fields[:5]},
        "load": [f"{row.load:.2f}x" for row in rows],
        "peak": [f"{row.peak:.2f}x" for row in rows],
        "recovered": [
            "never" if row.recovered is None else rounded(round(row.recovered, 1)) for row in rows
        ],
    }
    most = max(row.load for row in rows)
    chart = _bars([row.load / most for row in rows], "load") if most else None
    words = ["policy", "limit"]
    table = partial(as_table, columns, dispensable=["healthy"], chart=chart, words=words)
    about = {"simulation": "outage", **parameters}
    print_rows(form, "results", rows[0]._fields, rows, about, table)


def _bars(shares: Sequence[float], legend: str) -> Chart:
    def chart(room: int, signs: tuple[str, str, str]) -> tuple[Sequence[Bar], str]:
        bars = [[(signs[0] * max(round(share * room), 1), "blue")] for share in shares]
        return bars, f"{signs[0]} {legend}"

    return chart


def _contention_figure(rows: Sequence[Contention], parameters: dict[str, Any]) -> Figure:
    panels: dict[str, dict[str, tuple[list[float], list[float]]]] = {
        "calls until all are done": {},
        "seconds until all are done": {},
    }
    for row in rows:
        for lines, value in zip(panels.values(), (row.calls, row.time), strict=True):
            xs, ys = lines.setdefault(row.policy, ([], []))
            xs.append(row.clients)
            ys.append(value)
    return figure_of_lines(title_of("contention", parameters), "clients", panels)


def _outage_figure(
    courses: Sequence[tuple[Outage, list[int]]], parameters: dict[str, Any]
) -> Figure:
    start = parameters["healthy"]
    outage = (start, start + parameters["outage"])
    step = (outage[1] + parameters["recovery"]) / len(courses[0][1])
    panels: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for row, counts in courses:
        lines = panels.setdefault(f"calls per second\n{row.policy}", {})
        lines[f"limit: {row.limit}"] = (
            [number * step for number in range(len(counts))],
            [calls / step for calls in counts],
        )
    return figure_of_lines(title_of("outage", parameters), "seconds", panels, outage)
