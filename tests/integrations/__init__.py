"""The code of the how-to pages, run by the servers and workers that it is written for."""
