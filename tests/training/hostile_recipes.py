"""Recipes that nobody types: small to send, large to read or to answer."""

DOUBLED = "seed: [&a [x,x,x,x,x,x,x,x]" + "".join(
    f",&{name} [{','.join([f'*{before}'] * 8)}]" for before, name in zip("abcdef", "bcdefg", strict=True)
)
HOSTILE_RECIPES = [
    f"{DOUBLED}]",  # 202 bytes; written out, two million values
    "[" * 3000,
    "- " * 3000,
    "{" * 3000,
    "x" * 20_001,
    "seed: " + "9" * 5000,
    "seed: 0x" + "f" * 15_000,
    "stage2: {betas: [x, 1]}",
    "stage2: {epochs: .inf}",
    "pocket: {encoder: [a, b]}",
    "seed: [" + "[],[]," * 900 + "]",
    "? [a]\n: b",
    "\x07: 1",
]
