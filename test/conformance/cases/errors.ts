import { isOptional } from '../../../src/contract/documents/json-schema.js';
import { type EndpointName, endpoints } from '../../../src/contract/endpoints.js';
import type { Case } from '../context.js';
import type { Query } from '../exchange-probe.js';
import { judgeNotFound, judgeRefusal } from '../judge.js';
import { goodQuery, publicNames } from './resources.js';

const UNKNOWN_MARKET = 'NOSUCH_MARKET';
const UNKNOWN_PATH = '/api/v1/public/nosuchpath';

/** A case that spoils one parameter of a good request. */
function spoiled(
  name: EndpointName,
  field: string,
  kind: string,
  value: string | number | undefined,
  isNamed: boolean,
): Case {
  const { path } = endpoints[name];
  const shown = value === undefined ? `no ${field}` : `${field}=${value}`;
  return {
    id: `${name}.${field}.${kind}`,
    title: `${path} refuses ${shown}`,
    async run(context, findings) {
      const { [field]: _spoiled, ...rest } = await goodQuery(name, context);
      const query = (value === undefined ? rest : { ...rest, [field]: value }) as Query;
      const answer = await context.probe.get(name, query);
      judgeRefusal(name, answer, findings, isNamed ? { field } : {});
    },
  };
}

function casesOf(name: EndpointName): Case[] {
  return Object.entries(endpoints[name].params.shape).flatMap(([field, schema]) => {
    const isNumber = schema.safeParse(1).success && field !== 'limit';
    const isRequired = !isOptional(schema);
    return [
      ...(isRequired ? [spoiled(name, field, 'missing', undefined, true)] : []),
      ...(isNumber ? [spoiled(name, field, 'text', 'abc', isRequired)] : []),
      ...(isNumber ? [spoiled(name, field, 'negative', -1, isRequired)] : []),
      ...(field === 'market' ? [spoiled(name, field, 'unknown', UNKNOWN_MARKET, false)] : []),
      ...(field === 'side' ? [spoiled(name, field, 'unknown', 'both', true)] : []),
      ...(field === 'interval' ? [spoiled(name, field, 'odd', 7, false)] : []),
    ];
  });
}

export const errorCases: readonly Case[] = [
  ...publicNames.flatMap(casesOf),
  {
    id: 'query.undecodable',
    title: 'a query that cannot be decoded is refused',
    async run({ probe }, findings) {
      const path = `${endpoints.ticker.path}?market=%zz`;
      const answer = await probe.send({ endpoint: 'ticker', method: 'GET', path });
      judgeRefusal('ticker', answer, findings, { field: 'market' });
    },
  },
  {
    id: 'path.unknown',
    title: 'an unknown path gives the 404 object',
    async run({ probe }, findings) {
      const request = { endpoint: 'unknown path', method: 'GET', path: UNKNOWN_PATH } as const;
      judgeNotFound(await probe.send(request), UNKNOWN_PATH, findings);
    },
  },
];
