"""Policies by name: the table, the options of each, and what is refused."""

from __future__ import annotations

import inspect
from datetime import timedelta

import pytest

from backoff_ticker import (
    POLICIES,
    ConstantBackOff,
    ExponentialBackOff,
    TruncatedExponentialBackOff,
    delays,
    named_policy,
)
from tests.policies.policy_strategies import GIVEN, needed


def parameters(name):
    return inspect.signature(POLICIES[name]).parameters


def made(name, **options):
    return named_policy(name, **needed(name) | options)


def test_a_policy_by_its_name():
    policy = named_policy("constant", interval=timedelta(seconds=2))
    assert (type(policy), policy.interval) == (ConstantBackOff, 2.0)


def test_the_table_cannot_be_changed_and_tells_names_and_sources():
    with pytest.raises(TypeError):
        POLICIES["mine"] = POLICIES["zero"]
    for name, entry in POLICIES.items():
        assert entry.name == name
        assert repr(entry) == f"<NamedPolicy {name}>"
        assert entry.source


@pytest.mark.parametrize("name", POLICIES)
def test_the_defaults_of_the_signature_are_those_of_the_policy(name):
    defaults = {p.name: p.default for p in parameters(name).values() if p.default is not p.empty}
    assert repr(made(name, **defaults)) == repr(made(name))


@pytest.mark.parametrize("name", POLICIES)
def test_the_table_tells_which_take_feedback(name):
    policy = made(name)
    assert POLICIES[name].feedback is hasattr(policy, "success") is hasattr(policy, "failure")


# Presets


def test_a_preset_takes_the_parameters_of_its_class():
    for name, of in [
        ("go", ExponentialBackOff),
        ("java", ExponentialBackOff),
        ("cloud-storage", TruncatedExponentialBackOff),
    ]:
        assert POLICIES[name].preset
        assert list(parameters(name)) == list(inspect.signature(of).parameters)
        assert type(named_policy(name)) is of
    for name, its in (("grpc", ["rng"]), ("aws", ["max_retries", "rng"])):
        assert POLICIES[name].preset
        assert list(parameters(name)) == its
    assert len(list(delays(named_policy("aws", max_retries=5)))) == 5


def test_a_preset_has_the_published_defaults():
    """Written out, so a default of the class that changes does not change them unseen."""
    published = ExponentialBackOff(0.5, 0.5, 1.5, 60.0, 900.0, look_ahead=True)
    assert repr(named_policy("go")) == repr(published)
    assert parameters("go")["look_ahead"].default is True
    published = ExponentialBackOff(0.5, 0.5, 1.5, 60.0, 900.0, look_ahead=False)
    assert repr(named_policy("java")) == repr(published)
    assert parameters("java")["look_ahead"].default is False
    published = TruncatedExponentialBackOff(64.0, 1.0, initial_backoff=1.0, multiplier=2.0)
    assert repr(named_policy("cloud-storage")) == repr(published)


# What is refused


@pytest.mark.parametrize("name", [None, 5, b"constant", ["constant"], ConstantBackOff])
def test_a_name_that_is_no_text(name):
    with pytest.raises(TypeError, match="^name must be a str, not "):
        named_policy(name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("gol", r": did you mean go\?"), ("constnt", r": .* constant\b.*\?"), ("%", "")],
)
def test_a_name_that_no_policy_has(name, hint):
    text = f"^name must be one of constant, zero, .*, aws, not '{name}'{hint}$"
    with pytest.raises(ValueError, match=text):
        named_policy(name)


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("constant", {}, "missing a required argument: 'interval'"),
        ("full-jitter", {"base": 1}, "missing a required argument: 'cap'"),
        ("limd", {"initial_delay": 1}, "missing a required .*'delay_increment_on_failure'"),
    ],
)
def test_options_that_are_missing(name, options, complaint):
    with pytest.raises(TypeError, match=f"^options of {name}: {complaint}") as caught:
        named_policy(name, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    with pytest.raises(TypeError, match=f"^options of {name}: {complaint}"):
        POLICIES[name](**options)


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("constant", {"seconds": 1}, "'seconds'; it has interval"),
        ("constant", {"interval": 1, "pause": 2}, "'pause'; it has interval"),
        ("constant", {"intervall": 1}, "'intervall': did you mean interval? It has interval"),
        ("zero", {"interval": 1}, "'interval'; it has none"),
        ("fibonacci", {**GIVEN, "pause": 2}, "'interval'; it has initial_delay1, initial_delay2, "),
        ("limd", {"max_delays": 1}, "'max_delays': did you mean max_delay or min_delay? It has "),
        ("grpc", {"max_interval": 3}, "'max_interval'; it has rng"),
        ("aws", {"clock": None}, "'clock'; it has max_retries, rng"),
    ],
)
def test_an_unknown_option_comes_first_and_those_that_there_are_are_named(name, options, complaint):
    for make in (lambda: named_policy(name, **options), lambda: POLICIES[name](**options)):
        with pytest.raises(TypeError) as caught:
            make()
        assert str(caught.value).startswith(f"the policy {name} has no option {complaint}")
