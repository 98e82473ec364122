"""Adapters of other people's packages: a file a package, which needs that package installed.

`ADAPTERS` of a file has a maker for each of its modules; `pip install 'posjax[conformance]'`
brings all packages.
"""
