/** Two gateways on one Redis are restarted, one after the other, under clients that want an answer to every request. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { hasRedis, RedisServer } from '../state/redis/_redis.ts'
import { eventually } from '../_wait.ts'
import { folder } from '../_folder.ts'
import {
  complete,
  configOf,
  post,
  serveWith,
  spentAt,
  startStreams,
  STRAY,
  type Gateway,
} from './_streams.ts'

const CLIENTS = 8
/** The delay is 2 s: a probe that is older than this says nothing about a gateway. */
const FRESH_MS = 1000

/** Knows which gateways are ready, from probes. */
class Balancer {
  readonly #readyAt = new Map<Gateway, number>()
  #turn = 0

  /** Probes a gateway until it ends. */
  async watch(gateway: Gateway, until: AbortSignal): Promise<void> {
    while (!until.aborted && gateway.child.exitCode === null) {
      const asked = performance.now()
      const ready = await fetch(`${gateway.url}/readyz`).catch(() => undefined)
      if (ready?.ok) this.#readyAt.set(gateway, asked)
      else this.#readyAt.delete(gateway)
      await sleep(20)
    }
  }

  isReady(gateway: Gateway): boolean {
    return performance.now() - (this.#readyAt.get(gateway) ?? -Infinity) < FRESH_MS
  }

  async next(): Promise<Gateway> {
    return eventually(() => {
      const ready = [...this.#readyAt.keys()].filter((one) => this.isReady(one))
      expect(ready.length).toBeGreaterThan(0)
      return ready[this.#turn++ % ready.length]!
    })
  }
}

describe.runIf(hasRedis())('a rolling restart of two gateways on Redis', () => {
  it('refuses no request with a shutdown delay of 2 s, and every cost is booked', async () => {
    await using redis = await RedisServer.start()
    const config = `state: { driver: redis, url: '${redis.url}', outbox: ./outbox }${configOf()}`
      .replace(', options: { throwsInClose: true }', '')
      .replace('shutdownGrace: 60', 'shutdownDelay: 2, shutdownGrace: 60')
    const begin = async () => {
      const files = { 'gateway.config.yaml': config, 'stray.ts': STRAY }
      return serveWith('', { cwd: await folder(files) })
    }
    const ended = new AbortController()
    onTestFinished(() => ended.abort())
    const balancer = new Balancer()
    let gateways = [await begin(), await begin()]
    const watching = gateways.map((one) => balancer.watch(one, ended.signal))

    const refused: unknown[] = []
    let [answers, cost] = [0, 0]
    const done = new AbortController()
    const client = async () => {
      while (!done.signal.aborted) {
        const { url } = await balancer.next()
        const answer = await post(url, { model: 'mock/echo' }).catch((error: Error) => error)
        if (answer instanceof Error) {
          refused.push(answer.cause ?? answer)
        } else if (answer.status !== 200) {
          refused.push([answer.status, await answer.text()])
        } else {
          answers++
          cost += ((await answer.json()) as { usage: { cost: number } }).usage.cost
        }
      }
    }
    const clients = Array.from({ length: CLIENTS }, client)
    for (const old of gateways) {
      const streams = await startStreams(old.url, 3)
      old.child.kill('SIGTERM')
      const ofStreams = await complete(streams)
      cost += ofStreams
      expect(await old.ended).toMatchObject({ code: 0, signal: null })
      const fresh = await begin()
      watching.push(balancer.watch(fresh, ended.signal))
      await eventually(() => expect(balancer.isReady(fresh)).toBe(true))
      gateways = [...gateways.filter((one) => one !== old), fresh]
    }
    const before = answers
    await eventually(() => expect(answers).toBeGreaterThan(before + CLIENTS))
    done.abort()
    await Promise.all(clients)
    expect(refused).toEqual([])
    expect(await spentAt(gateways[0]!.url)).toBeCloseTo(cost, 9)
    for (const { child } of gateways) child.kill('SIGTERM')
    for (const one of gateways) expect(await one.ended).toMatchObject({ code: 0 })
    ended.abort()
    await Promise.all(watching)
  })
})
