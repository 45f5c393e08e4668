/** The rules of an audit log as tests that every engine passes. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { usdJson } from '../../src/money/money.ts'
import type { Audit, AuditEntry, AuditFilter, AuditRow } from '../../src/state/audit.ts'

const ENTRY: AuditEntry = {
  actor: 'admin',
  address: '127.0.0.1',
  action: 'key.update',
  object: 'key:key_1',
  changes: { name: { before: 'Laptop', after: 'Desk' }, 'spend_cap.usd': { after: '5.00' } },
}
const ACTORS = ['admin', 'billing']
const ACTIONS = ['key.update', 'account.adjust']
const OBJECTS = ['key:key_1', 'account:ada', 'account:ünï "x"']

/** Declares the tests of one engine. @param open opens an empty log */
export function auditConformance(name: string, open: () => Promise<Audit> | Audit): void {
  describe(`${name} audit log`, () => {
    it('keeps entries as they are, with a time, newest first', async () => {
      const audit = await open()
      expect(await audit.list({}, undefined, 10)).toEqual([])
      const second = { ...ENTRY, action: 'account.create', changes: {} }
      await audit.add(ENTRY)
      await audit.add(second)
      const rows = await audit.list({}, undefined, 10)
      const stored = { id: expect.any(String), at: expect.any(Number) }
      expect(rows).toEqual([
        { ...second, ...stored },
        { ...ENTRY, ...stored },
      ])
      expect(rows[0]!.id).not.toBe(rows[1]!.id)
      expect(rows.every(({ at }) => at > Date.UTC(2020, 0))).toBe(true)
    })

    it('takes amounts that only JSON can write', async () => {
      const audit = await open()
      const changes = { 'cap.week': { before: usdJson(0n), after: usdJson(1n) } }
      await audit.add({ ...ENTRY, changes } as AuditEntry)
      const [row] = await audit.list({}, undefined, 1)
      expect(row!.changes).toEqual({ 'cap.week': { before: 0, after: 1e-12 } })
    })

    it('has entries from a moment on, and before one', async () => {
      const audit = await open()
      await audit.add(ENTRY)
      const [{ at } = { at: 0 }] = await audit.list({}, undefined, 1)
      const found = async (filter: AuditFilter) => (await audit.list(filter, undefined, 1)).length
      expect(await found({ from: at })).toBe(1)
      expect(await found({ from: at + 1 })).toBe(0)
      expect(await found({ to: at + 1 })).toBe(1)
      expect(await found({ to: at })).toBe(0)
    })

    it('refuses a cursor that is no id', async () => {
      const audit = await open()
      await expect(audit.list({}, 'key_1', 1)).rejects.toThrow(RangeError)
    })

    it('finds by any filter, page by page, what a list of all entries has', async () => {
      const audit = await open()
      const all: AuditEntry[] = []
      const pick = (list: readonly string[], i: number) => list[i % list.length]!
      for (let i = 0; i < 500; i++) {
        const [actor, action] = [pick(ACTORS, i), pick(ACTIONS, i >> 1)]
        const object = pick(OBJECTS, i >> 2)
        const entry = { actor, address: '', action, object, changes: { count: { after: i } } }
        all.unshift(entry)
        await audit.add(entry)
      }
      const some = (list: readonly string[]) => fc.option(fc.constantFrom(...list, 'none'))
      const filters = fc.record({
        actor: some(ACTORS),
        action: some(ACTIONS),
        object: some(OBJECTS),
        limit: fc.integer({ min: 7, max: 300 }),
      })
      await fc.assert(
        fc.asyncProperty(filters, async ({ limit, ...wanted }) => {
          const given = Object.entries(wanted).filter(([, value]) => value !== null)
          const found: AuditRow[] = []
          for (;;) {
            const page = await audit.list(Object.fromEntries(given), found.at(-1)?.id, limit)
            expect(page.length).toBeLessThanOrEqual(limit)
            if (page.length === 0) break
            found.push(...page)
          }
          const expected = all.filter((entry) =>
            given.every(([name, value]) => entry[name as 'actor'] === value),
          )
          expect(found.map(({ changes }) => changes)).toEqual(
            expected.map(({ changes }) => changes),
          )
        }),
        { numRuns: 20 },
      )
    })
  })
}
