"""Examples of the API's description: a pocket run under way, its stages, curves and estimate."""

from typing import Any

from synthesis.api_examples import AT, JOB, got, page, sent

__all__ = [
    "BASES",
    "CURVES",
    "DETAIL",
    "ENDED",
    "ESTIMATE",
    "NO_BASE",
    "NO_SNAPSHOT",
    "RUN",
    "STARTED",
    "got",
    "page",
    "sent",
]

CELL = {"base": "pocket", "format": "a", "memo": "m", "retrieval": "r+R", "seed": 0}
RUN = {
    "id": 12,
    "snapshot": 4,
    **CELL,
    "why": "manual",
    "job": JOB,
    "loss": 1.184,
    "model": None,
    "cloned_from": 11,
    "created_by": "ada",
    "created_at": AT,
}
NEWEST = {"step": 225, "steps": 464, "loss": 1.184, "lr": 0.0002, "tokens": 262798, "tokens_per_second": 1658}
DETAIL = {
    "run": RUN,
    "recipe": {**CELL, "bf16": True, "stage2": {"lr": 0.002, "batch_size": 16, "epochs": 8.0}},
    "stages": [
        {
            "stage": "stage1",
            "key": "f05b782c",
            "state": "reused",
            "reused_from": 9,
            "stopped_at": "",
            "newest": {},
        },
        {
            "stage": "stage2",
            "key": "4f7db862",
            "state": "running",
            "reused_from": None,
            "stopped_at": "",
            "newest": NEWEST,
        },
    ],
    "hardware": {"cpu": "AMD EPYC", "cores": 2, "threads": 2, "memory_gb": 24, "gpu": ""},
    "summary": {"stage1": {"reused_from_run": 9}},
}
STARTED: dict[str, Any] = {"snapshot": 4, **CELL, "recipe": {"stage2": {"epochs": 3}}, "cloned_from": 11}
BASES = {
    "bases": [
        {
            "name": "google/gemma-4-E4B-it",
            "default": True,
            "vllm": True,
            "recipe": {"embeddings": "full", "lora": {"rank": 64, "alpha": 128}},
        },
        {
            "name": "pocket",
            "default": False,
            "vllm": False,
            "recipe": {"pocket": {"hidden": 192, "layers": 2}},
        },
    ]
}
NO_BASE = {
    "message": "/base: 'qwen' is not configured here; the bases are google/gemma-4-E4B-it, pocket."
    " Name it in BASE_MODELS, or start it with a command.",
    "code": "bad_input",
    "extra": {
        "base": [
            "'qwen' is not configured here; the bases are google/gemma-4-E4B-it, pocket."
            " Name it in BASE_MODELS, or start it with a command."
        ]
    },
}
CURVES = {
    "run": 12,
    "stages": [
        {
            "stage": "stage2",
            "points": [
                {
                    "step": 4.5,
                    "tokens": 5200.0,
                    "seconds": 3.1,
                    "points": 8,
                    "values": {"loss": [7.9, 7.6, 8.2], "lr": [0.0004, 0.0001, 0.0007]},
                }
            ],
        }
    ],
}
ESTIMATE = {
    "seconds": {"value": 221, "basis": "from 3 earlier runs on this hardware: 1,678 tokens/s"},
    "memory": {"value": 1415577600, "basis": "the peak of 3 earlier runs with these settings here"},
    "parameters": {"value": 3271296, "basis": "counted from the recipe and the catalog"},
    "tokens": {
        "value": 530776,
        "basis": "from the lengths of the snapshot's rows; what is reused is not counted",
    },
    "assumes": "No GPU; memory of 24 GB. 3.3 million train in fp32, each with its gradient and two moments of AdamW: "
    "all but the word rows of the encoder. 16 sequences of up to 512 tokens at once, their activations in fp32.",
    "stages": [
        {
            "stage": "stage1",
            "records": 645,
            "tokens": 27481,
            "epochs": 8.0,
            "steps": 328,
            "seconds": 0.0,
            "reused_from": 9,
        }
    ],
    "warnings": [],
    "refusal": "",
}
NO_SNAPSHOT = {
    "message": "/snapshot: There is no snapshot 4.",
    "code": "bad_input",
    "extra": {"snapshot": ["There is no snapshot 4."]},
}
ENDED = {"message": "run 12 (a, m, r+R): the run has already ended.", "code": "job_state", "extra": {}}
