import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { parse } from 'yaml';
import { DEFAULTS, VARIABLES } from '../../../src/config/keys.js';
import { loadConfig } from '../../../src/config/load.js';
import { repositoryPath } from '../../support/repository/repository.js';

/**
 * The manifests for Kubernetes against what they rely on. Against the schemas of Kubernetes they are checked where these
 * are installed:
 *
 *   go install github.com/yannh/kubeconform/cmd/kubeconform@v0.6.7 sigs.k8s.io/kustomize/kustomize/v5@v5.5.0
 *   go mod download k8s.io/kubernetes@v1.34.3 github.com/prometheus-operator/prometheus-operator@v0.79.2
 */

const FOLDER = join(repositoryPath, 'config', 'kubernetes');
const WAYS = { embedded: 'statefulset.yaml', database: 'deployment.yaml' } as const;
const read = (...path: string[]) => parse(readFileSync(join(FOLDER, ...path), 'utf8')) as unknown;
const dockerfile = readFileSync(join(repositoryPath, 'Dockerfile'), 'utf8');

interface SecretVariable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly secretKeyRef: { readonly name: string; readonly key: string } };
}
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}
interface Container {
  readonly image: string;
  readonly command?: unknown;
  readonly args?: unknown;
  readonly env: readonly SecretVariable[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
  readonly securityContext: object;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
}
interface Workload {
  readonly spec: {
    readonly replicas: number;
    readonly strategy?: { readonly type: string };
    readonly serviceName?: string;
    readonly selector: { readonly matchLabels: object };
    readonly volumeClaimTemplates?: readonly { readonly metadata: { readonly name: string } }[];
    readonly template: {
      readonly metadata: { readonly labels: object };
      readonly spec: {
        readonly securityContext: { readonly runAsUser: number };
        readonly terminationGracePeriodSeconds: number;
        readonly volumes: readonly { readonly name: string }[];
        readonly containers: readonly [Container];
      };
    };
  };
}

const workloads = Object.entries(WAYS).map(([way, file]): [string, Workload] => [
  way,
  read(way, file) as Workload,
]);

test('what a manifest for Kubernetes sets is a setting, and starts', () => {
  const secrets: Readonly<Record<string, string>> = {
    'http-token': '0123456789abcdef0123',
    'database-url': 'postgres://a:b@db:5432/tapekeep',
  };
  for (const [way, workload] of workloads) {
    const [{ env, ports }] = workload.spec.template.spec.containers;
    const given = env.map(({ name, value, valueFrom }) => {
      assert.ok(VARIABLES.has(name), name);
      const { key = '' } = valueFrom?.secretKeyRef ?? {};
      return [name, value ?? secrets[key] ?? assert.fail(`${way}: ${name}`)];
    });
    const config = loadConfig({ env: Object.fromEntries(given) });
    assert.equal(config.database.url === null, way === 'embedded');
    assert.deepEqual(ports, [{ name: 'http', containerPort: config.http.port }]);
    // The comment of its kustomization makes each secret.
    const head = readFileSync(join(FOLDER, way, 'kustomization.yaml'), 'utf8');
    for (const { valueFrom } of env) {
      const { name, key } = valueFrom?.secretKeyRef ?? {};
      if (key === undefined) continue;
      assert.equal(name, 'tapekeep');
      assert.ok(head.includes(`--from-literal=${key}=`), key);
    }
  }
});

test('a pod runs as the image does: its user, its command, its folder', () => {
  const [, dataDir] = /TAPEKEEP_DATA_DIR=(\S+)/.exec(dockerfile) ?? [];
  assert.match(dockerfile, /^USER node$/m);
  assert.match(dockerfile, /^EXPOSE 9464$/m);
  assert.equal(DEFAULTS.http.port, 9464);
  for (const [way, { spec }] of workloads) {
    const pod = spec.template.spec;
    const [container] = pod.containers;
    // The user node of Node's official image.
    assert.equal(pod.securityContext.runAsUser, 1000);
    assert.deepEqual([container.command, container.args], [undefined, undefined], way);
    assert.deepEqual(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    const paths = container.volumeMounts.map(({ mountPath }) => mountPath);
    assert.ok(paths.includes(dataDir ?? '') && paths.includes('/tmp'), way);
    const volumes = [
      ...pod.volumes.map(({ name }) => name),
      ...(spec.volumeClaimTemplates ?? []).map(({ metadata }) => metadata.name),
    ];
    assert.deepEqual(volumes.sort(), container.volumeMounts.map(({ name }) => name).sort());
    assert.equal(container.livenessProbe.httpGet.path, '/healthz');
    assert.equal(container.readinessProbe.httpGet.path, '/readyz');
    // A stop takes ten seconds at most.
    assert.ok(pod.terminationGracePeriodSeconds > 10);
    assert.equal(spec.replicas, 1);
    assert.equal(spec.strategy?.type, way === 'database' ? 'Recreate' : undefined);
  }
});

test('service and monitor find the pod, and Prometheus calls its job as the alerts do', () => {
  const service = read('common', 'service.yaml') as {
    metadata: { name: string; labels: object };
    spec: { selector: object; ports: { name: string; targetPort: string }[] };
  };
  const monitor = read('common', 'servicemonitor.yaml') as {
    spec: {
      selector: { matchLabels: object };
      endpoints: { port: string; path: string }[];
    };
  };
  for (const [, { spec }] of workloads) {
    assert.deepEqual(spec.template.metadata.labels, service.spec.selector);
    assert.deepEqual(spec.selector.matchLabels, service.spec.selector);
    assert.ok([undefined, service.metadata.name].includes(spec.serviceName));
  }
  assert.deepEqual(monitor.spec.selector.matchLabels, service.metadata.labels);
  assert.deepEqual(monitor.spec.endpoints[0]?.port, service.spec.ports[0]?.name);
  const rules = readFileSync(join(repositoryPath, 'config', 'prometheus-rules.yml'), 'utf8');
  // The operator names the job after the service.
  assert.ok(rules.includes(`up{job="${service.metadata.name}"}`));
  for (const way of ['common', ...Object.keys(WAYS)]) {
    const { resources } = read(way, 'kustomization.yaml') as { resources: string[] };
    for (const one of resources) assert.ok(existsSync(join(FOLDER, way, one)), one);
  }
});

type Schema = Record<string, unknown>;

/** A schema in which a field that is not known is refused, and that kubeconform can read. */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (typeof schema !== 'object' || schema === null) return schema;
  const made = Object.fromEntries(
    Object.entries(schema).map(([name, value]) => [name, strict(value)]),
  ) as Schema;
  if (made.format === 'int-or-string' || made['x-kubernetes-int-or-string'] === true) {
    return { oneOf: [{ type: 'string' }, { type: 'integer' }] };
  }
  const isClosed = made.properties !== undefined && made.additionalProperties === undefined;
  return isClosed ? { ...made, additionalProperties: false } : made;
}

/** Schemas of the kinds in use by the names that kubeconform asks for, of modules that Go has downloaded. */
function schemasOf(modules: string): Map<string, unknown> | undefined {
  const api = join(modules, 'k8s.io/kubernetes@v1.34.3/api/openapi-spec/swagger.json');
  const crd = join(
    modules,
    'github.com/prometheus-operator/prometheus-operator@v0.79.2/example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml',
  );
  if (!existsSync(api) || !existsSync(crd)) return undefined;
  const { definitions } = strict(JSON.parse(readFileSync(api, 'utf8'))) as { definitions: Schema };
  const of = (name: string) => ({ $ref: `#/definitions/${name}`, definitions });
  const { spec } = parse(readFileSync(crd, 'utf8')) as {
    spec: { versions: { name: string; schema: { openAPIV3Schema: Schema } }[] };
  };
  const monitor = strict(spec.versions[0]?.schema.openAPIV3Schema) as { properties: Schema };
  // A definition leaves metadata open.
  const metadata = { type: 'object' };
  return new Map<string, unknown>([
    ['service-v1.json', of('io.k8s.api.core.v1.Service')],
    ['statefulset-apps-v1.json', of('io.k8s.api.apps.v1.StatefulSet')],
    ['deployment-apps-v1.json', of('io.k8s.api.apps.v1.Deployment')],
    [
      'servicemonitor-monitoring-v1.json',
      { ...monitor, properties: { ...monitor.properties, metadata } },
    ],
  ]);
}

test('kubeconform accepts what kustomize builds', (t) => {
  const run = (name: string, args: string[], input?: string) =>
    spawnSync(name, args, { encoding: 'utf8', ...(input === undefined ? {} : { input }) });
  const lacking = ['go', 'kustomize', 'kubeconform'].filter(
    (name) => run(name, ['version']).error !== undefined,
  );
  const modules = lacking.length > 0 ? '' : run('go', ['env', 'GOMODCACHE']).stdout.trim();
  const schemas = lacking.length > 0 ? undefined : schemasOf(modules);
  if (schemas === undefined) {
    const what = lacking.length > 0 ? lacking.join(', ') : 'schemas of Kubernetes';
    t.skip(`${what} not installed: the manifests were not checked against schemas`);
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), 'tapekeep-kubernetes-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, schema] of schemas) writeFileSync(join(folder, name), JSON.stringify(schema));
  const location = join(folder, '{{ .ResourceKind }}{{ .KindSuffix }}.json');
  const conforms = (text: string) =>
    run('kubeconform', ['-strict', '-summary', '-schema-location', location, '-'], text);
  for (const way of Object.keys(WAYS)) {
    const built = run('kustomize', ['build', join(FOLDER, way)]);
    assert.equal(built.status, 0, built.stderr);
    const { status, stdout, stderr } = conforms(built.stdout);
    assert.equal(status, 0, stdout + stderr);
    assert.match(stdout, /Valid: 3, Invalid: 0, Errors: 0, Skipped: 0/);
    // A field that is no field is found.
    assert.notEqual(conforms(built.stdout.replace('readOnlyRootFilesystem', 'readOnly')).status, 0);
  }
});
