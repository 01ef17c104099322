"""All tests of the front end, or those of the modules that are named, as TAP."""

import platform
import sys
from pathlib import Path

import torch

from support import run_modules

here = Path(__file__).parent
names = sys.argv[1:] or sorted(path.stem for path in here.glob("test_*.py"))
print(f"# Python {platform.python_version()}, torch {torch.__version__}", flush=True)
sys.exit(run_modules(names))
