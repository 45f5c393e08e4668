/**
 * The gateway in its default configuration: state in a file (or as `BENCH_STATE` says), access log, request log and usage on (or
 * as `BENCH_REPORTS` says), keys with a rate, a concurrency and a spend cap that are kept but never reached.
 */
import type { UserConfig } from '../../src/config/config.ts'
import { LITERALS, PATTERNS } from '../guard/texts.ts'

/** What the keys with these names forbid. None of it is in what the bench asks and is answered. */
const policies = {
  literals: { version: 1, bannedPatterns: LITERALS.slice(0, 8) },
  patterns: { version: 1, bannedPatterns: PATTERNS, guard: { output: false } },
} as const

const limits = {
  rpm_limit: 100_000_000,
  concurrency_limit: 100_000,
  spend_cap: { usd: '1000000', scope: 'month' },
} as const

const states = {
  file: { driver: 'file', path: '${BENCH_FOLDER}' },
  memory: { driver: 'memory' },
  redis: { driver: 'redis', url: '${BENCH_REDIS}', outbox: '${BENCH_FOLDER}' },
} as const

const events = ['call.ended', 'alert']
const reports = {
  usual: {},
  none: { log: { access: false, requests: false, usage: false } },
  all: {
    admin: { token: '${BENCH_KEY}' },
    sinks: [
      { use: 'otlp', options: { endpoint: '${BENCH_SINK}' } },
      { use: 'webhook', options: { url: '${BENCH_SINK}', secret: '${BENCH_KEY}', events } },
    ],
  },
}

export default {
  state: states[(process.env.BENCH_STATE ?? 'file') as keyof typeof states],
  ...reports[(process.env.BENCH_REPORTS ?? 'usual') as keyof typeof reports],
  providers: {
    upstream: {
      use: 'openai-compatible',
      options: { baseURL: '${BENCH_UPSTREAM}/v1', apiKey: 'none' },
      // The default would let some of the bench's streams wait for a connection.
      connections: 4096,
    },
  },
  models: {
    'bench/model': {
      pricing: { prompt: '0.000001', completion: '0.000004' },
      capabilities: ['STREAMING'],
      deployments: [{ provider: 'upstream', model: 'model' }],
    },
  },
  seed: {
    accounts: [
      {
        id: 'bench',
        name: 'Bench',
        credits: '1000000',
        keys: [
          { id: 'bench', name: 'Bench', secret: '${BENCH_KEY}', ...limits },
          ...Object.entries(policies).map(([id, policy]) => ({
            id,
            name: id,
            secret: `\${BENCH_KEY}-${id}`,
            policy,
            ...limits,
          })),
        ],
      },
    ],
  },
} satisfies UserConfig
