"""Bad input: it is told with exit code 2 and, if a name was mistyped, with what may be meant."""

import pytest

from .calling import call, catch_runs

TWO = "feedback constant --delay 2"
NO_CODES = "is not a list of exit codes, 1 to 255, as in 1,75"
NO_ITEM = "of the log must be 0 or 1, alone or with :TIMESTAMP or :+DURATION"
NO_JITTER = "is neither full nor equal nor a number"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # Names
        ("delayz", "backoff-ticker has no 'delayz'. Did you mean 'delays'?"),
        ("delays expo", "delays has no 'expo'. Did you mean 'exponential' or 'exponential-feed"),
        ("delays jitter", "Did you mean 'full-jitter', 'equal-jitter'"),
        ("feedback zero 0 1", "feedback has no 'zero'"),
        ("run --policy xyz true", "there is no policy 'xyz'. 'backoff-ticker delays --help' list"),
        ("run --policy xyz -- true", "for '--policy': there is no policy 'xyz'. 'backoff-ticker"),
        ("run --max-atempts 3 true", "--max-attempts"),
        ("delays exponential --multiplyer 2", "--multiplier"),
        # Arguments
        ("delays constant 2 3", "Got unexpected extra argument (3)"),
        ("delays full-jitter 1", "full-jitter needs --cap, as in: --base 1 --cap 20"),
        (TWO, "LOG"),
        (f"{TWO} 0 -1", "-1"),
        ("run", "COMMAND"),
        ("retry-after", "VALUE"),
        ("retry-after 1 2", "(2)"),
        # Values
        ("delays full-jitter 2 1", "--cap must be >= --base (2.0), not 1.0"),
        ("delays exponential --max-interval 0.1", "must be >= --initial-interval (0.5), not 0.1"),
        ("delays constant --interval -5s", "--interval must be a finite number of seconds >= 0, n"),
        (f"delays constant {'9' * 400}s", "must be a finite number of seconds >= 0, not inf"),
        ("delays exponential --multiplier none", "'none' is not a valid float"),
        ("delays zero --jitter half", f"'half' {NO_JITTER}"),
        ("delays zero --max-jitter -1", "--max-jitter must be a finite number of seconds >= 0,"),
        ("delays zero --max-interval nan", "a number of seconds >= 0, or none or inf for no limit"),
        ("delays go -n 0", "Invalid value for '-n': 0 is not in the range 1<=x<=1000000."),
        ("run --timeout 0 true", "'0' is not a finite number of seconds > 0"),
        ("run --max-attempts 0 true", "0 is not in the range x>=1"),
        ("run --until-output '(' true", "'(' is not a regular expression: missing )"),
        *(
            (f"run --on-exit-code {codes} true", f"{codes!r} {NO_CODES}")
            for codes in ("x", "0", "256", "1,", ",", "-1", "1.0", "\u0661")
        ),
        # Durations
        *(
            (f"delays constant --interval='{text}'", f"{text!r} is no duration: a number of seco")
            for text in ("", "s", "5S", "5 s", "5s3", "1e3s", "--5s")
        ),
        # Logs
        *(
            (f"{TWO} 0 {item} 1", f"item 2 {NO_ITEM}, not {item!r}")
            for item in (*("2", "x", "01", "0:", "0:+", "0:-1", "0:x"), "0:1e3", "0:nan", "0:+1:2")
        ),
        (f"{TWO} 0 0:5 1:4", "item 3 of the log, '1:4': timestamp must not be less than the prev"),
        (f"{TWO} 0:{'9' * 308} 0:+{'9' * 308}", "item 2 of the log is too late: '0:+999"),
        # Policies with their options in one argument
        ("simulate contention expo", "there is no policy 'expo'. Did you mean 'exponential' or"),
        ('simulate contention "zero \'"', '"zero \'" is no policy with its options: No closing'),
        ("simulate outage full-jitter 1", "Options stand in the same quotes: 'full-jitter ..."),
        ("simulate outage 'full-jitter 1'", "needs --cap, as in: --base 1 --cap 20\n"),
        ("simulate outage 'full-jitter 2 1'", "'full-jitter 2 1': --cap must be >= --base (2.0),"),
        ("simulate outage 'go --multiplyer 2'", "'go --multiplyer 2': No such option"),
        ("simulate outage 'go --help'", "'go --help': No such option"),
        ("simulate contention --clients 5,0", "'5,0' is not a list of numbers from 1 to 10000, as"),
        ("simulate contention --latency 0", "'0' is not from 1ms to 10d"),
        ("simulate outage --outage 11d", "'11d' is not from 1ms to 10d"),
        # Policies of one's own
        ("delays own_waits:Nothing", "cannot import 'own_waits:Nothing': module 'own_waits' has"),
        ("delays :", "cannot import ':': Empty module name"),
        ("delays own_waits:Stairs", "own_waits:Stairs needs --step, as in: --step 2"),
        ("delays own_waits:Typed", "--seen cannot be given here: seen: set has no simple type"),
        ("delays os:getcwd", "os:getcwd must be a BackOff, an object with next_backoff() and"),
        ("feedback own_waits:Stairs 0", "own_waits:Stairs takes no feedback"),
    ],
)
def test_bad_input_is_told_and_nothing_is_done(own, monkeypatch, line, expected):
    ran = catch_runs(monkeypatch, 0)
    assert expected in f"{call(line).complaint}\n"
    assert ran == []
