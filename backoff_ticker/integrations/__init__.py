"""What connects this package with others. Each module is imported only by whoever asks for it.

* ``tenacity``, ``backoff``, ``google_api_core``: back-off policies for their retries.
* ``httpx``, ``aiohttp``: requests that are sent again where that is safe.
* ``urllib3``: a ``Retry`` for it and for requests, with policies and tokens.
* ``starlette``, ``django``, ``gunicorn``: tokens that end with a server or with a request.

``pip install 'backoff-ticker[NAME]'`` installs the other package, too.
"""
