"""The kinds of learner that can be trained: name, parameters, and how each is built. A new one is one more entry."""

from __future__ import annotations

from app.learners.benefit_logistic import BenefitLogistic
from app.learners.cost_naive_bayes import CostNaiveBayes
from app.learners.gradient_boosting import GradientBoosting
from app.learners.hierarchical_logistic import HierarchicalLogistic
from app.learners.kernel_logistic import KERNELS, KernelLogistic
from app.learners.kinds import KINDS, Kind, resolve
from app.learners.logistic import Logistic
from app.learners.multilabel_logistic import MultilabelLogistic
from app.learners.parameters import CALIBRATION, Parameter
from app.learners.stepwise_kinds import STEPWISE

__all__ = ["KINDS", "Kind", "resolve"]

STRENGTH = Parameter(
    "C",
    "number",
    1.0,
    "Inverse strength of the L2 penalty on the coefficients: smaller values keep them smaller.",
    low=1e-10,
    high=1e10,
)
MAJORITY = Parameter(
    "majority",
    "label",
    None,
    "The majority class, the one that the others are compared with; null is the most common one.",
    optional=True,
)

KINDS.update(
    (kind.name, kind)
    for kind in (
        Kind(
            "logistic",
            Logistic,
            (STRENGTH, CALIBRATION),
            "Multinomial logistic regression, blind to costs: decisions come from its probabilities.",
        ),
        Kind(
            "benefit_logistic",
            BenefitLogistic,
            (
                STRENGTH,
                CALIBRATION,
                Parameter(
                    "one_vs_rest",
                    "choice",
                    "normalised",
                    "With three classes or more: how the rest's benefits are combined, as their mean by class shares"
                    " (normalised; reduces to the two-class weight), or as the printed sums (as_printed).",
                    choices=("normalised", "as_printed"),
                ),
            ),
            "Logistic regression whose errors weigh what the benefit matrix says; one class against the rest when"
            " there are three or more.",
            benefits="required",
        ),
        Kind(
            "cost_naive_bayes",
            CostNaiveBayes,
            (
                Parameter(
                    "alpha",
                    "number",
                    1.0,
                    "Rows added to every value of every feature in each class, so that nothing counts as impossible.",
                    low=1e-10,
                    high=1e6,
                ),
                Parameter(
                    "bins",
                    "integer",
                    10,
                    "Into how many categories of about equal counts a number is divided, at most.",
                    low=2,
                    high=256,
                ),
                CALIBRATION,
            ),
            "Naive Bayes on categories and binned numbers; a missing value is left out of the product.",
        ),
        Kind(
            "gradient_boosting",
            GradientBoosting,
            (
                Parameter(
                    "max_iter", "integer", 100, "Boosting rounds; each grows a tree per class.", low=1, high=10_000
                ),
                Parameter("learning_rate", "number", 0.1, "How far a round goes.", low=0.0, high=10.0, above_low=True),
                Parameter("max_leaf_nodes", "integer", 31, "Leaves of a tree, at most.", low=2, optional=True),
                Parameter("l2_regularization", "number", 0.0, "L2 penalty on what the leaves add.", low=0.0, high=1e10),
                CALIBRATION,
            ),
            "Gradient boosted trees on histograms, blind to costs; takes missing values and categories as they are.",
        ),
        *STEPWISE,
        Kind(
            "kernel_logistic",
            KernelLogistic,
            (
                Parameter("kernel", "choice", "rbf", "How alike two rows are.", choices=KERNELS),
                Parameter(
                    "gamma",
                    "number",
                    None,
                    "Scale of rbf, exp(-gamma distance^2), and polynomial, (gamma a.b + 1)^degree; null is one over the"
                    " features' summed variance, after scaling.",
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
                    "Rows that span the functions (Nystroem landmarks); null is all of a small table, 1000 of a large"
                    " one.",
                    low=1,
                    high=5000,
                    optional=True,
                ),
            ),
            "Multinomial logistic regression with a kernel, blind to costs: smooth curved boundaries.",
        ),
        Kind(
            "hierarchical_logistic",
            HierarchicalLogistic,
            (
                MAJORITY,
                Parameter(
                    "first",
                    "learner",
                    {"kind": "kernel_logistic"},
                    "What separates the majority class from all others; benefit_logistic trains with the benefits,"
                    " those of the minority classes combined by their shares.",
                    choices=("kernel_logistic", "benefit_logistic"),
                ),
                Parameter(
                    "second",
                    "learner",
                    {"kind": "kernel_logistic"},
                    "What tells the minority classes apart.",
                    choices=("kernel_logistic", "logistic"),
                ),
            ),
            "First majority or minority, then which minority class; probabilities are the product.",
            benefits="optional",
        ),
        Kind(
            "multilabel_logistic",
            MultilabelLogistic,
            (
                STRENGTH,
                CALIBRATION,
                Parameter(
                    "chain",
                    "boolean",
                    default=False,
                    doc="Whether each label's model also sees the probabilities of the labels before it.",
                ),
            ),
            "A logistic regression for each of several labels: the probability that it applies, for `/retrieve`.",
            labels="several",
        ),
    )
)
