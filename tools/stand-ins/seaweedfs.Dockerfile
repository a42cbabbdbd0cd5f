FROM payoff-stand-in AS tools
FROM python:3.11-slim-bookworm
RUN python3 -m venv /opt/moto && useradd --uid 1000 seaweed && install -d -o 1000 -g 1000 /data
ENV PATH=/opt/moto/bin:$PATH
ARG MOTO
RUN pip install --no-cache-dir --disable-pip-version-check "moto[server]==$MOTO"
COPY --from=tools /bin/busybox /usr/local/bin/wget
USER 1000
# at SeaweedFS's port, whatever its arguments; it keeps everything in memory
ENTRYPOINT ["python3", "-c", "import signal as s; from moto.server import ThreadedMotoServer as Server; \
  stop = (s.SIGTERM, s.SIGINT); s.pthread_sigmask(s.SIG_BLOCK, stop); \
  server = Server('0.0.0.0', 8333); server.start(); s.sigwait(stop); server.stop()"]
