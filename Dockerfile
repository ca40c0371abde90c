# One image for every stage: `cpu` for data stages, evaluation and small training, `tpu` for
# training on TPU, `tpu-pod` for training on slices of several hosts, `preflight` for compiling before training, `dataflow` for the
# workers of `--engine beam`. No kfp inside: a component's command is `clozeflow-component STAGE '{{$}}'`.
ARG BASE_IMAGE=python:3.11-slim-bookworm
# Vertex AI's base image for TensorFlow on TPU pods, with Python 3.11 added: it has no default.
ARG TPU_POD_BASE_IMAGE=scratch

FROM ${BASE_IMAGE} AS builder
RUN python3 -m venv /opt/clozeflow
ENV PATH=/opt/clozeflow/bin:$PATH
COPY requirements/ /build/requirements/

# Dependencies before source: a change of code does not install them again.
FROM builder AS cpu-builder
RUN pip install --no-cache-dir --no-deps --require-hashes -r /build/requirements/cpu.lock
COPY pyproject.toml README.md LICENSE /build/
COPY src/ /build/src/
RUN pip install --no-cache-dir --no-deps --no-build-isolation /build

FROM builder AS tpu-builder
RUN pip install --no-cache-dir --no-deps --require-hashes -r /build/requirements/tpu.lock
COPY pyproject.toml README.md LICENSE /build/
COPY src/ /build/src/
RUN pip install --no-cache-dir --no-deps --no-build-isolation /build

FROM builder AS dataflow-builder
RUN pip install --no-cache-dir --no-deps --require-hashes -r /build/requirements/dataflow.lock
COPY pyproject.toml README.md LICENSE /build/
COPY src/ /build/src/
RUN pip install --no-cache-dir --no-deps --no-build-isolation /build

# The TPU's compiler goes with neither TensorFlow nor its libtpu: an environment of its own.
FROM ${BASE_IMAGE} AS preflight-builder
RUN python3 -m venv /opt/clozeflow-preflight
COPY requirements/preflight.lock /build/requirements/
RUN /opt/clozeflow-preflight/bin/pip install --no-cache-dir --no-deps --require-hashes \
    -r /build/requirements/preflight.lock

FROM ${BASE_IMAGE} AS runtime
RUN useradd --create-home --uid 1000 clozeflow
ENV PATH=/opt/clozeflow/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TF_USE_LEGACY_KERAS=1
WORKDIR /home/clozeflow

FROM runtime AS tpu
COPY --from=tpu-builder /opt/clozeflow /opt/clozeflow
# TensorFlow finds the TPU through this library (Vertex's documentation for v5e).
RUN ln -s "$(find /opt/clozeflow -name libtpu.so | head -n 1)" /lib/libtpu.so
ENV NEXT_PLUGGABLE_DEVICE_USE_C_API=true \
    TF_PLUGGABLE_DEVICE_LIBRARY_PATH=/lib/libtpu.so
USER clozeflow
HEALTHCHECK --interval=5m --timeout=30s CMD ["clozeflow", "--help"]

# Its entry point is its base's, which starts the program on every host: no ENTRYPOINT, no USER.
FROM ${TPU_POD_BASE_IMAGE} AS tpu-pod
RUN python3.11 -m venv /opt/clozeflow
ENV PATH=/opt/clozeflow/bin:$PATH
COPY requirements/tpu.lock /build/requirements/
RUN pip install --no-cache-dir --no-deps --require-hashes -r /build/requirements/tpu.lock
COPY pyproject.toml README.md LICENSE /build/
COPY src/ /build/src/
RUN pip install --no-cache-dir --no-deps --no-build-isolation /build \
    && ln -s "$(find /opt/clozeflow -name libtpu.so | head -n 1)" /lib/libtpu.so
ENV PYTHONUNBUFFERED=1 \
    TF_USE_LEGACY_KERAS=1 \
    NEXT_PLUGGABLE_DEVICE_USE_C_API=true \
    TF_PLUGGABLE_DEVICE_LIBRARY_PATH=/lib/libtpu.so

# Workers of Beam's runners, and the place to start a job from (docs/dataflow.md). Dataflow starts
# /opt/apache/beam/boot, which writes to a folder of root's: no USER.
FROM runtime AS dataflow
COPY --from=dataflow-builder /opt/clozeflow /opt/clozeflow
RUN mkdir -p /opt/apache/beam && ln -s /opt/clozeflow/bin/clozeflow-beam-boot /opt/apache/beam/boot
ENTRYPOINT ["/opt/apache/beam/boot"]

# Compiles the training step for a TPU, on a machine without one.
FROM runtime AS preflight
COPY --from=cpu-builder /opt/clozeflow /opt/clozeflow
COPY --from=preflight-builder /opt/clozeflow-preflight /opt/clozeflow-preflight
USER clozeflow
HEALTHCHECK --interval=5m --timeout=30s CMD ["clozeflow", "--help"]

FROM runtime AS cpu
COPY --from=cpu-builder /opt/clozeflow /opt/clozeflow
USER clozeflow
HEALTHCHECK --interval=5m --timeout=30s CMD ["clozeflow", "--help"]
