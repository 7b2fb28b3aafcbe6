"""What pyproject.toml cannot say: packages that are found, and two that lie elsewhere.

The grammar and the templates stand at the top of the repository, where a reader looks for them, and
travel as subpackages.
"""

from setuptools import find_packages, setup

ELSEWHERE = {"fusegen.grammar": "grammar", "fusegen.templates": "templates"}

setup(
    packages=[*find_packages(include=["fusegen", "fusegen.*"]), *ELSEWHERE],
    package_dir=ELSEWHERE,
)
