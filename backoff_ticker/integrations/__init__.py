"""Adapters for other packages, each in a module of its own that nothing else imports.

- ``structlog``: retries, circuits, tokens and tickers as events of a structlog logger.
- ``prometheus``: the same as metrics of prometheus-client.
- ``opentelemetry``: the same as metrics of OpenTelemetry, and as events of the current span.
- ``httpx``, ``aiohttp``: requests that are sent again where that is safe.
- ``urllib3``: a ``Retry`` for it and for requests, with policies and tokens.
- ``celery``: tasks that Celery retries at the times of a policy, and a token for its workers.
- ``dramatiq``: messages that have failed come back after the delays of a policy.
- ``temporal``: policies, errors and tokens for the activities of Temporal.
- ``redis``: tokens, circuits and budgets of retries that processes share over Redis.
- ``starlette``, ``django``, ``gunicorn``: tokens that end with a server or with a request.

Each needs its package: ``pip install 'backoff-ticker[prometheus]'``. Arguments are checked where
they are given: a bad one raises ``TypeError`` or ``ValueError``, which names it. Any number of
threads and event loops may share what is made here, unless its docstring says otherwise.
"""
