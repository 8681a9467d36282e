# Build: all dependencies, then only those that the program needs at run time.
FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# The scripts build the program, whose source comes below.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN npm rebuild && npm run build && npm prune --omit=dev --ignore-scripts

FROM node:24-slim
ENV NODE_ENV=production \
    TAPEKEEP_DATA_DIR=/data
WORKDIR /app
# Owned by root: the program can not change itself. Only /data is its own.
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY package.json LICENSE ./
COPY sql ./sql
COPY config ./config
RUN printf '#!/bin/sh\nexec node /app/dist/cli/main.js "$@"\n' > /usr/local/bin/tapekeep \
 && chmod 755 /usr/local/bin/tapekeep \
 && install -d -o node -g node -m 700 /data
USER node
VOLUME /data
EXPOSE 9464
# /healthz never asks for the token. With http.enabled=false, start with --no-healthcheck.
HEALTHCHECK --interval=30s --timeout=6s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.TAPEKEEP_HTTP_PORT || 9464}/healthz`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["tapekeep"]
CMD ["start"]
