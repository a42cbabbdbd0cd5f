"""Labels in a request: one rule for every route that takes them."""

import numpy as np
import pytest

from app.errors import Invalid
from app.usecases.benefit import evidence_given
from app.usecases.labelled_rows import as_probabilities, class_codes
from tests.messages import says

CLASSES = {"integers": (0, 1), "words": ("0", "1")}


@pytest.mark.parametrize("names", CLASSES)
def test_a_label_has_the_type_of_its_class(names):
    """The classes themselves are accepted; what only looks like one is not."""
    classes = CLASSES[names]
    given = as_probabilities([[0.5, 0.5], [0.2, 0.8]], classes)
    np.testing.assert_array_equal(class_codes(classes, classes, 2), [0, 1])
    np.testing.assert_array_equal(evidence_given(classes, given, classes).y, [0, 1])
    for strange in (str(classes[1]) if names == "integers" else int(classes[1]), "2", 2):
        for read in (
            lambda labels: class_codes(labels, classes, len(labels)),
            lambda labels: evidence_given(classes, given, labels),
        ):
            with pytest.raises(Invalid) as error:
                read([classes[0], strange])
            assert error.value.flaws == (says("/labels/1", str(strange)),)
