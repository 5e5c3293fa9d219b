# Stage one installs the locked packages, hash by hash; stage two takes only the result. At run time
# the service fetches nothing: the token tables come with a package.
FROM python:3.13-slim AS packages
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements.lock .
RUN python -m venv /venv \
    && /venv/bin/python -m pip install --require-hashes --only-binary :all: -r requirements.lock \
    && /venv/bin/python -m pip uninstall --yes pip

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin threadkeep
COPY --from=packages /venv /venv
WORKDIR /srv
COPY LICENSE ./
COPY alembic alembic
COPY app app
# Compiled here, since the service's user cannot write beside the sources.
RUN python -m compileall -q app alembic
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 THREADKEEP_HOST=0.0.0.0
USER 10001
EXPOSE 8080
# Liveness only. Without curl, which slim images do not have.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ.get(\"THREADKEEP_PORT\") or 8080}/healthz', timeout=2)"]
# Python is process 1 and handles SIGTERM itself: requests under way are finished.
CMD ["python", "-m", "app", "serve"]
