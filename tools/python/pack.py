"""Packs a built library and the Python sources as a wheel: ``pack.py LIBRARY VERSION FOLDER``.

For tests: maturin, which builds the wheels that are published, would compile everything again.
"""

import base64
import hashlib
import json
import re
import sys
import sysconfig
import zipfile
from pathlib import Path

HERE = Path(__file__).parent


def pack(library: Path, version: str, folder: Path) -> Path:
    """Writes the wheel and returns its path."""
    project = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    tag = f"cp310-abi3-{platform}"
    info = f"memfold-{version}.dist-info"
    metadata = [
        "Metadata-Version: 2.1",
        "Name: memfold",
        f"Version: {version}",
        f"Requires-Python: {value_of('requires-python', project)}",
        *(f"Requires-Dist: {one}" for one in value_of("dependencies", project)),
        "Provides-Extra: ray",
        *(f'Requires-Dist: {one}; extra == "ray"' for one in value_of("ray", project)),
    ]
    wheel = ["Wheel-Version: 1.0", "Generator: memfold", "Root-Is-Purelib: false", f"Tag: {tag}"]
    ending = "pyd" if sys.platform == "win32" else "abi3.so"
    members = {f"memfold/_memfold.{ending}": library.read_bytes()}
    for source in sorted((HERE / "python" / "memfold").iterdir()):
        if source.is_file():
            members[f"memfold/{source.name}"] = source.read_bytes()
    command = value_of("memfold", project)
    members[f"{info}/entry_points.txt"] = f"[console_scripts]\nmemfold = {command}\n".encode()
    members[f"{info}/METADATA"] = "\n".join([*metadata, ""]).encode()
    members[f"{info}/WHEEL"] = "\n".join([*wheel, ""]).encode()
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data in members.items())
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / f"memfold-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def value_of(key: str, project: str):
    """Returns a text or a list of texts; Python 3.10 cannot read TOML by itself."""
    return json.loads(re.search(rf"^{key} = (.*)$", project, re.MULTILINE)[1])


def digest(data: bytes) -> str:
    """Returns a hash as wheels record it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    print(pack(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
