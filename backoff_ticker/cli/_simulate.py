"""``backoff-ticker simulate``: what many clients with one policy do to a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from ..policies import POLICIES
from ._commands import Group, PolicyCommand, form_options, plot_option
from ._param_types import Counts, Seconds, exact, rounded
from ._policy_argument import PolicyText
from ._policy_options import policy_options, seed_option
from ._table import as_csv, as_json, as_table, show_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

    from ._contention import Contention
    from ._outage import Course, Outage
    from ._param_types import Context, Param
    from ._policy_argument import PolicyArgument
    from ._table import Chart

_MOST_CLIENTS = 10_000
_MOST_TRIALS = 1_000_000
_SHORTEST, _LONGEST = 0.001, 864_000.0

AWS = (
    "none=zero",
    (
        "exponential=exponential --initial-interval 10ms --randomization-factor 0 --multiplier 2 "
        "--max-interval 2s --max-elapsed-time none"
    ),
    "equal=equal-jitter 10ms 2s",
    "full=full-jitter 10ms 2s",
    "decorrelated=decorrelated-jitter 5ms 2s",
)
"""Those of the article, whose simulator counts retries from 1: its base of 5 ms is 10 here."""

PATIENT = ("constant 1s", "exponential", "full-jitter 1s 20s")

_POLICIES = """\
POLICY is a name that 'backoff-ticker delays --help' lists; with options, as 'backoff-ticker delays
NAME --help' lists them, in quotes: 'full-jitter 10ms --cap 2s'; LABEL= before it says what it is
called in the result. """


def simulate_group() -> click.Group:
    """Return the command ``simulate``, which has a command for each simulation."""
    return Group(
        "simulate",
        commands={"contention": _contention_command(), "outage": _outage_command()},
        kind="simulation",
        subcommand_metavar="SIMULATION [OPTIONS]... [POLICY]...",
        examples=["simulate contention", "simulate outage --clients 20 exponential"],
        short_help="Show what many clients with one policy do to a service.",
        help="Show what many clients that retry by the same policy do to a service, and how long "
        "they take: policies side by side, in simulated time.",
    )


def _contention_command() -> click.Command:
    return _Simulation(
        "contention",
        callback=_show_contention,
        examples=[
            "simulate contention",
            "simulate contention --clients 20,40 aws 'full-jitter 10ms 2s'",
        ],
        params=[
            _policies(AWS),
            click.Option(
                ["--clients"],
                type=Counts(_MOST_CLIENTS),
                default="10,50,100,190",
                show_default=True,
                metavar="N,...",
                help="How many clients, one number after the other.",
            ),
            click.Option(
                ["--trials"],
                type=click.IntRange(1, _MOST_TRIALS),
                default=20,
                show_default=True,
                metavar="N",
                help="How often all is repeated; the figures are means.",
            ),
            _duration("--latency", "10ms", "The mean time of a message; a fifth of it varies."),
            *_common_options(),
        ],
        short_help="Clients that all write the same row.",
        help="Simulate clients that all write the same row, with optimistic concurrency control: "
        "each reads the version of the row and writes it; if another one has written in between, "
        "the write fails, and the client backs off before it reads again. Show how many writes "
        "were tried, and how many seconds it took, until all have written.\n\n"
        f"{_POLICIES}The default is what the source compares, of 10 ms up to 2 s: {_listed(AWS)}."
        '\n\nSource: "Exponential Backoff And Jitter", AWS Architecture Blog, and its simulator.',
    )


def _outage_command() -> click.Command:
    return _Simulation(
        "outage",
        callback=_show_outage,
        examples=[
            "simulate outage --clients 20",
            "simulate outage --outage 30s 'full-jitter 1s 1m'",
        ],
        params=[
            _policies(PATIENT),
            click.Option(
                ["--clients"],
                type=click.IntRange(1, _MOST_CLIENTS),
                default=100,
                show_default=True,
                metavar="N",
                help="How many clients.",
            ),
            _duration("--every", "10s", "The mean time between two requests of a client."),
            _duration("--healthy", "1m", "How long the service is up at first."),
            _duration("--outage", "2m", "How long it is down then."),
            _duration("--recovery", "2m", "How long clients make requests after that."),
            _duration("--latency", "50ms", "How long a call takes."),
            click.Option(
                ["--budget"],
                type=click.IntRange(1, 1_000_000),
                default=100,
                show_default=True,
                metavar="TOKENS",
                help="How many retries the budget of all clients holds.",
            ),
            *_common_options(),
        ],
        short_help="Clients of a service that is down for a while.",
        help="Simulate clients of a service that is down for a while: each makes a request now and "
        "then, and retries it until it is answered, or the policy gives up. Each policy is "
        "shown alone, with a retry budget that all clients share, and with a circuit breaker that "
        "they share: how many calls the service got before, in and after the outage; the load, "
        "which is the calls in the outage as a multiple of the usual, and its peak; and how many "
        "seconds after the outage the last client had an answer.\n\n"
        f"{_POLICIES}The default is {_listed(PATIENT)}.",
    )


class _Span(Seconds):
    """A duration that can be simulated."""

    def convert(self, value: Any, param: Param, ctx: Context) -> float:  # noqa: ANN401 - click's
        """Return the seconds."""
        seconds = super().convert(value, param, ctx)
        if not _SHORTEST <= seconds <= _LONGEST:
            self.fail(f"{value!r} is not from 1ms to 10d", param, ctx)
        return seconds


class _Simulation(PolicyCommand):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say where an option of a policy belongs that stands without its policy."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            flags = {
                flag
                for policy in POLICIES.values()
                for option in policy_options(policy)
                for flag in (*option.opts, *option.secondary_opts)
            }
            if error.option_name not in flags:
                raise
            raise click.UsageError(
                f"{error.option_name} is an option of a policy: put quotes around both, as in "
                "'full-jitter 10ms --cap 2s'",
                ctx,
            ) from error


def _listed(policies: Sequence[str]) -> str:
    return ", ".join(repr(each) for each in policies)


def _policies(default: Sequence[str]) -> click.Argument:
    kind = PolicyText()

    def or_default(ctx: Context, param: Param, given: Sequence[Any]) -> Sequence[Any]:
        # Older versions of click take no default for any number of arguments.
        return given or tuple(kind.convert(text, param, ctx) for text in default)

    return click.Argument(
        ["policies"], type=kind, nargs=-1, callback=or_default, metavar="[POLICY]..."
    )


def _duration(flag: str, default: str, text: str) -> click.Option:
    return click.Option([flag], type=_Span(), default=default, show_default=True, help=text)


def _common_options() -> list[click.Option]:
    return [seed_option(), *form_options(json="JSON", csv="CSV"), plot_option("simulation.png")]


def _show_contention(
    policies: Sequence[PolicyArgument],
    seed: int | None,
    form: str | None,
    plot: str | None,
    **options: Any,  # noqa: ANN401 - of several types
) -> None:
    from ._contention import Crowd, simulate_contention
    from ._progress import ShareDone

    crowd = Crowd(**options)
    bar = ShareDone()
    rows = simulate_contention(policies, crowd, seed, bar)
    bar.end()
    parameters = {"trials": crowd.trials, "latency": crowd.latency, "seed": seed}
    if plot is not None:
        _write(plot, lambda: _contention_figure(rows, parameters))
    columns = {
        "clients": [str(row.clients) for row in rows],
        "policy": [row.policy for row in rows],
        "calls": [rounded(row.calls) for row in rows],
        "time": [rounded(row.time) for row in rows],
    }
    if any(row.gave_up for row in rows):
        columns["gave up"] = [rounded(row.gave_up) for row in rows]
    most = {row.clients: 0.0 for row in rows}
    for row in rows:
        most[row.clients] = max(most[row.clients], row.calls)
    chart = _bars([row.calls / most[row.clients] for row in rows], "calls, by number of clients")
    _print(form, rows, {"simulation": "contention", **parameters}, columns, "time", chart)


def _show_outage(
    policies: Sequence[PolicyArgument],
    seed: int | None,
    form: str | None,
    plot: str | None,
    **options: Any,  # noqa: ANN401 - of several types
) -> None:
    from ._outage import Scene, simulate_outage
    from ._progress import ShareDone

    scene = Scene(**options)
    bar = ShareDone()
    courses = list(simulate_outage(policies, scene, seed, bar))
    bar.end()
    parameters = {**scene._asdict(), "seed": seed}
    if plot is not None:
        _write(plot, lambda: _outage_figure(courses, parameters))
    rows = [course.row for course in courses]
    columns = {
        "policy": [row.policy for row in rows],
        "limit": [row.limit for row in rows],
        "healthy": [str(row.healthy) for row in rows],
        "outage": [str(row.outage) for row in rows],
        "recovery": [str(row.recovery) for row in rows],
        "load": [f"{row.load:.2f}x" for row in rows],
        "peak": [f"{row.peak:.2f}x" for row in rows],
        "recovered": [
            "never" if row.recovered is None else rounded(round(row.recovered, 1)) for row in rows
        ],
    }
    most = max(row.load for row in rows)
    chart = _bars([row.load / most for row in rows], "load") if most else None
    _print(form, rows, {"simulation": "outage", **parameters}, columns, "healthy", chart)


def _print(  # noqa: PLR0913, PLR0917 - what is printed
    form: str | None,
    rows: Sequence[Contention] | Sequence[Outage],
    about: dict[str, object],
    columns: dict[str, list[str]],
    dispensable: str,
    chart: Chart | None,
) -> None:
    if form == "json":
        click.echo(as_json("results", rows, **about), nl=False)
    elif form == "csv":
        click.echo(as_csv(rows[0]._fields, rows), nl=False)
    else:
        show_table(
            lambda console: as_table(
                columns,
                console,
                dispensable=[dispensable],
                chart=chart,
                words=[title for title in ("policy", "limit") if title in columns],
            )
        )


def _bars(shares: Sequence[float], legend: str) -> Chart:
    def chart(room: int, signs: tuple[str, str, str]) -> tuple[list[Text], str]:
        bars = [Text(signs[0] * max(round(share * room), 1), style="blue") for share in shares]
        return bars, f"{signs[0]} {legend}"

    return chart


def _write(path: str, make: Callable[[], Figure]) -> None:
    from ._plot import write_figure

    write_figure(make, path)


def _title(name: str, parameters: dict[str, Any]) -> str:
    words = [
        f"{key} {exact(value) if isinstance(value, float) else value}"
        for key, value in parameters.items()
        if value is not None
    ]
    return f"{name}\n{', '.join(words)}"


def _contention_figure(rows: Sequence[Contention], parameters: dict[str, Any]) -> Figure:
    from ._plot import figure_of_lines

    panels: dict[str, dict[str, tuple[list[float], list[float]]]] = {
        "calls until all are done": {},
        "seconds until all are done": {},
    }
    for row in rows:
        for lines, value in zip(panels.values(), (row.calls, row.time), strict=True):
            xs, ys = lines.setdefault(row.policy, ([], []))
            xs.append(row.clients)
            ys.append(value)
    return figure_of_lines(_title("contention", parameters), "clients", panels)


def _outage_figure(courses: Sequence[Course], parameters: dict[str, Any]) -> Figure:
    from ._plot import figure_of_lines

    start = parameters["healthy"]
    outage = (start, start + parameters["outage"])
    step = (outage[1] + parameters["recovery"]) / len(courses[0].calls)
    panels: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for course in courses:
        lines = panels.setdefault(f"calls per second\n{course.row.policy}", {})
        lines[f"limit: {course.row.limit}"] = (
            [number * step for number in range(len(course.calls))],
            [calls / step for calls in course.calls],
        )
    return figure_of_lines(_title("outage", parameters), "seconds", panels, outage)
