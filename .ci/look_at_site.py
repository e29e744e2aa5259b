"""Look at a built documentation site in Chromium: ``python .ci/look_at_site.py FOLDER``.

Each page is shown at the width of a phone and of a laptop, light and dark. A fault is a page that
scrolls sideways, a block of code that does so on a laptop, a button too small for a finger on a
phone, and text that is hard to read on its background. ``--sizes`` prints how long each page is.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from typing import Any

PATIENCE = 600.0
SCRIPT = Path(__file__).with_suffix(".html")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

Look = dict[str, Any]
"""What was seen of one page, at one width, in one theme."""


class Handler(SimpleHTTPRequestHandler):
    """Serve the site, and the page that looks at all others; take what that page has seen."""

    def do_GET(self) -> None:
        """Answer with a file of the site, or with the script."""
        if self.path != "/look":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(SCRIPT.read_bytes())

    def do_POST(self) -> None:
        """Take what was seen; which pages there are is asked in the same way."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server: Server = self.server  # type: ignore[assignment]
        if self.path == "/seen":
            server.seen.put(json.loads(body))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(server.pages).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    """A site on a port of this machine."""

    def __init__(self, site: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(Handler, directory=str(site)))
        self.pages = [str(path.relative_to(site)) for path in sorted(site.rglob("*.html"))]
        self.pages = [page for page in self.pages if not page.startswith("_")]
        self.seen: Queue[list[Look]] = Queue()


def look_at(site: Path, chromium: str) -> list[Look]:
    """Return what Chromium sees."""
    with Server(site) as server, tempfile.TemporaryDirectory() as profile:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        command += [f"--user-data-dir={profile}", "--window-size=1400,900"]
        command += [f"http://127.0.0.1:{server.server_port}/look"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return server.seen.get(timeout=PATIENCE)
        except Empty:
            sys.exit(f"Chromium did not come to an end in {PATIENCE:g} s")
        finally:
            browser.kill()
            browser.wait()
            server.shutdown()


def main() -> None:
    """Print the faults, and fail if there is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("--sizes", action="store_true", help="print the height of each page")
    options = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("there is no Chromium here; Debian's package is called chromium")
    looks = look_at(options.site, CHROMIUM)
    if options.sizes:
        heights = {(look["page"], look["width"]): look["height"] for look in looks}
        for page in sorted({look["page"] for look in looks}, key=lambda it: heights[it, 1280]):
            size = (options.site / page).stat().st_size / 1000
            widths = f"{heights[page, 1280]:8} px{heights[page, 390]:8} px"
            sys.stdout.write(f"{page:50}{widths}{size:8.0f} kB\n")
    faults = [
        f"{look['page']} at {look['width']} px, {look['theme']}: {fault}"
        for look in looks
        for fault in look["faults"]
    ]
    sys.stdout.write(f"{len(looks)} looks at {len({look['page'] for look in looks})} pages\n")
    sys.exit("\n".join(faults) or None)


if __name__ == "__main__":
    main()
