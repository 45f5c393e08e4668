/** What is left of a change of the managed configuration that ended between two steps: the state before or the one after. */
import { describe, expect, it } from 'vitest'
import { exportLines, importLines } from '../../src/cli/archive/archive.ts'
import type { Records } from '../../src/state/records.ts'
import { kept, model, PLANTED, provider, vendor, type Managing } from './_managed.ts'

const CHAT = { model: 'acme/one', messages: [{ role: 'user', content: 'hi' }] }
const WRITES = ['put', 'create', 'replace', 'add', 'drop', 'del'] as const

/** Lets a number of writes through; from then on each fails, as after a kill. @returns counts, and ends it */
function killAfter(records: Records, writes: number) {
  let made = 0
  const own = Object.fromEntries(WRITES.map((name) => [name, records[name]]))
  for (const name of WRITES) {
    Object.assign(records, {
      [name]: (...args: never[]) => {
        if (!String(args[0]).startsWith('managed')) return (own[name] as any).apply(records, args)
        if (made >= writes) throw new Error('killed')
        made++
        return (own[name] as any).apply(records, args)
      },
    })
  }
  return {
    get made() {
      return made
    },
    end: () => WRITES.forEach((name) => delete (records as any)[name]),
  }
}

async function restarted(gateway: Managing): Promise<Managing> {
  const { directory } = gateway
  await gateway.close()
  return kept({ directory })
}

describe('a gateway that is killed', () => {
  it('after any step of a change has the layer before it or after it, and changes it again', async () => {
    const upstream = await vendor()
    let gateway = await kept()
    const secret = gateway.key.secret
    await gateway.change(provider(upstream.url), model())
    const seen = new Set<string>()
    for (let writes = 0, isWhole = false; !isWhole; writes++) {
      const { records } = gateway.gateway.runtime
      const kill = killAfter(records, writes)
      const before = (await gateway.admin('GET', '/managed')).data.revision
      const name = `acme/m${writes}`
      const { status } = await gateway.change(model(name))
      isWhole = kill.made < writes
      kill.end()
      gateway = await restarted(gateway)
      const { data } = await gateway.admin('GET', '/managed')
      const isIn = data.entries.some((entry: any) => entry.name === name)
      expect(data.revision).toBe(before + Number(isIn))
      if (status === 200) expect(isIn).toBe(true)
      seen.add(isIn ? 'after' : 'before')
      expect((await gateway.chat(CHAT, { key: secret })).status).toBe(200)
    }
    expect(seen).toEqual(new Set(['before', 'after']))
  })

  it('after any step of a rotation can open every secret', async () => {
    const upstream = await vendor()
    let gateway = await kept()
    const secret = gateway.key.secret
    await gateway.change(provider(upstream.url), model())
    await gateway.change(model('acme/two'))
    for (let writes = 0, isWhole = false; !isWhole; writes++) {
      const kill = killAfter(gateway.gateway.runtime.records, writes)
      await gateway.admin('POST', '/secret/rotate')
      isWhole = kill.made < writes
      kill.end()
      gateway = await restarted(gateway)
      expect((await gateway.chat(CHAT, { key: secret })).status, `after ${writes}`).toBe(200)
    }
    const { data } = await gateway.admin('POST', '/secret/rotate')
    expect(data).toMatchObject({ sealed: 1, others: 0 })
  })
})

describe('200 broken entries', () => {
  it('do not stop a start: the rest is served, and each is named', async () => {
    const upstream = await vendor()
    const gateway = await kept()
    const secret = gateway.key.secret
    await gateway.change(provider(upstream.url), model())
    const { records } = gateway.gateway.runtime
    const head: any = await records.get('managed:head')
    const stored: any = await records.get(`managed:doc:${head.doc}`)
    const entry = (value: object) => ({ value, revision: 1, changed: { at: 1, by: 'x' } })
    for (let i = 0; i < 50; i++) {
      stored.sections.providers[`p${i}`] = entry({
        use: i % 2 ? './gone.ts' : 'openai',
        options: {},
      })
      stored.sections.models[`p${i}/m`] = entry({ pricing: { prompt: '0', completion: '0' } })
      stored.sections.models[`acme/b${i}`] = entry({ pricing: { prompt: 'much' } })
      stored.sections.engines[`e${i}`] = entry({ use: 'exa', options: {}, price: '0' })
    }
    await records.put(`managed:doc:${head.doc}`, stored)
    const again = await restarted(gateway)
    const { data } = await again.admin('GET', '/managed')
    expect(data.entries.filter((one: any) => one.left_out !== null)).toHaveLength(200)
    expect((await again.chat(CHAT, { key: secret })).status).toBe(200)
  })
})

it('an export of the ledger carries what was set up, sealed as it is', async () => {
  const upstream = await vendor()
  const env = { SLUICEGATE_SECRET: 's'.repeat(40) }
  const gateway = await kept({ env })
  await gateway.change(provider(upstream.url), model())
  const lines: string[] = []
  for await (const line of exportLines(gateway.gateway.runtime)) lines.push(line)
  expect(lines.join('')).toContain('"kind":"managed","optional":true')
  expect(lines.join('')).not.toContain(PLANTED)
  const other = await kept({ env })
  const { directory } = other
  // The accounts of the two have the same names.
  await importLines(other.gateway.runtime, async function* () {
    for (const line of lines.filter((one) => /"kind":"(export|managed)"/.test(one))) yield line
    yield `${JSON.stringify({ kind: 'end', lines: 3 })}\n`
  })
  await other.close()
  const again = await kept({ directory, env })
  expect((await again.admin('GET', '/managed')).data).toMatchObject({ revision: 1 })
  expect((await again.chat(CHAT, { key: other.key.secret })).status).toBe(200)
})
