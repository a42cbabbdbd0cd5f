FROM payoff-stand-in AS tools
FROM python:3.11-slim-bookworm
RUN python3 -m venv /opt/moto && useradd --uid 1000 seaweed && install -d -o 1000 -g 1000 /data
ENV PATH=/opt/moto/bin:$PATH
ARG MOTO
RUN pip install --no-cache-dir --disable-pip-version-check "moto[server]==$MOTO"
COPY --from=tools /bin/busybox /usr/local/bin/wget
COPY seaweedfs.py /usr/local/bin/
USER 1000
ENTRYPOINT ["python3", "/usr/local/bin/seaweedfs.py"]
