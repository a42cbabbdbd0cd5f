"""What several scripts need: public data sets, rows prepared for scikit-learn, the standard error of a mean."""

import csv
import gzip
import importlib.util
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from app.tables.dataset import DataLimits
from app.tables.store import DatasetStore
from app.tables.upload_request import UploadRequest

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
ZERO_IS_MISSING = {"pima_diabetes": (1, 2, 3, 4, 5)}
ROOMY = DataLimits(
    max_rows=10**6, max_columns=1000, max_categories=1000, max_upload_bytes=10**9
)


def load(name: str) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Rows as the service encodes them, class codes, and the categorical columns."""
    label = cells(name)[0][-1]
    X, y, categorical = uploaded((DATA / f"{name}.csv.gz").read_bytes(), label)
    for j in ZERO_IS_MISSING.get(name, ()):
        X[X[:, j] == 0, j] = np.nan
    return X, y, categorical


def uploaded(
    content: bytes, label: str
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """The rows of a CSV file as the service encodes them, class codes, and the categorical columns."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        store = DatasetStore(home, ROOMY)
        upload = store.upload(file, UploadRequest(label=(label,)))
        table = store.table(upload.id)
    return table.X.copy(), table.y, table.schema.categorical


def packaged(
    package: str, file: str, label: str | None = None, without: Sequence[str] = ()
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """The same of a table that an installed package has; without a label the file has no header and its last column is it.

    Raises ModuleNotFoundError where the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(package)
    path = Path(spec.origin).parent / file
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as text:
        header, *rows = csv.reader(text, skipinitialspace=True)
    if label is None:
        rows = [header, *rows]
        header = [*(f"x{j}" for j in range(len(header) - 1)), "label"]
    kept = [j for j, name in enumerate(header) if name not in without]
    output = io.StringIO()
    writer = csv.writer(output)
    writer.writerow([header[j] or f"x{j}" for j in kept])
    missing = {"?", "<null>"}
    for row in rows:
        writer.writerow(["" if row[j].strip() in missing else row[j] for j in kept])
    return uploaded(output.getvalue().encode(), label or "label")


def cells(name: str) -> tuple[list[str], np.ndarray]:
    """The names of the columns, and the rows as text."""
    with gzip.open(DATA / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return header, np.array(rows)


def preparing(m: int, categorical: Sequence[int]) -> ColumnTransformer:
    """Imputing, scaling and one-hot columns of rows (n, m) before a model, as its users write them."""
    words = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    numeric = [j for j in range(m) if j not in categorical]
    return make_column_transformer(
        (numbers, numeric), (words, list(categorical)), sparse_threshold=0
    )


def standard_error(values: np.ndarray) -> np.ndarray:
    """Of the mean of values (n, …) over the first axis; NaN where there is one."""
    return (
        values.std(axis=0, ddof=1) / len(values) ** 0.5
        if len(values) > 1
        else values[0] * np.nan
    )
