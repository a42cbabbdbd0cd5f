"""Labels in a request: one rule for every route that takes them."""

import numpy as np
import pytest

from app.errors import Invalid
from app.usecases.labelled_rows import class_codes
from tests.messages import says

CLASSES = {"integers": (0, 1), "words": ("0", "1")}


@pytest.mark.parametrize("names", CLASSES)
def test_a_label_has_the_type_of_its_class(names):
    """The classes themselves are accepted; what only looks like one is not."""
    classes = CLASSES[names]
    np.testing.assert_array_equal(class_codes(classes, classes, 2), [0, 1])
    for strange in (str(classes[1]) if names == "integers" else int(classes[1]), "2", 2):
        with pytest.raises(Invalid) as error:
            class_codes([classes[0], strange], classes, 2)
        assert error.value.flaws == (says("/labels/1", str(strange)),)
