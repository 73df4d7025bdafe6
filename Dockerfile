# One image for the web app and its workers; PINS="torch-cuda ml" adds torch for the GPU worker and the engine.
FROM python:3.12.13-slim-trixie@sha256:229a2c5bfa27522db7815ea81f9bed70af17ccb9de9fc7ad142b1877b5830d36
ARG PINS="web"
WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY constraints constraints
COPY trace_site trace_site
COPY catalog catalog
COPY rules rules
COPY synthesis synthesis
COPY training training
COPY evaluation evaluation
COPY templates templates
COPY manage.py ./
RUN for pins in ${PINS}; do pip install --no-cache-dir --only-binary :all: --require-hashes -r "constraints/${pins}.txt" || exit 1; done \
    && pip install --no-cache-dir --no-deps --no-build-isolation -e . \
    && useradd --create-home --uid 10001 trace && mkdir /data /cache && chown trace /data /cache /app
USER trace
ENV PYTHONUNBUFFERED=1 DJANGO_SETTINGS_MODULE=trace_site.settings
EXPOSE 8000
