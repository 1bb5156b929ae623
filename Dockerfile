# docker build -t lookalike .
# docker run -p 127.0.0.1:8080:8080 -v lookalike:/data lookalike

# The base images. A tag may be another image tomorrow; for a build that can be repeated, name them by digest:
#   docker pull debian:trixie-slim
#   docker image inspect -f '{{index .RepoDigests 0}}' debian:trixie-slim
#   docker build --build-arg DEBIAN_IMAGE=debian@sha256:… --build-arg RUST_IMAGE=rust@sha256:… -t lookalike .
ARG RUST_IMAGE=rust:1.95-slim-trixie
ARG DEBIAN_IMAGE=debian:trixie-slim

# What Cargo needs to compile the dependencies: the manifests without benchmarks and examples, whose files are
# not there, and an empty library in place of each crate. The next stage copies it, and is the same as before
# until a manifest changes.
FROM ${RUST_IMAGE} AS manifests
WORKDIR /build
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
COPY crates crates
COPY python/Cargo.toml python/Cargo.toml
RUN find crates -type f ! -name Cargo.toml -delete \
 && find crates -type d -empty -delete \
 && sed -i '/^\[\[\(bench\|example\)]]$/,/^$/d' Cargo.toml crates/*/Cargo.toml \
 && for crate in . crates/* python; do mkdir -p "$crate/src" && touch "$crate/src/lib.rs"; done \
 && echo 'fn main() {}' >src/main.rs

FROM ${RUST_IMAGE} AS builder
WORKDIR /build
COPY --from=manifests /build .
RUN cargo build --release --locked && rm -r src crates

# The sources and the files that they include. Everything else has been downloaded, hence --offline. Cargo
# compares file times: the sources must be newer than the output for the empty libraries. The line tables
# that backtraces need stay in the binary, compressed, which halves its size.
COPY console console
COPY docs/errors.md docs/errors.md
COPY crates crates
COPY src src
RUN find src crates -name '*.rs' -exec touch {} + \
 && cargo build --release --locked --offline \
 && objcopy --compress-debug-sections=zlib target/release/lookalike /build/lookalike

FROM ${DEBIAN_IMAGE}
# --build-arg REVISION=$(git rev-parse HEAD) --build-arg CREATED=$(date -u +%Y-%m-%dT%H:%M:%SZ)
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="lookalike" \
      org.opencontainers.image.description="Exact near-duplicate lookup over HTTP" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
# A new volume inherits the owner of this directory. The user is a number, and needs no entry in
# /etc/passwd.
RUN install -d -o 10001 -g 10001 -m 0750 /data
COPY --from=builder /build/lookalike /usr/local/bin/lookalike
# These override a settings file; config/default.toml shows every setting and its variable.
# OPEN: every address inside a container belongs to the container, so the server listens on all of them and
# requires no keys. `docker run -p` decides who can reach it: publish the port to 127.0.0.1, or create keys
# first and set OPEN to false.
# Without keys it accepts the host name localhost and IP addresses. For another name, such as that of the
# container in a network of containers, add -e LOOKALIKE_SERVER__HOSTS=NAME.
ENV LOOKALIKE_SERVER__LISTEN=0.0.0.0:8080 \
    LOOKALIKE_SERVER__OPEN=true \
    LOOKALIKE_DATA__DIR=/data
USER 10001:10001
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
# The server is not ready while it reads its data, which takes longer the more there is: failures count only
# after start-period.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 \
    CMD ["/usr/local/bin/lookalike", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/lookalike"]
