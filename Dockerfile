# docker build -t rmqtool .
# docker run --rm --read-only --tmpfs /tmp -v /path/to/store:/store:ro rmqtool verify /store
#
# The store is mounted read-only. Its files must be readable for the user of the container: give the broker's with
# --user. Results go to a directory that is mounted, too: -v "$PWD":/out … rebuild /store --out /out/rebuilt
FROM python:3.13-slim AS build
COPY . /src
RUN python -m venv /opt/rmqtool && /opt/rmqtool/bin/pip install --no-cache-dir /src
ENV RMQTOOL_CACHE_DIR=/opt/rmqtool/cache
RUN /opt/rmqtool/bin/rmqtool warmup && chmod -R a+rX /opt/rmqtool/cache

FROM python:3.13-slim
COPY --from=build /opt/rmqtool /opt/rmqtool
ENV PATH=/opt/rmqtool/bin:$PATH RMQTOOL_CACHE_DIR=/opt/rmqtool/cache
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["rmqtool"]
CMD ["--help"]
