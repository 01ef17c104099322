"""Makes the npy files of test_dataset.c with numpy, an independent writer.

Run it in this folder: python3 data.py (numpy 2.4.6 made the committed files).
Values count up from 0, so a test can tell every one of them; labels count down
from 5 to 1.
"""

import numpy

count = numpy.arange(5 * 24)
labels = numpy.arange(5, 0, -1)


def save(name, array, version=(1, 0)):
    with open(name, "wb") as file:
        numpy.lib.format.write_array(file, array, version)


save("x_u8_4d.npy", count.astype(numpy.uint8).reshape(5, 2, 3, 4))
save("x_f32_2d.npy", count.astype(numpy.float32).reshape(5, 24))
save("x_f32_v2.npy", count.astype(numpy.float32).reshape(5, 6, 4), (2, 0))
save("y_i64.npy", labels.astype(numpy.int64))
save("y_i32.npy", labels.astype(numpy.int32))
save("y_u8.npy", labels.astype(numpy.uint8))
