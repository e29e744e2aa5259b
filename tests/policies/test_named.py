"""Policies by name: the table, the options of each, and what is refused."""

import inspect

import pytest

from backoff_ticker import (
    POLICIES,
    ConstantBackOff,
    ExponentialBackOff,
    TruncatedExponentialBackOff,
    delays,
    named_policy,
    retry,
    retry_call,
)
from tests.policies.policy_strategies import GIVEN, needed


def parameters(name):
    return inspect.signature(POLICIES[name]).parameters


def made(name, **options):
    return named_policy(name, **needed(name) | options)


def test_the_table_cannot_be_changed():
    with pytest.raises(TypeError):
        POLICIES["mine"] = POLICIES["zero"]


@pytest.mark.parametrize(("name", "entry"), POLICIES.items())
def test_an_entry_tells_name_source_defaults_and_whether_it_takes_feedback(name, entry):
    assert (entry.name, repr(entry)) == (name, f"<NamedPolicy {name}>")
    assert entry.source
    defaults = {p.name: p.default for p in parameters(name).values() if p.default is not p.empty}
    policy = made(name)
    assert repr(made(name, **defaults)) == repr(policy)
    assert entry.feedback is hasattr(policy, "success") is hasattr(policy, "failure")


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


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("go", ExponentialBackOff(0.5, 0.5, 1.5, 60.0, 900.0, look_ahead=True)),
        ("java", ExponentialBackOff(0.5, 0.5, 1.5, 60.0, 900.0, look_ahead=False)),
        ("cloud-storage", TruncatedExponentialBackOff(64, 1, initial_backoff=1, multiplier=2)),
    ],
)
def test_a_preset_has_the_published_defaults(name, published):
    """Written out, so a default of the class that changes does not change them unseen."""
    assert repr(named_policy(name)) == repr(published)
    for parameter in parameters(name).values():
        if parameter.default is not None:
            assert parameter.default == getattr(published, parameter.name)


@pytest.mark.parametrize("entry", [POLICIES["zero"], POLICIES["zero"].make], ids=repr)
def test_what_makes_policies_is_no_function_to_retry(entry):
    with pytest.raises(TypeError, match="which makes a policy: call it, and pass the policy as"):
        retry_call(entry)
    with pytest.raises(TypeError, match=r"^backoff must be a BackOff.* \(call what makes one\)"):
        retry(entry)


@pytest.mark.parametrize("name", [None, b"constant", ["constant"], ConstantBackOff])
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
        ("limd", {"initial_delay": 1}, "missing a required .*'delay_increment_on_failure'"),
        ("constant", {"interval": 1, "pause": 2}, "'pause'; it has interval"),
        ("constant", {"intervall": 1}, r"'intervall': did you mean interval\? It has interval"),
        ("zero", {"interval": 1}, "'interval'; it has none"),
        ("fibonacci", {**GIVEN, "pause": 2}, "'interval'; it has initial_delay1, initial_delay2, "),
        ("aws", {"clock": None}, "'clock'; it has max_retries, rng"),
    ],
)
def test_options_that_are_missing_or_unknown_are_named(name, options, complaint):
    """Unknown ones come first, and those that there are are named."""
    missing = complaint.startswith("missing")
    begins = f"options of {name}: " if missing else f"the policy {name} has no option "
    for make in (named_policy, lambda _, **given: POLICIES[name](**given)):
        with pytest.raises(TypeError, match=f"^{begins}{complaint}") as caught:
            make(name, **options)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or not missing
