"""What the command says of each policy and of each of its options."""

from __future__ import annotations

SUMMARIES = {
    "constant": "The same delay each time.",
    "zero": "No delay: the next attempt follows at once.",
    "stop": "No second attempt.",
    "exponential": "An interval that grows by a factor, 1.5, up to 60 s; each delay is drawn "
    "around it; gives up after 15 minutes.",
    "truncated-exponential": "A delay that doubles, and up to 1 s at random on top; 64 s at most.",
    "full-jitter": "A limit that doubles up to a cap; each delay is drawn from 0 to it.",
    "equal-jitter": "A limit that doubles up to a cap; each delay is drawn from half of it to it.",
    "decorrelated-jitter": "Each delay is drawn from a base to three times the delay before, up to "
    "a cap.",
    "constant-feedback": "The same delay after each failure, another one after a success.",
    "exponential-feedback": "A delay that grows by a factor, 2, with each failure in a row; a "
    "success starts again with the first.",
    "fibonacci": "Each delay is the sum of the two before it; a success starts again with the "
    "first.",
    "lild": "Linear increase, linear decrease: a failure adds to the delay, a success subtracts.",
    "limd": "Linear increase, multiplicative decrease: a failure adds to the delay, a success "
    "divides it.",
    "mild": "Multiplicative increase, linear decrease: a failure multiplies the delay, a success "
    "subtracts.",
    "mimd": "Multiplicative increase, multiplicative decrease: a failure multiplies the delay, a "
    "success divides it.",
    "go": "exponential as Go's cenkalti/backoff has it: 0.5 s, x1.5, +-50 %, up to 60 s, for 15 "
    "minutes.",
    "java": "exponential as Google's HTTP client for Java has it: as go, but stops only once 15 "
    "minutes have passed.",
    "cloud-storage": "truncated-exponential as Google Cloud Storage asks for: 1 s, x2, up to 1 s "
    "on top, 64 s at most.",
    "grpc": "What gRPC does to connect: 1 s, then x1.6, +-20 %, up to 120 s.",
    "aws": "What the AWS SDK for Python does: full-jitter, 1 s, x2, up to 20 s; two retries.",
}
"""What each policy does, by its name."""

SAMPLES = {
    "constant": {"interval": "2s"},
    "full-jitter": {"base": "1s", "cap": "20s"},
    "equal-jitter": {"base": "1s", "cap": "20s"},
    "decorrelated-jitter": {"base": "1s", "cap": "20s"},
    "constant-feedback": {"delay": "2s"},
    "exponential-feedback": {"initial_delay": "2s"},
    "fibonacci": {"initial_delay1": "1s", "initial_delay2": "2s"},
    "lild": {
        "initial_delay": "3s",
        "delay_increment_on_failure": "4s",
        "delay_increment_on_success": "-5s",
    },
    "limd": {
        "initial_delay": "2s",
        "delay_increment_on_failure": "4s",
        "delay_multiple_on_success": "0.2",
    },
    "mild": {
        "initial_delay": "3s",
        "delay_multiple_on_failure": "2",
        "delay_increment_on_success": "-2s",
    },
    "mimd": {
        "initial_delay": "3s",
        "delay_multiple_on_failure": "2",
        "delay_multiple_on_success": "0.5",
    },
}
"""Values of the parameters that a policy requires, for examples."""

HELP = {
    "interval": "The delay.",
    "initial_interval": "The first interval.",
    "randomization_factor": "The fraction of its interval by which a delay may differ, 0 to < 1.",
    "multiplier": "The factor from each interval to the next, >= 1.",
    "max_interval": "The greatest interval; a delay around it can be longer; none or inf: no cap.",
    "max_elapsed_time": "Stop this long after the start; 0 or none: never.",
    "look_ahead": "Whether to stop before a delay that would pass the limit of elapsed time (Go), "
    "or only once it has passed (Java).",
    "initial_backoff": "The first delay, without its random part.",
    "maximum_backoff": "The greatest delay, random part included, before --jitter; none or inf: "
    "no cap.",
    "max_jitter": "The greatest random part that is added to a delay.",
    "base": "The first limit of a delay, before it grows.",
    "cap": "The greatest delay, before --jitter and --max-jitter; none or inf: no cap.",
    "delay": "The delay after a failure.",
    "delay_on_success": "The delay after a success.",
    "initial_delay": "The first delay.",
    "initial_delay1": "The delay after the first failure in a row.",
    "initial_delay2": "The delay after the second failure in a row.",
    "exponent_base": "The factor from each delay to the next.",
    "delay_increment_on_failure": "What a failure adds to the delay.",
    "delay_increment_on_success": "What a success adds to the delay; mostly negative.",
    "delay_multiple_on_failure": "The factor that a failure applies to the delay.",
    "delay_multiple_on_success": "The factor that a success applies to the delay.",
    "consider_actual_delay": "Whether the time between two calls counts as waited.",
    "max_actual_duration": "Give up this long after the start; 0: never.",
    "max_attempts": "Give up after this many failures in a row; 0: never.",
    "jitter_factor": "The fraction by which a delay may differ from what the rule gives, 0 to < 1.",
    "min_delay": "The least delay.",
    "max_retries": "Stop after this many delays in a row.",
    "max_delay": "The greatest delay, before --jitter and --max-jitter; none or inf: no cap.",
}
"""Help by parameter; a duration has a unit or is in seconds."""

_PLAIN = {"multiplier": "The factor from each delay, without its random part, to the next, >= 1."}
_LIMIT = {"multiplier": "The factor from each limit to the next, >= 1."}

HELP_OF = {
    "truncated-exponential": _PLAIN,
    "cloud-storage": _PLAIN,
    "full-jitter": _LIMIT,
    "equal-jitter": _LIMIT,
    "decorrelated-jitter": {
        "base": "The least delay.",
        "multiplier": "A delay can be up to this factor times the one before, >= 1.",
    },
}
"""Help by policy, where a parameter has a meaning of its own."""

HELP_AROUND = {
    "jitter": "Replace each delay by a random one: full, from 0 to the delay; equal, from half of "
    "it to the delay; a number F, up to that fraction less or more; none: do not. Jitter of the "
    "policy itself stays.",
    "max_jitter": "Add a random part of up to this long to each delay; none: add nothing.",
    "max_interval": "Let no delay be longer, random part included; none: no limit but the "
    "policy's own.",
    "max_elapsed_time": "Stop before a delay that would end more than this after the start; "
    "0 or none: no limit but the policy's own.",
    "max_retries": "Stop after this many delays in a row; none: no limit but the policy's own.",
}
"""Help by option, for policies without a parameter of that name."""
