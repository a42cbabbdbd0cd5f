"""The kinds of learner that need the compiler, which takes 60 MB: so they are declared here."""

from __future__ import annotations

from app.decisions.benefit import LARGEST
from app.learners.kinds import Kind
from app.learners.parameters import CALIBRATION, Parameter

TASKS = ("classification", "regression")
FEATURES = ("raw", "boosted")
STARTS = ("leaf", "greedy")
RANDOM_FOREST = Kind(
    "random_forest",
    "app.learners.random_forest:RandomForest",
    (
        Parameter("n_estimators", "integer", 100, "Number of trees.", low=1, high=10_000),
        Parameter(
            "max_features",
            "amount",
            "sqrt",
            "Features considered for a split: a number, a fraction, or the root or logarithm of all; null is all."
            " With all features the trees ask for more of the same ones, so `/acquire` asks for fewer.",
            choices=("sqrt", "log2"),
            optional=True,
        ),
        Parameter(
            "min_samples_leaf",
            "integer",
            "auto",
            "Minimum number of rows in a leaf; auto is 1, 2 or 5, by the log loss of rows out of bag.",
            low=1,
            choices=("auto",),
        ),
        CALIBRATION,
    ),
    "scikit-learn's random forest, cost-blind; answers `/acquire`.",
    stepwise=True,
    compiled=True,
)
BUDGET_FOREST = Kind(
    "budget_forest",
    "app.learners.budget_forest:BudgetForest",
    (
        Parameter(
            "budget",
            "number",
            None,
            "Maximum mean price per row of all features that the forest uses; null is no limit.",
            low=0.0,
            high=LARGEST,
            optional=True,
        ),
        Parameter(
            "alpha",
            "number",
            None,
            "Number of misclassified rows of a class allowed at a leaf: a larger number makes shallower, cheaper trees;"
            " null chooses on validation rows.",
            low=0.0,
            optional=True,
        ),
        Parameter(
            "cost_exponent",
            "number",
            None,
            "Exponent of the price in the split rule: 0 uses prices for ties only, 1 in proportion; null chooses on"
            " validation rows.",
            low=0.0,
            high=1.0,
            optional=True,
        ),
        Parameter(
            "n_estimators",
            "integer",
            None,
            "Maximum number of trees; null takes the number, up to 40, with the least validation error.",
            low=1,
            high=10_000,
            optional=True,
        ),
        Parameter("max_depth", "integer", None, "Maximum depth of a tree; null is no limit.", low=0, optional=True),
    ),
    "A forest whose trees prefer cheap features, grown until its mean cost reaches a budget; trains with"
    " `feature_costs` and answers `/acquire`.",
    feature_costs="optional",
    stepwise=True,
    compiled=True,
)
FOREST_CHAIN = Kind(
    "forest_chain",
    "app.learners.forest_chain:ForestChain",
    (
        Parameter(
            "steps",
            "integer",
            None,
            "Maximum number of features in the order; null is 22 with equal prices, else all that the search places.",
            low=1,
            high=1000,
            optional=True,
        ),
        Parameter(
            "greedy",
            "integer",
            None,
            "Number of features that the search places by held-out loss and price, from the 20 most important ones and"
            " those that are free; with equal prices the next important ones follow; null is 10 with equal prices, else"
            " all of these.",
            low=1,
            high=1000,
            optional=True,
        ),
        Parameter(
            "least",
            "number",
            None,
            "The search ends when no feature lowers the held-out log loss by this; null is 0.001, or with equal prices"
            " no such limit.",
            low=0.0,
            high=1e6,
            optional=True,
        ),
        Parameter("n_estimators", "integer", 40, "Number of trees of each forest.", low=1, high=1000),
        Parameter(
            "min_samples_leaf",
            "integer",
            None,
            "Minimum number of rows in a leaf; null is 5 in the first two forests and with fewer than 1,000 rows, else"
            " 1, or what has clearly less loss on held-out rows, and more with over 20,000.",
            low=1,
            optional=True,
        ),
    ),
    "Forests on the first 1, 2, … features of one order, each trained on all rows, with a learned stop: the least error"
    " at a small share of the features; trains with `feature_costs` and answers `/acquire`.",
    feature_costs="optional",
    stepwise=True,
    compiled=True,
)
COST_TREE = Kind(
    "cost_tree",
    "app.learners.cost_tree.estimator:CostTree",
    (
        Parameter(
            "task",
            "choice",
            "classification",
            "The labels: classes, or numbers (regression), integers included.",
            choices=TASKS,
        ),
        Parameter("depth", "integer", 4, "Maximum number of models on a path.", low=1, high=8),
        Parameter(
            "lambda",
            "number",
            None,
            "Weight of the expected price of a case relative to the loss; null trains a path of 20 values and takes the"
            " one with the least error on validation rows within the budget, or with benefits and feature_costs the"
            " largest net benefit.",
            low=0.0,
            high=LARGEST,
            optional=True,
            argument="trade_off",
        ),
        Parameter("rho", "number", 1e-4, "L1 penalty on the weights, independent of prices.", low=0.0, high=1e10),
        Parameter(
            "budget",
            "number",
            None,
            "Maximum mean price of a case on validation rows when lambda is null; null is no limit.",
            low=0.0,
            high=LARGEST,
            optional=True,
        ),
        Parameter(
            "zero_tolerance",
            "number",
            0.01,
            "Weights up to this size become zero: features without weight are not asked for.",
            low=0.0,
            high=1e10,
        ),
        Parameter(
            "features",
            "choice",
            "raw",
            "Inputs of the models: the features (raw), or small boosted trees of them (boosted), which are nonlinear.",
            choices=FEATURES,
        ),
        Parameter("weak_learners", "integer", 100, "Boosting rounds, if features is boosted.", low=1, high=1000),
        Parameter("weak_depth", "integer", 2, "Depth of a boosted tree.", low=1, high=8),
        Parameter(
            "evaluation_cost",
            "number",
            0.0,
            "Price of each boosted tree that a case needs, besides the features that the tree reads.",
            low=0.0,
            high=LARGEST,
        ),
        Parameter(
            "initialiser",
            "choice",
            "both",
            "Start of a new node's models: all features (leaf), features added one by one while they are worth their"
            " price (greedy), or the better tree of both paths (both).",
            choices=(*STARTS, "both"),
        ),
        Parameter(
            "steepness",
            "number",
            None,
            "Slope of the soft split in training; null is 5 for classes, 1 for numbers.",
            low=0.0,
            high=1e6,
            above_low=True,
            optional=True,
        ),
        Parameter(
            "standardise",
            "boolean",
            default=True,
            doc="Whether numbers are scaled before they are penalised; otherwise the penalty depends on their units.",
        ),
    ),
    "A tree of linear models that asks each case only for the features of its path, for classes or numbers; one"
    " objective has loss and expected price; trains with `feature_costs`, with `benefits` for the largest net benefit,"
    " and answers `/acquire`.",
    benefits="optional",
    any_actions=True,
    feature_costs="optional",
    stepwise=True,
    tasks=TASKS,
    alternatives=(("lambda", "budget"),),
    compiled=True,
)
MULTILABEL_FOREST = Kind(
    "multilabel_forest",
    "app.learners.multilabel_forest:MultilabelForest",
    (
        Parameter("n_estimators", "integer", 100, "Number of trees.", low=1, high=10_000),
        Parameter(
            "max_features",
            "amount",
            "sqrt",
            "Features considered for a split: a number, a fraction, or the root or logarithm of all; null is all.",
            choices=("sqrt", "log2"),
            optional=True,
        ),
        Parameter("min_samples_leaf", "integer", 2, "Minimum number of rows in a leaf.", low=1),
        CALIBRATION,
    ),
    "A random forest for several labels together: the probability that each applies, for `/retrieve`.",
    labels="several",
    compiled=True,
)
COMPILED = (RANDOM_FOREST, BUDGET_FOREST, FOREST_CHAIN, COST_TREE, MULTILABEL_FOREST)
