# CPU image that runs the demo without a network:
#
#   docker build -t tgp .
#   docker run --rm tgp                                        the demo
#   docker run --rm -v "$PWD:/data" -w /data tgp tgp coarsen   any command on your own files
#
# On Linux, the default torch wheel includes gigabytes of GPU libraries. To avoid them, name an index with CPU builds
# (see pytorch.org): docker build --build-arg PIP_EXTRA_INDEX_URL=... -t tgp .

FROM python:3.11-slim

ARG PIP_EXTRA_INDEX_URL=""
ENV PYTHONUNBUFFERED=1

WORKDIR /opt/tgp
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY tgp tgp
COPY tgp_cli tgp_cli
RUN pip install --no-cache-dir -c constraints.txt '.[plot]' \
    && useradd --create-home --uid 1000 tgp

USER 1000
WORKDIR /home/tgp
# Compiled kernels fit processors like that of the build machine. Others compile what they need.
RUN tgp warmup
COPY --chown=1000 examples examples

CMD ["python", "examples/demo.py"]
