"""Every setting, read from the environment; `.env.example` lists them. A clone runs with none set."""

import os
import secrets
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlparse

from trace_site.dev import services
from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_atomic

BASE_DIR = Path(__file__).resolve().parent.parent
TRACE_HOME = services.home()
TRACE_PUBLIC_DATA = Path(os.environ.get("TRACE_PUBLIC_DATA") or BASE_DIR.parent / "shared" / "data")


def env_bool(name: str, default: bool) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if value in {"", "1", "0", "true", "false", "yes", "no"}:
        return default if value == "" else value in {"1", "true", "yes"}
    raise TraceError(f"{value!r} is not a yes/no value.", code="bad_setting", where=name, hint="Use 1 or 0.")


def env_int(name: str, default: int) -> int:
    value = os.environ.get(name, "").strip()
    try:
        return int(value) if value else default
    except ValueError as error:
        raise TraceError(f"{value!r} is not a number.", code="bad_setting", where=name) from error


def env_float(name: str, default: float) -> float:
    value = os.environ.get(name, "").strip()
    try:
        number = float(value) if value else default
        if not 0 <= number < float("inf"):
            raise ValueError(value)
    except ValueError as error:
        raise TraceError(f"{value!r} is not a number from 0 on.", code="bad_setting", where=name) from error
    return number


def env_url(name: str) -> str:
    """The address of a site without the slash at its end, or nothing."""
    value = os.environ.get(name, "").strip().rstrip("/")
    parts = urlparse(value)
    if value and (parts.scheme not in {"http", "https"} or not parts.netloc):
        wrong, hint = f"{value!r} is no address of a site.", "Use https://trace.example.com."
        raise TraceError(wrong, code="bad_setting", where=name, hint=hint)
    return value


def env_list(name: str, default: str = "") -> list[str]:
    """What stands between commas, without spaces."""
    return [part.strip() for part in os.environ.get(name, default).split(",") if part.strip()]


def env_secret(name: str) -> str:
    """The configured secret, or one made on first use and kept under TRACE_HOME."""
    if value := os.environ.get(name):
        return value
    path = TRACE_HOME / f"{name.lower()}.txt"
    if not path.is_file():
        write_atomic(path, secrets.token_urlsafe(48), private=True)
    return path.read_text().strip()


def database(url: str) -> dict[str, object]:
    """A Django DATABASES entry from a postgresql:// URL."""
    parts = urlparse(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        wrong, hint = f"{parts.scheme!r} is not supported.", "Use postgresql://user:password@host:5432/name."
        raise TraceError(wrong, code="bad_setting", where="DATABASE_URL", hint=hint)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "OPTIONS": {
            "connect_timeout": "5",
            **{key: values[-1] for key, values in parse_qs(parts.query).items()},
        },
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
    }


DEBUG = env_bool("DEBUG", False)
SECRET_KEY = env_secret("SECRET_KEY")
ALLOWED_HOSTS = env_list("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("CSRF_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.contrib.postgres",
    "axes",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "trace_site",
    "catalog",
    "rules",
    "synthesis",
    "training",
    "evaluation",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "trace_site.middleware.short_way",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "trace_site.middleware.head_as_get",
    "trace_site.middleware.private_and_own_scripts",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "trace_site.limits.refuse_large",
    "trace_site.middleware.refuse_nul",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "trace_site.middleware.audit_source",
    "trace_site.middleware.RoleRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "evaluation.coverage.counted.one_count",
    "trace_site.middleware.trace_errors",
    "trace_site.middleware.closed_links",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "trace_site.urls"
ASGI_APPLICATION = "trace_site.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "trace_site.access.role_context",
                "evaluation.results.strip.strip_context",
            ]
        },
    }
]

DATABASES = {"default": database(services.database_url())}
# who works and who migrates; of both only user and password are used, see database.py
DATABASE_APPLICATION, DATABASE_OWNER = database(services.database_url()), database(services.owner_url())
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

PORT = env_int("PORT", 8000)

