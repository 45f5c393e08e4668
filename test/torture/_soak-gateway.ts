/**
 * The gateway of `soak.ts`, in a process of its own, so that what it holds can be counted. It is told what to do in messages:
 * to tell its figures, to reload, to end.
 */
import { readdirSync, readlinkSync } from 'node:fs'
import { parsePico } from '../../src/money/money.ts'
import { loaded } from '../_setup.ts'
import { Bench } from './_bench.ts'
import { MOCK_CONFIG } from './_bodies.ts'
import type { Driver } from './_run.ts'

/** What the gateway holds while nothing is asked of it. */
export interface Figures {
  readonly rss: number
  /** The heap after a collection of garbage, in bytes. */
  readonly heap: number
  readonly descriptors: number
  readonly sockets: number
  /** Calls under way, leases and accounts with money held. */
  readonly running: number
  readonly leases: number
  readonly held: number
}

/** What `soak.ts` asks for. */
export type Order =
  | { readonly what: 'sample' }
  | { readonly what: 'reload' }
  | { readonly what: 'end'; readonly lanes: readonly { spent: string; hasLeft: boolean }[] }

const { driver, lanes, vendor } = JSON.parse(process.argv[2]!) as {
  driver: Driver
  lanes: number
  vendor: string
}
const config = {
  ...MOCK_CONFIG,
  providers: {
    ...MOCK_CONFIG.providers,
    slow: { use: 'openai-compatible', options: { baseURL: `${vendor}/v1` } },
  },
  models: {
    ...(MOCK_CONFIG.models as object),
    'm/slow': {
      pricing: { prompt: '0.000001', completion: '0.000002' },
      capabilities: ['STREAMING'],
      deployments: [{ provider: 'slow', model: 'slow' }],
    },
  },
  log: { level: 'error' },
  routing: { cooldown: 0 },
} as typeof MOCK_CONFIG
const bench = await Bench.open(config, lanes, driver)
process.send!({ url: bench.gateway.url, secrets: bench.lanes.map(({ secret }) => secret) })

process.on('message', (order: Order) => {
  void obey(order).then((answer) => process.send!(answer))
})
process.on('disconnect', () => process.exit())

async function obey(order: Order): Promise<unknown> {
  if (order.what === 'sample') return figures()
  if (order.what === 'reload') {
    const { state } = bench.gateway.gateway.runtime.config
    await bench.gateway.gateway.reload(loaded({ ...config, state } as typeof config))
    return {}
  }
  for (const [i, { spent, hasLeft }] of order.lanes.entries()) {
    Object.assign(bench.lanes[i]!, { spent: parsePico(spent), hasLeft })
  }
  const faults = await bench.close()
  return { faults, descriptors: descriptorsOf().length }
}

async function figures(): Promise<Figures> {
  const { ledger } = bench.gateway.gateway.runtime
  const books = await Promise.all(bench.lanes.map(({ account }) => ledger.account(account)))
  const keys = await Promise.all(bench.lanes.map(({ account, key }) => ledger.key(account, key)))
  globalThis.gc!()
  const { rss, heapUsed } = process.memoryUsage()
  const open = descriptorsOf()
  return {
    rss,
    heap: heapUsed,
    descriptors: open.length,
    sockets: open.filter((to) => to.startsWith('socket:')).length,
    running: bench.gateway.gateway.running.size,
    leases: keys.reduce((sum, { inFlight }) => sum + inFlight, 0),
    held: books.filter(({ balance, available }) => balance !== available).length,
  }
}

function descriptorsOf(): string[] {
  return readdirSync('/proc/self/fd').flatMap((name) => {
    try {
      return [readlinkSync(`/proc/self/fd/${name}`)]
    } catch {
      return []
    }
  })
}
