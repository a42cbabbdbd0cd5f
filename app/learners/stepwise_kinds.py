"""The kinds of learner that `/acquire` asks feature by feature.

They are declared here, not beside their estimators, whose modules load a compiler that takes 60 MB.
"""

from __future__ import annotations

from app.decisions.benefit import LARGEST
from app.learners.kinds import Kind
from app.learners.parameters import CALIBRATION, Parameter

TASKS = ("classification", "regression")
STEPWISE = (
    Kind(
        "random_forest",
        "app.learners.random_forest:RandomForest",
        (
            Parameter("n_estimators", "integer", 100, "Trees.", low=1, high=10_000),
            Parameter(
                "max_features",
                "amount",
                "sqrt",
                "Features looked at for a split: so many, a fraction, or a root or logarithm of all; null is all."
                " With all of them the trees agree more on what they ask for, so `/acquire` asks for less.",
                choices=("sqrt", "log2"),
                optional=True,
            ),
            Parameter("min_samples_leaf", "integer", 1, "Rows in a leaf, at least.", low=1),
            CALIBRATION,
        ),
        "scikit-learn's random forest, blind to costs; `/acquire` asks it feature by feature.",
        stepwise=True,
    ),
    Kind(
        "budget_forest",
        "app.learners.budget_forest:BudgetForest",
        (
            Parameter(
                "budget",
                "number",
                None,
                "Highest mean price per row of all features that the forest looks at; null is no limit.",
                low=0.0,
                high=LARGEST,
                optional=True,
            ),
            Parameter(
                "alpha",
                "number",
                None,
                "Rows of a class that may be wrong at a leaf: more make shallower, cheaper trees; null chooses on"
                " validation rows.",
                low=0.0,
                optional=True,
            ),
            Parameter(
                "cost_exponent",
                "number",
                None,
                "How far prices count in a split: 0 only between equals, 1 in proportion; null chooses, too.",
                low=0.0,
                high=1.0,
                optional=True,
            ),
            Parameter(
                "n_estimators",
                "integer",
                None,
                "Trees, at most; null takes the number, up to 40, with the least validation error.",
                low=1,
                high=10_000,
                optional=True,
            ),
            Parameter("max_depth", "integer", None, "Of a tree; null is no limit.", low=0, optional=True),
        ),
        "A forest whose trees ask for cheap features first, grown until its mean cost reaches a budget; trains with"
        " `feature_costs`, and `/acquire` asks it feature by feature.",
        feature_costs="optional",
        stepwise=True,
    ),
    Kind(
        "cost_tree",
        "app.learners.cost_tree.estimator:CostTree",
        (
            Parameter(
                "task",
                "choice",
                "classification",
                "What the labels are: classes, or (regression) numbers, to which integers count as well.",
                choices=TASKS,
            ),
            Parameter("depth", "integer", 4, "Models that a case meets, at most.", low=1, high=8),
            Parameter(
                "lambda",
                "number",
                None,
                "What the expected price of a case weighs beside the loss; null trains a path of 20, and takes the one"
                " with the least error on validation rows, within the budget.",
                low=0.0,
                high=LARGEST,
                optional=True,
                argument="trade_off",
            ),
            Parameter("rho", "number", 1e-4, "L1 penalty on the weights, at no matter what price.", low=0.0, high=1e10),
            Parameter(
                "budget",
                "number",
                None,
                "Highest mean price of a case on validation rows; chooses lambda. null is no limit.",
                low=0.0,
                high=LARGEST,
                optional=True,
            ),
            Parameter(
                "zero_tolerance",
                "number",
                0.01,
                "Weights up to this size are zero: features without weight are not asked for.",
                low=0.0,
                high=1e10,
            ),
            Parameter(
                "features",
                "choice",
                "raw",
                "What the models weigh: the features (raw), or small boosted trees of them (boosted), which bend.",
                choices=("raw", "boosted"),
            ),
            Parameter("weak_learners", "integer", 100, "Boosting rounds, with features boosted.", low=1, high=1000),
            Parameter("weak_depth", "integer", 2, "Depth of a boosted tree.", low=1, high=8),
            Parameter(
                "evaluation_cost",
                "number",
                0.0,
                "What a case pays for each boosted tree that it needs, besides the features that it reads.",
                low=0.0,
                high=LARGEST,
            ),
            Parameter(
                "initialiser",
                "choice",
                "both",
                "Where the models of a new node start: with all features (leaf), with those that are worth their price"
                " one by one (greedy), or a path from each, and the better tree of the two (both).",
                choices=("leaf", "greedy", "both"),
            ),
            Parameter(
                "steepness",
                "number",
                None,
                "How sharply a score sends a case one way in training; null is 5 for classes, 1 for numbers.",
                low=0.0,
                high=1e6,
                above_low=True,
                optional=True,
            ),
            Parameter(
                "standardise",
                "boolean",
                default=True,
                doc="Whether numbers are scaled before lambda and rho weigh them; without, units decide.",
            ),
        ),
        "A tree of linear models that asks each case only for what its path needs, trained with one loss and the price"
        " of the path, for classes or numbers; trains with `feature_costs`, and `/acquire` asks it feature by feature.",
        feature_costs="optional",
        stepwise=True,
        tasks=TASKS,
        alternatives=(("lambda", "budget"),),
    ),
)
