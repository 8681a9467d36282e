import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { stringify } from 'yaml';
import { makeFolder } from '../worlds/export-world.js';

/** Prometheus and its Alertmanager, as Debian's packages `prometheus` and `prometheus-alertmanager` install them. */

const SERVER = 'prometheus';
const MANAGER = 'prometheus-alertmanager';

/** Why a test of them cannot run here; undefined where it can. */
export function prometheusLack(needsManager = false): string | undefined {
  const lacking = [SERVER, ...(needsManager ? [MANAGER] : [])].filter(
    (name) => spawnSync(name, ['--version']).error !== undefined,
  );
  return lacking.length === 0 ? undefined : `Debian's ${lacking.join(' and ')} is not installed`;
}

interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [atS: number, value: string];
}

export interface Prometheus {
  /** `http://127.0.0.1:port` */
  readonly url: string;
  /** Values of a query now. */
  query(text: string): Promise<Sample[]>;
}

export interface Rules {
  readonly groups: readonly {
    readonly name: string;
    readonly rules: readonly { readonly alert: string; readonly expr: string }[];
  }[];
}

/** Starts one that scrapes an address every second, and ends with the test. */
export async function startPrometheus(
  t: TestContext,
  target: string,
  rules: Rules,
  manager?: string,
): Promise<Prometheus> {
  const folder = await makeFolder(t, 'prometheus');
  const every = { scrape_interval: '1s', evaluation_interval: '1s' };
  const config = {
    global: every,
    rule_files: ['rules.yml'],
    scrape_configs: [
      { job_name: 'tapekeep', static_configs: [{ targets: [new URL(target).host] }] },
    ],
    ...(manager === undefined
      ? {}
      : {
          alerting: { alertmanagers: [{ static_configs: [{ targets: [new URL(manager).host] }] }] },
        }),
  };
  await writeFile(join(folder, 'rules.yml'), stringify(rules));
  await writeFile(join(folder, 'prometheus.yml'), stringify(config));
  const url = await start(t, SERVER, [
    ...[`--config.file=${join(folder, 'prometheus.yml')}`, '--web.listen-address=127.0.0.1:0'],
    `--storage.tsdb.path=${join(folder, 'data')}`,
  ]);
  return {
    url,
    async query(text) {
      const reply = await fetch(`${url}/api/v1/query?query=${encodeURIComponent(text)}`);
      const { data, error } = (await reply.json()) as {
        readonly data?: { readonly result: Sample[] };
        readonly error?: string;
      };
      if (data === undefined) throw new Error(`${error}: ${text}`);
      return data.result;
    },
  };
}

/** Starts an Alertmanager with a configuration, which ends with the test. Returns its address. */
export async function startAlertmanager(t: TestContext, config: object): Promise<string> {
  const folder = await makeFolder(t, 'alertmanager');
  await writeFile(join(folder, 'alertmanager.yml'), stringify(config));
  return await start(t, MANAGER, [
    ...[`--config.file=${join(folder, 'alertmanager.yml')}`, '--web.listen-address=127.0.0.1:0'],
    // Without other members there is nothing to listen for.
    ...[`--storage.path=${join(folder, 'data')}`, '--cluster.listen-address='],
  ]);
}

/** Resolves with its address once it answers; fails with its last lines when it ends before. */
async function start(t: TestContext, name: string, args: readonly string[]): Promise<string> {
  const child: ChildProcess = spawn(name, [...args], { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = new Promise((resolve) => child.once('close', resolve));
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const lines: string[] = [];
  let address: string | undefined;
  return await new Promise((resolve, reject) => {
    void ended.then(() => reject(new Error(`${name} ended:\n${lines.slice(-5).join('\n')}`)));
    if (child.stderr === null) return;
    createInterface({ input: child.stderr }).on('line', (line) => {
      lines.push(line);
      // The address that an earlier line names has port 0.
      address = /"Listening on" address=(\S+)/.exec(line)?.[1] ?? address;
      const isReady = name !== SERVER || line.includes('Server is ready');
      if (address !== undefined && isReady) resolve(`http://${address}`);
    });
  });
}
