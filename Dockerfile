# Two stages: the first has what installing needs, the second only what serving needs.
FROM python:3.11-slim-bookworm AS build
WORKDIR /build
RUN python3 -m venv /opt/payoff
COPY requirements.lock ./
RUN /opt/payoff/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock
COPY pyproject.toml README.md ./
COPY app app
# The installer goes last of all: what serves has nothing to install with.
RUN /opt/payoff/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation . \
 && /opt/payoff/bin/pip uninstall --yes --quiet hatchling editables setuptools pip

FROM python:3.11-slim-bookworm
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin payoff \
 && install -d -o 10001 -g 10001 /srv/payoff /srv/models
COPY --from=build /opt/payoff /opt/payoff
# The kernels are compiled on the machine that runs them. numba refuses to import where it can keep nothing, and under a
# read-only root it can only beside the state: compiled once there, they are at hand after every restart.
ENV PATH=/opt/payoff/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/srv/payoff/kernels \
    PAYOFF_HOME=/srv/payoff \
    PAYOFF_MODELS=/srv/models
USER 10001:10001
WORKDIR /srv
# A folder of the host that is bound here instead must belong to uid 10001.
VOLUME ["/srv/payoff", "/srv/models"]
EXPOSE 8000
# The first start compiles for half a minute and more; until it has answered once, a failed probe does not count.
HEALTHCHECK --interval=5s --timeout=3s --start-period=120s \
  CMD ["python3", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health/ready', timeout=2)"]
CMD ["payoff", "serve", "--host", "0.0.0.0", "--port", "8000"]
