"""What the server of forked trainers loads once."""

from transformers.utils import logging

import training.ml.stages  # noqa: F401

logging.disable_progress_bar()
