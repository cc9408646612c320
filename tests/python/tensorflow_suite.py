# SPDX-License-Identifier: Apache-2.0
"""What the tests with TensorFlow and Keras have in common. Without those they are skipped, by the
exit code that Meson knows."""
import importlib.util
import os
import sys

_MISSING = [name for name in ("tensorflow", "keras", "sklearn")
            if importlib.util.find_spec(name) is None]
if _MISSING:
    print(f"skipped: {sys.executable} has no {' and no '.join(_MISSING)} "
          "(./dev setup-frameworks installs them)")
    sys.exit(77)
os.environ.update(KERAS_BACKEND="tensorflow", CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="2")
# Several ranks share few cores. `ECHELON_TEST_INTEROP` operations run at a time.
os.environ.update(TF_NUM_INTRAOP_THREADS="1", OMP_NUM_THREADS="1",
                  TF_NUM_INTEROP_THREADS=os.environ.get("ECHELON_TEST_INTEROP", "1"))
import numpy as np


def same_on_all_ranks(test, arrays):
    """Bit by bit."""
    import echelon
    mine = [np.asarray(array).tobytes() for array in arrays]
    test.assertTrue(mine)
    test.assertTrue(all(theirs == mine for theirs in echelon.allgather_object(mine)))
