# An image of etcd for the tour of replicas, from Debian's package. In production, use the official image
# (gcr.io/etcd-development/etcd or quay.io/coreos/etcd), or a packaged etcd on hosts of its own.
FROM debian:trixie-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends etcd-server \
 && rm -rf /var/lib/apt/lists/* \
 && install -d -o 10002 -g 10002 -m 0700 /etcd
USER 10002:10002
VOLUME /etcd
EXPOSE 2379 2380
ENTRYPOINT ["/usr/bin/etcd"]
