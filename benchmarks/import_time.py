"""Wall seconds that one import takes in this process, which should be a fresh one.

python import_time.py MODULE
"""

import importlib
import json
import sys
import time

start = time.perf_counter()
importlib.import_module(sys.argv[1])
print(json.dumps({"seconds": time.perf_counter() - start}))
