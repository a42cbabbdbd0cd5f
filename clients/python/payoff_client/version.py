"""The version, which the built distribution has, too."""

__version__ = "0.1.0"
