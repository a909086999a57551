"""Writes what outside implementations give into tests/oracles/golden. By hand, where they are installed:

    python -m venv oracles
    oracles/bin/pip install -e ".[test]" torch==2.15.0 transformers==5.23.0 x-transformers==2.31.10 equinox==0.13.8
    oracles/bin/pip install --no-deps nemo_toolkit==1.23.0 fla-core==0.6.0 torchscale==0.3.0 easydict
    oracles/bin/python -m tests.oracles.write [--authors FOLDER] [names]
    ORACLE_AUTHORS=FOLDER oracles/bin/python -m pytest -m oracle tests/posenc/test_oracles.py

torch may be the one for CPUs. Of nemo_toolkit, fla-core and torchscale single files are run, which need no more. FOLDER
has the repositories of `tests.oracles.authors`, each as owner+name and at the commit that is stated there; without it
the files made from them are left as they are. Names are encodings, or files without their ending; all of them if none
is given. Nothing of what is installed or checked out is copied into the files: they hold numbers.
"""

import argparse
from pathlib import Path

import tests.oracles.authors
import tests.oracles.packages  # noqa: F401
from tests.oracles import error
from tests.oracles.cases import load, save
from tests.oracles.sources import SOURCES


def main() -> None:
    """Writes the files, and says of each how far ours is from it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--authors", type=Path, help="a folder with the authors' repositories")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    for source in SOURCES:
        if asked.names and source.encoding not in asked.names and source.name not in asked.names:
            continue
        if source.repository and asked.authors is None:
            print(f"{source.name}: left as it is; --authors says where {source.repository} lies")
            continue
        path = save(source.encoding, source.label, source.version(), source.run(asked.authors))
        written = load(path)
        worst = max((error(source.encoding, case), case.title) for case in written.cases)
        print(f"{source.name} ({written.version}): {path.stat().st_size} bytes, {worst[0]:.1e} at most ({worst[1]})")


if __name__ == "__main__":
    main()
