import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import { folder } from '../../_folder.ts'
import { needRedis, open, serverForTest, sharedServer, startedCluster } from './_engine.ts'
import { Address, startReplica } from './_redis.ts'

const PASSWORD = 'hunter2-is-not-a-password'
const refusal = (message: string | RegExp) => ({
  name: 'ConfigError',
  issues: [{ path: 'state.url', message: expect.stringMatching(message) }],
})

describe('a Redis that cannot be used', () => {
  it.each([`http://user:${PASSWORD}@127.0.0.1:6379`, `127.0.0.1:6379`, `redis://`, PASSWORD])(
    'is refused for its URL, which the message does not repeat',
    async (url) => {
      const error = await open(url).catch((error: unknown) => error)
      expect(error).toMatchObject(refusal('a URL such as "redis://127.0.0.1:6379"'))
      expect(String(error)).not.toContain(PASSWORD)
    },
  )

  it('is refused when the client is not installed, in one sentence', async () => {
    const without = `
      import { registerHooks } from 'node:module'
      registerHooks({
        resolve(name, context, next) {
          if (name !== 'ioredis') return next(name, context)
          throw Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' })
        },
      })`
    const engine = join(import.meta.dirname, '../../../src/state/redis/engine.ts')
    const script = `
      const { openRedis } = await import(${JSON.stringify(engine)})
      await openRedis({ url: 'redis://127.0.0.1:1', outbox: '.', log: console }).catch((error) =>
        process.stdout.write(JSON.stringify(error.issues)))`
    const preload = `data:text/javascript,${encodeURIComponent(without)}`
    const args = ['--import', preload, '--input-type=module', '-e', script]
    const issues = JSON.parse(String(execFileSync(process.execPath, args)))
    expect(issues).toEqual([
      {
        path: 'state.driver',
        message:
          'needs the package "ioredis": install it beside the gateway (npm install ioredis@5).',
      },
    ])
  })
})