REDIS_URL = services.redis_url()
CACHES = {
    "default": {
        "BACKEND": "trace_site.rest.throttles.CountingCache",
        "LOCATION": REDIS_URL,  # the broker's too, so it is never cleared
        "KEY_PREFIX": "cache",
        "OPTIONS": {"socket_connect_timeout": 0.5, "socket_timeout": 0.5},
    }
}
CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = False  # the job row is the truth: a lost message costs one polling interval
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,
    "unacked_restore_interval": 2,
    "unacked_restore_throttle": 1,
    "socket_connect_timeout": 5,
    "socket_timeout": 5,
    "max_retries": 0,  # whoever wakes a worker does not wait for a broker that is away: polling finds the job
}
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_BEAT_SCHEDULE = {
    "sweep-jobs": {"task": "trace_site.worker.sweep", "schedule": 10.0, "options": {"expires": 10}}
}

# kind -> (handler, queue). A handler takes a JobContext and returns a JSON-able dict.
JOB_HANDLERS = {
    # encodes, so it needs the worker that has torch
    "catalog": ("catalog.lookalikes.catalog_refresh", "gpu"),
    "suggestions": ("rules.suggestions.services.run_suggestions", "default"),
    "synthesis": ("synthesis.generate.runs.run_synthesis", "default"),
    "snapshot": ("synthesis.datasets.build.run_snapshot", "default"),
    "snapshot_rebuild": ("synthesis.datasets.files.run_rebuild", "default"),
    "training": ("training.runs.job.run_training", "gpu"),
    "grid": ("training.grids.services.run_grid", "default"),
    "import": ("training.runs.imports.run_import", "default"),
    "retraining": ("training.retraining.services.run_retraining", "default"),
    "evaluation": ("evaluation.results.tasks.run_evaluation", "gpu"),
    "rule_tests": ("evaluation.results.tasks.run_rule_tests", "gpu"),
    "gate": ("evaluation.results.tasks.run_gate", "gpu"),
}
JOB_LEASE_SECONDS = env_int("JOB_LEASE_SECONDS", 30)
JOB_MAX_ATTEMPTS = 3
JOB_MAX_FAULTS = 40  # of the platform, with pauses of up to half a minute between them
JOB_POLL_SECONDS = env_int("JOB_POLL_SECONDS", 15)

# Where snapshots, runs and models are kept: a folder by default, s3://bucket/prefix for any S3-compatible store.
STORE_URL = os.environ.get("STORE_URL") or (TRACE_HOME / "store").as_uri()
STORE_OPTIONS = {"endpoint_url": url} if (url := os.environ.get("STORE_ENDPOINT_URL")) else {}

# Functions without arguments that every worker calls now and then; each may be called twice at once.
SWEEPERS = [
    "catalog.imports.previews.forget_old",
    "rules.changes.services.apply_due",
    "rules.suggestions.services.sweep",
    "synthesis.batches.services.sweep",
    "synthesis.review.services.tell_adjudicators",
    "synthesis.team.services.end_done",
    "synthesis.review.queue.sweep",
    "synthesis.samples.counts.fold",
    "synthesis.review.queue.sweep_items",
    "synthesis.generate.regeneration.sweep",
    "synthesis.generate.automatic.sweep",
    "training.retraining.services.sweep",
    "evaluation.loop.services.sweep",
    "evaluation.requests.services.forget_old",
    "evaluation.results.rollups.sweep",
    "trace_site.deliveries.deliver_due",
    "trace_site.deliveries.forget_old",
    "trace_site.rest.idempotency.forget_old",
    "trace_site.notices.services.forget_old",
    "trace_site.people.sessions.forget_old",
]

# Functions of a user that are called when they sign out.
AT_SIGN_OUT = ["synthesis.review.queue.release"]

# Ways out: {name: (a function, see trace_site/deliveries.py, what people call the channel, the setting that it needs)}.
# People choose among those that have a name.
CHANNELS = {
    "webhook": ("trace_site.webhooks.services.send", "", ""),
    "mail": ("trace_site.notices.services.send_mail", "e-mail", "EMAIL_HOST"),
}

# Webhooks go to public https addresses only, unless this installation talks to servers of its own network.
WEBHOOK_ALLOW_PRIVATE = env_bool("WEBHOOK_ALLOW_PRIVATE", False)

