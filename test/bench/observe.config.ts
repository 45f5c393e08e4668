/** The gateway of the bench with everything that reports on calls switched on, or, with `BENCH_OBSERVE=off`, off. */
import type { UserConfig } from '../../src/config/config.ts'
import gateway from './gateway.config.ts'

const events = ['call.ended', 'alert']

const on = {
  ...gateway,
  admin: { token: '${BENCH_TOKEN}' },
  sinks: [
    { use: 'otlp', options: { endpoint: '${BENCH_SINK}' } },
    { use: 'webhook', options: { url: '${BENCH_SINK}', secret: '${BENCH_TOKEN}', events } },
  ],
} satisfies UserConfig

const off = {
  ...gateway,
  admin: { token: '${BENCH_TOKEN}' },
  log: { access: false, requests: false, usage: false },
} satisfies UserConfig

export default process.env.BENCH_OBSERVE === 'off' ? off : on
