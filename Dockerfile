# Two stages: the first has what installing needs, the second only what serving needs.
FROM python:3.11-slim-bookworm AS build
WORKDIR /build
RUN python3 -m venv /opt/payoff
COPY requirements.lock ./
RUN /opt/payoff/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock
COPY pyproject.toml README.md ./
COPY app app
RUN /opt/payoff/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .

FROM python:3.11-slim-bookworm
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin payoff \
 && install -d -o 10001 -g 10001 /srv/payoff /srv/models
COPY --from=build /opt/payoff /opt/payoff
ENV PATH=/opt/payoff/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PAYOFF_HOME=/srv/payoff \
    PAYOFF_MODELS=/srv/models
USER 10001:10001
WORKDIR /srv
VOLUME ["/srv/payoff", "/srv/models"]
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["python3", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health/ready', timeout=2)"]
CMD ["payoff", "serve", "--host", "0.0.0.0", "--port", "8000"]