# Notices by e-mail: only where a mail server is named. SITE_URL makes the links in them.
EMAIL_HOST = os.environ.get("EMAIL_HOST", "")
EMAIL_PORT = env_int("EMAIL_PORT", 25)
EMAIL_HOST_USER = os.environ.get("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = os.environ.get("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_TLS = env_bool("EMAIL_USE_TLS", False)
EMAIL_USE_SSL = env_bool("EMAIL_USE_SSL", False)
EMAIL_TIMEOUT = 5  # seconds of silence
DEFAULT_FROM_EMAIL = os.environ.get("DEFAULT_FROM_EMAIL", "")
SITE_URL = env_url("SITE_URL")
if EMAIL_HOST and not (SITE_URL and DEFAULT_FROM_EMAIL):
    raise TraceError(
        "e-mail needs the address of this site and the address it sends from.",
        code="bad_setting",
        where="EMAIL_HOST",
        hint="Set SITE_URL and DEFAULT_FROM_EMAIL, or leave EMAIL_HOST empty.",
    )

# Language models: one endpoint for all roles, and what a role has of its own.
LLM_BASE_URL = os.environ.get("LLM_BASE_URL", "")
LLM_API_KEY = os.environ.get("LLM_API_KEY", "")
LLM_GENERATOR_BASE_URL = os.environ.get("LLM_GENERATOR_BASE_URL", "")
LLM_GENERATOR_API_KEY = os.environ.get("LLM_GENERATOR_API_KEY", "")
LLM_GENERATOR_MODEL = os.environ.get("LLM_GENERATOR_MODEL", "")
LLM_GENERATOR_ANSWERS_AS = env_list("LLM_GENERATOR_ANSWERS_AS")
# JSON: fields of each request, null leaves one out
LLM_GENERATOR_OPTIONS = os.environ.get("LLM_GENERATOR_OPTIONS", "")
LLM_GENERATOR_PRICE_IN = env_float("LLM_GENERATOR_PRICE_IN", 0.0)  # per million tokens
LLM_GENERATOR_PRICE_OUT = env_float("LLM_GENERATOR_PRICE_OUT", 0.0)
LLM_TEACHER_BASE_URL = os.environ.get("LLM_TEACHER_BASE_URL", "")
LLM_TEACHER_API_KEY = os.environ.get("LLM_TEACHER_API_KEY", "")
LLM_TEACHER_MODEL = os.environ.get("LLM_TEACHER_MODEL", "") or LLM_GENERATOR_MODEL
LLM_TEACHER_ANSWERS_AS = env_list("LLM_TEACHER_ANSWERS_AS")
LLM_TEACHER_OPTIONS = os.environ.get("LLM_TEACHER_OPTIONS", "")
LLM_TEACHER_PRICE_IN = env_float("LLM_TEACHER_PRICE_IN", LLM_GENERATOR_PRICE_IN)
LLM_TEACHER_PRICE_OUT = env_float("LLM_TEACHER_PRICE_OUT", LLM_GENERATOR_PRICE_OUT)
LLM_JUDGE_BASE_URL = os.environ.get("LLM_JUDGE_BASE_URL", "")
LLM_JUDGE_API_KEY = os.environ.get("LLM_JUDGE_API_KEY", "")
LLM_JUDGE_MODEL = os.environ.get("LLM_JUDGE_MODEL", "") or LLM_GENERATOR_MODEL
LLM_JUDGE_ANSWERS_AS = env_list("LLM_JUDGE_ANSWERS_AS")
LLM_JUDGE_OPTIONS = os.environ.get("LLM_JUDGE_OPTIONS", "")
LLM_JUDGE_PRICE_IN = env_float("LLM_JUDGE_PRICE_IN", LLM_GENERATOR_PRICE_IN)
LLM_JUDGE_PRICE_OUT = env_float("LLM_JUDGE_PRICE_OUT", LLM_GENERATOR_PRICE_OUT)
LLM_ALLOWED_HOSTS = env_list("LLM_ALLOWED_HOSTS")  # "host" or "host:port"; empty: the hosts named above
LLM_TIMEOUT_SECONDS = env_int("LLM_TIMEOUT_SECONDS", 120)  # of one call, waiting and retries included
LLM_ATTEMPT_SECONDS = env_int("LLM_ATTEMPT_SECONDS", 60)  # of one exchange
LLM_CONCURRENCY = env_int("LLM_CONCURRENCY", 64)  # most exchanges in flight at one endpoint

# Rejected samples are written again once so many wait or one waits so long; 0: not for that (both: by the button alone)
REVIEW_REGENERATE_COUNT = env_int("REVIEW_REGENERATE_COUNT", 20)
REVIEW_REGENERATE_MINUTES = env_int("REVIEW_REGENERATE_MINUTES", 10)

CHANGE_APPROVALS = env_int("CHANGE_APPROVALS", 1)  # approvals a change request needs before it may be applied

# What runs, grids and policies may be trained on: pocket, BASE_MODEL (chosen unless another is), and these
BASE_MODEL = os.environ.get("BASE_MODEL", "").strip() or "pocket"
BASE_MODELS = env_list("BASE_MODELS")
ENCODER = os.environ.get("ENCODER", "all-MiniLM-L6-v2")
ENGINE_URL = os.environ.get("ENGINE_URL", "")  # empty: the engine process that `manage.py up` starts
ENGINE_TOKEN = os.environ.get("ENGINE_TOKEN", "")  # what the engine behind ENGINE_URL wants to be told
# a completions server, such as vLLM, that holds the weights of a named base; empty: our own engine loads them. Engine
# and evaluation read both from the environment
TRACE_BACKEND_URL = os.environ.get("TRACE_BACKEND_URL", "").strip()
ML_THREADS = env_int("ML_THREADS", 2)
MODEL_RETENTION_KEEP = env_int("MODEL_RETENTION_KEEP", 10)  # newest models that model_retention never touches

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
AXES_HANDLER = "trace_site.people.sessions.SignIns"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_FAILURE_LIMIT = 10  # wrong passwords for one name from one address
SIGN_IN_FAILURES = 60  # wrong passwords from one address, whatever the names; see people/sessions.py
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # who waits, waits once
AXES_CLIENT_IP_CALLABLE = "trace_site.rest.throttles.client_of"
AXES_USERNAME_CALLABLE = "trace_site.people.sessions.name_tried"
AXES_LOCKOUT_CALLABLE = "trace_site.people.sessions.locked_out"
AXES_DISABLE_ACCESS_LOG = True  # the audit has it
AXES_VERBOSE = False
PROXIES = env_int("PROXIES", 0)  # how many of our own proxies stand before the site and say X-Forwarded-For
API_RATE = env_int("API_RATE", 600)  # API requests a minute of one person, and of each service token
API_ADDRESS_RATE = env_int("API_ADDRESS_RATE", 1200)  # those without a valid token, from one address
RETRIEVE_RATE = env_int("RETRIEVE_RATE", 6000)  # queries a minute of one person, and of each service token
RETRIEVE_ADDRESS_RATE = env_int("RETRIEVE_ADDRESS_RATE", 12000)  # the same of calls for tools
TOKEN_DAYS = env_int("TOKEN_DAYS", 90)  # how long a personal API token lasts
SESSION_ENGINE = "trace_site.people.sessions"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
HTTPS = env_bool("HTTPS", False)
DEMO = env_bool("TRACE_DEMO", False)  # `manage.py demo` sets it for what it serves
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = ["^healthz$"]  # health checks inside a container speak plain HTTP
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS and env_bool("HSTS_SUBDOMAINS", True)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "templates" / "static"]
WHITENOISE_USE_FINDERS = True
DATA_UPLOAD_MAX_MEMORY_SIZE = 5_100_000  # limits.IN_MEMORY
# the largest rule in the editor: 200 look-alikes, 100 clauses, 200 tests
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2000

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "trace_site.rest.tokens.ApiTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["trace_site.access.ApiPermission"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "EXCEPTION_HANDLER": "trace_site.rest.views.handle_error",
    "DEFAULT_SCHEMA_CLASS": "trace_site.rest.schema.OperationSchema",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "TRACE Rule Studio",
    "VERSION": "0.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SORT_OPERATIONS": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "ChangeRequestState": "rules.models.ChangeRequest.State",
        "RuleState": ["published", "changed", "draft"],
        "PairState": "rules.core.pairs.PAIR_STATES",
        "SuggestionState": "rules.suggestions.serializers.STATES",
        "GateVerdict": "evaluation.core.gate.VERDICTS",
        "ReviewVerdict": "synthesis.review.serializers.VERDICTS",
        "TokenFormat": "training.models.Run.Format",
    },
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "docExpansion": "none", "defaultModelsExpandDepth": 0},
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "trace_site.rest.schema.describe_common",
    ],
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "{asctime} {levelname} {name}: {message:.2000}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": os.environ.get("LOG_LEVEL", "WARNING")},
    "loggers": {
        # it tells whole addresses, and those of webhooks are often secrets
        "httpx2": {"level": "WARNING"},
        # below it stands what a stranger asks for and is refused: he could fill the disk with it
        "django.request": {"level": "ERROR"},
    },
}
