"""Builds the wheel, installs it in a fresh environment in target/python and runs its tests.

``test.py [--release] [--ray]``: ``--release`` builds as maturin publishes it, ``--ray`` tests on Ray too, whose package is
large. Without a network or venv the wheel is skipped, and the reason is printed.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGES = ["numpy", "pyarrow", "polars", "pytest"]
PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]


def environment(folder: Path, packages: list[str]) -> Path:
    """Makes a fresh environment with packages and returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    subprocess.run([python, *PIP, *packages], check=True)
    return python


def wheel(python: Path, profile: str) -> Path:
    """Builds the library and packs it. The whole workspace is built, so that dependencies have the features of the tests."""
    words = ["--lib", "--release"] if profile == "release" else ["--lib", "--tests"]
    subprocess.run(["cargo", "build", "--workspace", "--locked", *words], cwd=ROOT, check=True)
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    begin, end = {"win32": ("", "dll"), "darwin": ("lib", "dylib")}.get(sys.platform, ("lib", "so"))
    library = target / profile / f"{begin}memfold_python.{end}"
    version = next(line.split('"')[1] for line in (ROOT / "Cargo.toml").read_text().splitlines() if line.startswith("version"))
    (target / "wheels").mkdir(exist_ok=True)
    pack = [python, HERE / "pack.py", library, version, target / "wheels"]
    return Path(subprocess.run(pack, check=True, capture_output=True, text=True).stdout.strip())


def main(words: list[str]) -> int:
    if sys.version_info < (3, 10):
        print("skipped the wheel: it needs Python 3.10 or later")
        return 0
    packages = PACKAGES + (["ray"] if "--ray" in words else [])
    try:
        python = environment(ROOT / "target" / "python", packages)
    except subprocess.CalledProcessError as error:
        print(f"skipped the wheel: no environment with {', '.join(packages)}: {error}")
        return 1 if "--ray" in words else 0
    built = HERE if "--release" in words else wheel(python, "debug")
    subprocess.run([python, *PIP, built], check=True)
    tests = [python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider"]
    return subprocess.run(tests, cwd=HERE).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
