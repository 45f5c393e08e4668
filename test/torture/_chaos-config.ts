/** The configuration of the gateway of `chaos.ts`, which says in CHAOS what differs between runs. */
import type { UserConfig } from '../../src/config/config.ts'
import { MOCK_CONFIG } from './_bodies.ts'

/** What a run of `chaos.ts` has of its own. */
export interface ChaosSetting {
  readonly state: NonNullable<UserConfig['state']>
  /** Address of the vendor. */
  readonly vendor: string
  readonly token: string
  /** Secrets of the keys. */
  readonly keys: readonly string[]
}

const { state, vendor, token, keys } = JSON.parse(process.env.CHAOS!) as ChaosSetting
const CHAT = {
  pricing: { prompt: '0.000001', completion: '0.000002000001' },
  capabilities: ['STREAMING'],
}
const DEADLINES = { timeout: 3, firstPartTimeout: 2, idleTimeout: 2 }

export default {
  ...MOCK_CONFIG,
  server: { host: '127.0.0.1', shutdownGrace: 2 },
  state,
  admin: { token },
  log: { level: 'warn', access: false },
  routing: { cooldown: 0, attempts: 2 },
  providers: {
    ...MOCK_CONFIG.providers,
    vendor: { use: 'openai-compatible', options: { baseURL: `${vendor}/v1` }, ...DEADLINES },
    chaos: { use: './_chaos-plugin.ts', ...DEADLINES },
  },
  models: {
    ...(MOCK_CONFIG.models as object),
    'm/vendor': { ...CHAT, deployments: [{ provider: 'vendor', model: 'words' }] },
    'm/plugin': { ...CHAT, deployments: [{ provider: 'chaos', model: 'words' }] },
  },
  seed: {
    accounts: [
      {
        id: 'chaos',
        name: 'Chaos',
        credits: '1000000',
        keys: keys.map((secret, i) => ({
          id: `key-${i}`,
          name: `Key ${i}`,
          secret,
          rpm_limit: 100_000_000,
          concurrency_limit: 100_000,
        })),
      },
    ],
  },
} as unknown as UserConfig
