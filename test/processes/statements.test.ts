/** Gateways that are killed while statements are issued: each month has one, and their numbers have no gap. */
import { expect, it } from 'vitest'
import { start, TOKEN } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { send } from '../_setup.ts'
import { eventually } from '../_wait.ts'
import { hasRedis, NOT_INSTALLED, RedisServer } from '../state/redis/_redis.ts'

const ROUNDS = 3
/** Accounts of a round. */
const ACCOUNTS = 8
const authorization = `Bearer ${TOKEN}`
/** The clock of a process that makes the accounts: two months of theirs have ended. */
const EARLIER = 'data:text/javascript,const{now}=Date;Date.now=()=>now()-70*864e5'

/** The last two months that can be issued, the older one first. */
function months(): readonly [string, string] {
  const at = new Date(Date.now() - 3 * 3_600_000)
  const month = (back: number) =>
    new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() - back)).toISOString().slice(0, 7)
  return [month(2), month(1)]
}

async function play(state: string): Promise<void> {
  const ids = Array.from({ length: ROUNDS * ACCOUNTS }, (_, i) => `a${i}`)
  const cwd = await folder({
    'gateway.config.yaml': `
server: { port: 0 }
admin: { token: ${TOKEN} }
log: { access: false, format: json }
state: ${state}
seed: { accounts: [${ids.map((id) => `{ id: ${id}, name: A }`).join(', ')}] }
providers: { mock: { use: mock } }
models: { mock/echo: { pricing: { prompt: '0', completion: '0' }, deployments: [{ provider: mock, model: echo }] } }
`,
  })
  const begin = async (node: readonly string[] = []) => {
    const running = await start(['serve'], { cwd }, node)
    const line = () =>
      running
        .said()
        .split('\n')
        .find((one) => one.includes('"started"'))
    await expect.poll(line).toBeDefined()
    const url = JSON.parse(line()!).url as string
    const kill = () => {
      running.child.kill('SIGKILL')
      return running.ended
    }
    const ask = (method: string, path: string, body?: object) =>
      send(url + path, method, body && JSON.stringify(body), {
        authorization,
        'content-type': 'application/json',
      })
    return { kill, ask }
  }
  const early = await begin(['--import', EARLIER])
  await early.kill()
  let gateway = await begin()
  /** Whether the statement is issued. */
  const issue = async (account_id: string, month: string): Promise<boolean> => {
    for (;;) {
      const answer = await gateway.ask('POST', '/admin/statements', { account_id, month })
      if (answer.json.error?.code === 'not_level') continue
      expect([200, 201], answer.text).toContain(answer.status)
      return true
    }
  }
  let cut = 0
  for (let round = 0; round < ROUNDS; round++) {
    const own = ids.slice(round * ACCOUNTS, (round + 1) * ACCOUNTS)
    for (const month of months()) {
      let issued = 0
      const asked = own.map((id) =>
        issue(id, month).then(
          () => void issued++,
          (error: unknown) => {
            // The connection of a process that is gone.
            if ((error as Error).name === 'AssertionError') throw error
            cut++
          },
        ),
      )
      await expect.poll(() => issued, { interval: 1 }).toBeGreaterThanOrEqual(round)
      await gateway.kill()
      await Promise.all(asked)
      gateway = await begin()
      await eventually(async () => {
        for (const id of own) expect(await issue(id, month)).toBe(true)
      })
    }
  }
  const { json } = await gateway.ask('GET', '/admin/statements?limit=200')
  const found = json.data as { number: string; account_id: string; month: string; state: string }[]
  const numbers = found.map(({ number }) => Number(number.split('-').at(-1)))
  expect(numbers.toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 2 * ids.length }, (_, i) => i + 1),
  )
  expect(new Set(found.map(({ account_id, month }) => `${account_id} ${month}`)).size).toBe(
    2 * ids.length,
  )
  expect(cut).toBeGreaterThan(0)
}

it('with a file', () => play('{ driver: file, path: ./data }'))

it.skipIf(!hasRedis())(`with Redis (else: ${NOT_INSTALLED})`, async () => {
  await using server = await RedisServer.start({ appendfsync: 'always' })
  await play(`{ driver: redis, url: '${server.url}', outbox: ./outbox }`)
})
