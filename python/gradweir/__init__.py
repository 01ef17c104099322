"""gradweir: training through parameter servers.

``gradweir.torch`` trains PyTorch models, ``gradweir.numpy`` arrays of any
framework. ``gradweir run JOB -- python train.py`` starts servers and scripts.
"""

from gradweir.errors import Error, Interrupted, JobEnded

__all__ = ["Error", "Interrupted", "JobEnded", "__version__"]
__version__ = "0.1.0"
