# One image for every role: gateway, query, compact.
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/icegate \
 && /opt/icegate/bin/pip install --no-cache-dir --constraint constraints.txt '.[query,compactor,postgres]'

FROM python:3.11-slim
RUN useradd --create-home --uid 10001 icegate
COPY --from=build /opt/icegate /opt/icegate
ENV PATH=/opt/icegate/bin:$PATH ICEGATE_HOST=0.0.0.0
USER icegate
WORKDIR /home/icegate
EXPOSE 4317 4318 4319
ENTRYPOINT ["icegate"]
CMD ["up"]
