"""Live residuals: which invariants hold while the sale is running, from counts alone.

A residual is the difference between two counts that should be equal. Work in flight explains a part of it, up to the
in-flight term; a larger residual is a violation, whatever happens next. The report at the end has the last word.
"""
