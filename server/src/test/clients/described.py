"""Requests that /openapi.json allows and forbids, made by schemathesis: python3 described.py URL.

No answer may be a fault of the server, have a status or type that is not described, or take longer than 20 s.
"""

import random
import subprocess
import sys
import tempfile

SEED = random.randrange(2**32)
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
print("seed", SEED, flush=True)
with tempfile.TemporaryDirectory() as folder:
    subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", sys.argv[1] + "/openapi.json", "--checks", CHECKS,
            "--phases", "examples,coverage,fuzzing", "--max-examples", "25", "--request-timeout", "20", "--no-shrink",
            "--seed", str(SEED), "--warnings", "off", "--continue-on-failure",
        ],
        cwd=folder,
        check=True,
    )
print("all fine")
