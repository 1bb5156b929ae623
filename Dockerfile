# docker build -t lookalike .
# docker run -p 127.0.0.1:8080:8080 -v lookalike:/data lookalike

FROM rust:1.95-slim-trixie AS builder
WORKDIR /build

# The dependencies alone, against an empty program: this layer lasts until Cargo.toml, Cargo.lock or .cargo
# change. Cargo wants every file that the manifest names, so the benchmark gets an empty one too. What was
# made of the empty program goes again: cargo judges by file times, and could take it for newer than the sources.
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
RUN mkdir -p src benches/lookup \
 && touch src/lib.rs \
 && echo 'fn main() {}' | tee src/main.rs >benches/lookup/main.rs \
 && cargo build --release --locked \
 && cargo clean --release --locked --package lookalike \
 && rm -r src

# The sources and what they include. Everything else is there by now, hence --offline. The line tables that
# backtraces need stay in the binary, compressed: that halves it.
COPY assets assets
COPY docs/errors.md docs/errors.md
COPY src src
RUN cargo build --release --locked --offline \
 && objcopy --compress-debug-sections=zlib target/release/lookalike /build/lookalike

FROM debian:trixie-slim
# A new volume takes its owner from this directory. The user is a number, and needs no entry in /etc/passwd.
RUN install -d -o 10001 -g 10001 -m 0750 /data
COPY --from=builder /build/lookalike /usr/local/bin/lookalike
# These overrule a settings file; config/default.toml shows every setting and its variable.
# OPEN: inside a container every address is the container's own, so it listens on all of them without asking for keys.
# Who may reach it is what `docker run -p` says: publish the port to 127.0.0.1, or make keys first and set OPEN to false.
# Without keys it answers as localhost and under IP addresses. For another name, such as the container's in a
# network of containers, add -e LOOKALIKE_SERVER__HOSTS=NAME.
ENV LOOKALIKE_SERVER__LISTEN=0.0.0.0:8080 \
    LOOKALIKE_SERVER__OPEN=true \
    LOOKALIKE_DATA__DIR=/data
USER 10001:10001
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
# Not ready while it reads its data, which takes the longer the more there is: failures count after start-period.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 \
    CMD ["/usr/local/bin/lookalike", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/lookalike"]