describe('a start', () => {
  needRedis()

  it('waits for a server, and reports why none answers', async () => {
    const server = await serverForTest()
    await server.kill()
    const opened = open(server.url)
    await server.start()
    await (await opened).close()
    await server.kill()
    await expect(open(server.url)).rejects.toMatchObject(
      refusal(/cannot be reached: .*ECONNREFUSED/),
    )
  })

  it.each([600, 900])(
    'does not hold %i ms against the server in which this process did not run',
    async (ms) => {
      const { url } = await sharedServer()
      const { records } = await open(url)
      await records.put('key:one', { id: 'one' })
      const answers = Promise.all([records.get('key:one'), records.get('key:one')])
      await turn()
      for (const until = performance.now() + ms; performance.now() < until;);
      expect(await answers).toEqual([{ id: 'one' }, { id: 'one' }])
    },
  )

  it('needs the password, and does not log a wrong one', async () => {
    const server = await serverForTest()
    await server.ask((client) => client.config('SET', 'requirepass', 'secret'))
    await (await open(server.url.replace('//', '//:secret@'))).close()
    const wrong = await open(server.url.replace('//', `//:${PASSWORD}@`)).catch((error) => error)
    expect(wrong).toMatchObject(refusal(/cannot be reached: WRONGPASS/))
    expect(String(wrong)).not.toContain(PASSWORD)
    await expect(open(server.url)).rejects.toMatchObject(refusal(/cannot be reached: NOAUTH/))
  })

  it('refuses a server that would evict keys', async () => {
    const server = await serverForTest({ args: ['--maxmemory-policy', 'allkeys-lru'] })
    await expect(open(server.url)).rejects.toMatchObject(
      refusal(
        /^Redis at 127\.0\.0\.1:\d+ would throw .* maxmemory-policy to noeviction, not allkeys-lru/,
      ),
    )
  })

  it('refuses a replica, and one node of a cluster where a list is needed', async () => {
    const primary = await serverForTest()
    await using replica = await startReplica(primary)
    await expect(open(replica.url)).rejects.toMatchObject(refusal('is a replica'))
    const [node] = await startedCluster(1)
    await expect(open(node!.url)).rejects.toMatchObject(refusal('give "url" a list of its nodes'))
  })

  it('says in a sentence that the outbox cannot be used, and closes what it opened', async () => {
    const server = await serverForTest()
    const outbox = join(await folder({ file: '' }), 'file')
    const message = expect.stringMatching(/file cannot be used: EEXIST/)
    await expect(open(server.url, { outbox })).rejects.toMatchObject({
      name: 'ConfigError',
      issues: [{ path: 'state.outbox', message }],
    })
    const connected = () =>
      server.ask(
        async (client) =>
          String(await client.client('LIST'))
            .trim()
            .split('\n').length,
      )
    await expect.poll(connected).toBe(1)
  })

  it('logs the risks of the settings of a server, one line each', async () => {
    const server = await serverForTest({ appendfsync: 'always' })
    const told = async () => {
      const { logged, close } = await open(server.url)
      await close()
      // A replica that is late lets the server refuse a write, which is no setting.
      return logged.filter((line) => !line.includes('NOREPLICAS'))
    }
    const set = (name: string, value: string) =>
      server.ask((client) => client.config('SET', name, value))
    expect(await told()).toEqual([])
    await set('appendfsync', 'everysec')
    expect(await told()).toEqual([expect.stringContaining('up to two seconds of bookings')])
    await set('appendfsync', 'no')
    expect(await told()).toEqual([expect.stringContaining('half a minute of bookings')])
    await set('appendfsync', 'everysec')
    await using replica = await startReplica(server)
    expect(replica.port).not.toBe(server.port)
    expect(await told()).toEqual([expect.stringContaining('Set min-replicas-to-write to 1')])
    await set('min-replicas-to-write', '1')
    expect(await told()).toEqual([])
    await set('appendonly', 'no')
    expect(await told()).toEqual([
      expect.stringMatching(/^warn Redis at 127\.0\.0\.1:\d+ keeps no append-only file/),
    ])
  })

  it('logs that it may not read the settings, or rewrite the append-only file', async () => {
    const server = await serverForTest()
    const deny = (command: string) =>
      server.ask((client) => client.call('ACL', 'SETUSER', 'default', `-${command}`))
    await deny('config')
    await deny('bgrewriteaof')
    const { logged } = await open(server.url)
    expect(logged).toEqual([
      expect.stringContaining('does not permit CONFIG GET'),
      expect.stringMatching(/^warn Redis does not write its append-only file anew \(NOPERM/),
    ])
  })
})

describe('records in Redis', () => {
  needRedis()

  it('are stored with their expiry, on the connection of the ledger', async () => {
    const server = await serverForTest()
    const { records } = await open(server.url)
    const value = { usd: '9007199254740993', nested: { list: [1, 'two', null] } }
    await records.put('account:acct', value)
    await records.put('pin:one', { to: 'west' }, { ttlSeconds: 100 })
    expect(await records.get('account:acct')).toEqual(value)
    expect(await records.get('account:none')).toBeUndefined()
    expect(await records.getMany(['account:none', 'account:acct'])).toEqual([undefined, value])
    expect(await records.getMany([])).toEqual([])
    expect(await server.ask((client) => client.ttl('gw:pin:one'))).toBeGreaterThan(90)
    await records.del('account:acct')
    expect(await records.get('account:acct')).toBeUndefined()
    await expect(records.get('account:q?a=1')).rejects.toThrow(TypeError)
    const lines = await server.ask((client) => client.client('LIST'))
    // The engine's connection, and the one of this query.
    expect(String(lines).trim().split('\n')).toHaveLength(2)
  })

  it('have indexes to which several gateways add at once', async () => {
    const server = await sharedServer()
    const both = [await open(server.url), await open(server.url)] as const
    await both[0].records.add('accounts', 'first')
    expect(await both[1].records.listMany(['none', 'accounts'])).toEqual([[], ['first']])
    const ids = Array.from({ length: 100 }, (_, i) => `acct_${i}`)
    await Promise.all(ids.flatMap((id) => both.map(({ records }) => records.add('accounts', id))))
    const listed = await both[1].records.list('accounts')
    expect(listed.toSorted()).toEqual(['first', ...ids].toSorted())
    expect(await both[1].records.list('keys:none')).toEqual([])
  })

  it('are made and replaced once, also where the answer is lost', async () => {
    const server = await serverForTest()
    await using address = await Address.of(server)
    const { records } = await open(address.url)
    /** Sends a write, and ends the connection after it was done and before it is answered. */
    const withoutAnswer = async (write: () => Promise<boolean>, done: () => Promise<boolean>) => {
      await expect.poll(() => records.get('account:none').catch(() => null)).toBeUndefined()
      address.holdAnswers()
      const answer = write()
      answer.catch(() => {})
      await expect.poll(done, { interval: 2 }).toBe(true)
      address.leadTo(server)
      return answer
    }
    const stored = (key: string) => server.ask((client) => client.get(`gw:${key}`))
    let n = 0
    const attempt = async () => {
      const key = `account:acct_${n++}`
      const isStored = async () => (await stored(key)) !== null
      const isMade = await withoutAnswer(() => records.create(key, { revision: 1 }), isStored)
      const isNext = async () => /"revision":2/.test((await stored(key)) ?? '')
      const next = () => records.replace(key, { revision: 2 }, 1)
      return [isMade, await withoutAnswer(next, isNext)]
    }
    let results: readonly boolean[] | undefined
    const attempted = async () => {
      // On a slow machine the time of a write passes, and it fails.
      results = await attempt().catch(() => undefined)
      return results !== undefined
    }
    await expect.poll(attempted, { timeout: 60_000 }).toBe(true)
    expect(results).toEqual([true, true])
    const key = `account:acct_${n - 1}`
    expect(await records.create(key, { revision: 1 })).toBe(false)
    expect(await records.replace(key, { revision: 2 }, 1)).toBe(false)
  })

  it('keep the order of adds', async () => {
    const server = await sharedServer()
    const { records } = await open(server.url)
    const now = async () => Number((await server.ask((client) => client.time()))[1]) / 1000
    const ids = ['zeta', 'alpha', 'mid', 'beta']
    for (const id of ids) {
      await records.add('accounts', id)
      const since = Math.floor(await now())
      await expect.poll(async () => Math.floor(await now())).not.toBe(since)
    }
    await records.add('accounts', 'zeta')
    expect(await records.list('accounts')).toEqual(ids)
  })
})

describe('a server that answers, and does not write', () => {
  needRedis()
  const healthy = (ok: boolean, { ledger }: Awaited<ReturnType<typeof open>>) =>
    vi.waitFor(() => expect(ledger.health().ok).toBe(ok), { timeout: 20_000 })

  it.each([
    [
      'has no memory left',
      ['config', 'set', 'maxmemory', '1'],
      ['config', 'set', 'maxmemory', '0'],
      /^Redis refuses: OOM/,
    ],
    [
      'does not run scripts any more',
      ['acl', 'setuser', 'default', '-evalsha'],
      ['acl', 'setuser', 'default', '+evalsha'],
      /^Redis refuses: NOPERM/,
    ],
    [
      'has become a replica',
      ['replicaof', '127.0.0.1', '1'],
      ['replicaof', 'no', 'one'],
      /^Redis refuses: READONLY/,
    ],
  ])(
    'is not healthy while it %s, whatever is read',
    async (_, [break_, ...broken], [mend, ...mended], cause) => {
      const server = await serverForTest()
      const engine = await open(server.url)
      await healthy(true, engine)
      await server.ask((client) => client.call(break_!, ...broken))
      const before = Date.now()
      await healthy(false, engine)
      const { why, since } = engine.ledger.health()
      expect([why, since]).toEqual([expect.stringMatching(cause), expect.closeTo(before, -5)])
      for (let i = 0; i < 3; i++) {
        await engine.records.get('account:none')
        expect(engine.ledger.health().ok).toBe(false)
      }
      expect(engine.ledger.health().since).toBe(since)
      await server.ask((client) => client.call(mend!, ...mended))
      await healthy(true, engine)
      expect(engine.ledger.health().why).toBeUndefined()
      await engine.close()
    },
  )

  it('is used once it writes again, when it had no memory at the start', async () => {
    const server = await serverForTest({ args: ['--maxmemory', '1'] })
    const engine = await open(server.url)
    expect(engine.ledger.health().ok).toBe(false)
    await server.ask((client) => client.config('SET', 'maxmemory', '0'))
    await healthy(true, engine)
    await engine.close()
  })

  it('is refused at the start when it runs no scripts', async () => {
    const server = await serverForTest()
    await server.ask((client) => client.call('acl', 'setuser', 'default', '-evalsha'))
    const error = await open(server.url).catch((error: unknown) => error)
    expect(error).toMatchObject(
      refusal(/Redis at .* does not run scripts \("NOPERM.*allow EVALSHA, EVAL and SCRIPT LOAD\./),
    )
  })
})
