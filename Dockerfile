# Two stages: the first has what installing needs, the second only what serving needs. To pin the base to the byte as
# well, name its digest: --build-arg PYTHON=python:3.11-slim-bookworm@sha256:…
ARG PYTHON=python:3.11-slim-bookworm

FROM $PYTHON AS build
WORKDIR /build
RUN python3 -m venv /opt/payoff
ENV PATH=/opt/payoff/bin:$PATH
COPY requirements-scale.lock ./
# A third of what arrives is not used here: tests, sources in C and C++, Arrow's own clients of stores and of Flight,
# two of three copies of a library of Arrow, and bytecode of modules that nothing imports.
RUN pip install --no-cache-dir --no-compile --disable-pip-version-check --require-hashes -r requirements-scale.lock \
 && cd /opt/payoff/lib/python3.*/site-packages \
 && find . -type d -name tests -prune -exec rm -r {} + \
 && find . -type f -regex '.*\.\(py[ixd]\|pxd\|[ch]\|[ch]pp\)' -delete \
 && rm -r pyarrow/include pyarrow/*flight* pyarrow/*s3* pyarrow/libarrow_python.so pyarrow/libarrow_python.so.*.*.*
COPY pyproject.toml README.md ./
COPY app app
COPY payoff payoff
COPY clients/python clients/python
# The installer goes last of all: what serves has nothing to install with.
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation . ./clients/python \
 && pip uninstall --yes --quiet hatchling editables setuptools pip
# The loops are compiled here, so that a container answers everything as soon as it is ready. A registry keeps times of
# change in whole seconds only; bytecode must not depend on them.
ENV NUMBA_CACHE_DIR=/opt/payoff/kernels
WORKDIR /
RUN cd /opt/payoff/lib/python3.*/site-packages \
 && python3 -m compileall -q -f --invalidation-mode unchecked-hash app payoff \
 && python3 -m payoff.kernels \
 && python3 -c "import app.api.app, app.cli, app.service, distributed.cli.dask_worker, onnxruntime, opentelemetry.exporter.otlp.proto.http.trace_exporter, psycopg"

FROM $PYTHON
# The group is root's, as everywhere: whoever runs the container as somebody else finds the folders writable all the same.
RUN useradd --uid 10001 --gid 0 --no-create-home --home-dir /srv/payoff --shell /usr/sbin/nologin payoff \
 && install -d -o 10001 -g 0 -m 2775 /srv/payoff /srv/models /srv/keys
COPY --from=build /opt/payoff /opt/payoff
COPY deploy/entrypoint.sh deploy/metrics-key.sh /usr/local/bin/
ENV PATH=/opt/payoff/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/srv/payoff/kernels \
    PAYOFF_HOME=/srv/payoff \
    PAYOFF_MODELS=/srv/models
USER 10001:0
WORKDIR /srv
VOLUME ["/srv/payoff", "/srv/models"]
EXPOSE 8000
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s \
  CMD ["python3", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health/live', timeout=2)"]
ENTRYPOINT ["entrypoint.sh"]
CMD ["payoff", "serve", "--host", "0.0.0.0", "--port", "8000"]
