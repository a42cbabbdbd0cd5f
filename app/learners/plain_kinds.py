"""The kinds of learner whose modules do not load the compiler; some load scikit-learn to be trained."""

from __future__ import annotations

from app.learners.kinds import Kind
from app.learners.parameters import CALIBRATION, MAJORITY, STRENGTH, Parameter

# Leaves of a tree by the number of rows: benefit realised on seven UCI tables, benchmarks/defaults.py.
LEAVES = ((1500, 8), (10_000, 16))
LARGE_LEAVES = 31
_AUTO_LEAVES = ", ".join(f"{leaves} up to {rows:,} rows" for rows, leaves in LEAVES) + f", then {LARGE_LEAVES}"

AUTOMATIC = Kind(
    "auto",
    "app.learners.automatic:Automatic",
    (
        Parameter(
            "max_seconds",
            "number",
            60.0,
            "Seconds after which no further candidate is tried; the first is always tried. `warnings` of the job name"
            " the others. Where fewer than 500 rows are cross-validated, the model of a fold has its share of these"
            " seconds, and all folds together have them once more, or 10 seconds if that is more.",
            low=0.0,
            high=1e6,
            above_low=True,
        ),
    ),
    "The best of naive Bayes, logistic regression, random forest, gradient boosting and kernel logistic regression, by"
    " cross-validation: with benefits by what their decisions earn, else by log loss. With `feature_costs` the best of"
    " forest chain, budget forest and random forest by net benefit; it answers `/acquire`. The card has the table.",
    benefits="optional",
    feature_costs="optional",
    any_actions=True,
)
BENEFIT_LOGISTIC = Kind(
    "benefit_logistic",
    "app.learners.benefit_logistic:BenefitLogistic",
    (
        STRENGTH,
        CALIBRATION,
        Parameter(
            "one_vs_rest",
            "choice",
            "normalised",
            "With three classes or more: how the benefits of the other classes are combined, as means by class shares"
            " (normalised; equals the two-class weight for two classes), or as the sums printed in the paper"
            " (as_printed).",
            choices=("normalised", "as_printed"),
        ),
    ),
    "Logistic regression that weighs training errors by the benefit matrix; one-vs-rest with three or more classes.",
    benefits="required",
)
COST_NAIVE_BAYES = Kind(
    "cost_naive_bayes",
    "app.learners.cost_naive_bayes:CostNaiveBayes",
    (
        Parameter(
            "alpha",
            "number",
            1.0,
            "Rows added to every value of every feature in each class, so that no value counts as impossible.",
            low=1e-10,
            high=1e6,
        ),
        Parameter("bins", "integer", 10, "Maximum number of bins of about equal counts for a number.", low=2, high=256),
        CALIBRATION,
    ),
    "Naive Bayes on categories and binned numbers; a missing value is left out of the product.",
)
GRADIENT_BOOSTING = Kind(
    "gradient_boosting",
    "app.learners.gradient_boosting:GradientBoosting",
    (
        Parameter(
            "max_iter", "integer", 200, "Boosting rounds, at most; each has a tree per class.", low=1, high=10_000
        ),
        Parameter("learning_rate", "number", 0.1, "Shrinkage of each round.", low=0.0, high=10.0, above_low=True),
        Parameter(
            "max_leaf_nodes",
            "integer",
            "auto",
            f"Maximum number of leaves of a tree; auto is {_AUTO_LEAVES}.",
            low=2,
            choices=("auto",),
            optional=True,
        ),
        Parameter("min_samples_leaf", "integer", 10, "Minimum number of rows in a leaf.", low=1),
        Parameter("l2_regularization", "number", 1.0, "L2 penalty on the values of leaves.", low=0.0, high=1e10),
        Parameter(
            "early_stopping",
            "boolean",
            default=True,
            doc="Whether to stop at the rounds with the smallest log loss on the calibration's folds; without"
            " calibration there are no folds, and max_iter rounds are made.",
        ),
        CALIBRATION,
    ),
    "Gradient boosted trees on histograms, cost-blind; takes missing values and categories without preparation.",
)
HIERARCHICAL_LOGISTIC = Kind(
    "hierarchical_logistic",
    "app.learners.hierarchical_logistic:HierarchicalLogistic",
    (
        MAJORITY,
        Parameter(
            "first",
            "learner",
            {"kind": "kernel_logistic"},
            "The model that separates the majority class from all others; benefit_logistic trains with the benefits,"
            " those of the minority classes combined by their shares.",
            choices=("kernel_logistic", "benefit_logistic"),
        ),
        Parameter(
            "second",
            "learner",
            {"kind": "kernel_logistic"},
            "The model that separates the minority classes.",
            choices=("kernel_logistic", "logistic"),
        ),
    ),
    "First majority or minority, then which minority class; probabilities are the product.",
    benefits="optional",
)
KERNEL_LOGISTIC = Kind(
    "kernel_logistic",
    "app.learners.kernel_logistic:KernelLogistic",
    (
        Parameter(
            "kernel",
            "choice",
            "rbf",
            "The similarity of two rows; poly is scikit-learn's name for polynomial.",
            choices=("rbf", "linear", "polynomial", "poly"),
        ),
        Parameter(
            "gamma",
            "number",
            None,
            "Scale of rbf, exp(-gamma distance^2), and of polynomial, (gamma a.b + 1)^degree; null is one over the"
            " summed variance of the scaled features.",
            low=1e-10,
            high=1e10,
            optional=True,
        ),
        Parameter("degree", "integer", 3, "Degree of the polynomial kernel.", low=1, high=20),
        STRENGTH,
        MAJORITY,
        Parameter(
            "n_components",
            "integer",
            None,
            "Nystroem landmarks: rows that span the functions; null is all rows of a small table, 1000 of a large one.",
            low=1,
            high=5000,
            optional=True,
        ),
    ),
    "Multinomial logistic regression with a kernel, cost-blind: smooth, curved boundaries.",
)
LOGISTIC = Kind(
    "logistic",
    "app.learners.logistic:Logistic",
    (STRENGTH, CALIBRATION),
    "Multinomial logistic regression, cost-blind: benefits enter only when decisions are made.",
)
MULTILABEL_LOGISTIC = Kind(
    "multilabel_logistic",
    "app.learners.multilabel_logistic:MultilabelLogistic",
    (
        STRENGTH,
        CALIBRATION,
        Parameter(
            "chain",
            "boolean",
            default=False,
            doc="Whether each label's model also uses the probabilities of the labels before it.",
        ),
    ),
    "A logistic regression for each of several labels: the probability that it applies, for `/retrieve`.",
    labels="several",
)
SCORE_CALIBRATOR = Kind(
    "score_calibrator",
    "app.learners.score_calibrator:ScoreCalibrator",
    (
        CALIBRATION,
        Parameter("input", "choice", "scores", "What the rows are.", choices=("scores", "probabilities")),
    ),
    "Turns the scores of another system into probabilities; see `POST /calibrate`.",
)

PLAIN = (
    AUTOMATIC,
    BENEFIT_LOGISTIC,
    COST_NAIVE_BAYES,
    GRADIENT_BOOSTING,
    HIERARCHICAL_LOGISTIC,
    KERNEL_LOGISTIC,
    LOGISTIC,
    MULTILABEL_LOGISTIC,
)
