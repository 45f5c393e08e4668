/** The files of folded rows. */
import { readdirSync, statSync, truncateSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { zstdDecompressSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { parsePico } from '../../../src/money/money.ts'
import { Archive } from '../../../src/state/ledger/archive.ts'
import { foldInto } from '../../../src/state/ledger/maintenance.ts'
import { folder } from '../../_folder.ts'
import { collect, NOON, openPaid, settlement, USAGE } from '../sqlite/_engine.ts'

const DAY_MS = 86_400_000

async function openArchive(options: { keepDays?: number; sizeBytes?: number } = {}) {
  const path = join(await folder({}), 'archive')
  const logged: string[] = []
  const log = { info: (line: string) => void logged.push(line) } as never
  const settings = {
    folder: path,
    keepDays: 400,
    sizeBytes: 2 ** 30,
    release: '1',
    log,
    ...options,
  }
  return { path, logged, open: () => new Archive(settings) }
}

async function linesOf(file: string): Promise<Record<string, string>[]> {
  const bytes = await readFile(file)
  let text = ''
  // A skippable frame of 12 bytes tells the length of the frame after it.
  for (let at = 0; at < bytes.length;) {
    const end = at + 12 + bytes.readUInt32LE(at + 8)
    text += zstdDecompressSync(bytes.subarray(at + 12, end)).toString()
    at = end
  }
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

it('has all that was folded: its sum is that of the totals, also after a kill in between', async () => {
  const { path, open } = await openArchive()
  let now = NOON
  const { ledger } = await openPaid(undefined, () => now)
  const settle = async (from: number) => {
    const day = new Date(now).toJSON().slice(0, 10).replaceAll('-', '')
    const calls = Array.from({ length: 700 }, (_, i) =>
      settlement(`req_${from + i}`, BigInt(i), day),
    )
    await Promise.all(calls.map((call) => ledger.settle({ ...call, usage: { ...USAGE, at: now } })))
  }
  await settle(0)
  now += 20 * DAY_MS
  await settle(1000)
  now += 5 * DAY_MS
  // Killed after the rows were written, before they were folded.
  const killed = open()
  const died = ledger.fold(new Date(now), async (month, lines) => {
    await killed.append(month, lines, 'ledger_a')
    throw new Error('killed')
  })
  await expect(died).rejects.toThrow('killed')
  truncateSync(join(path, '2026-05.jsonl.zst'), statSync(join(path, '2026-05.jsonl.zst')).size - 9)
  expect(await foldInto(open(), ledger, new Date(now))).toBe(1400)
  expect(readdirSync(path)).toEqual(['2026-05.jsonl.zst', '2026-06.jsonl.zst'])
  const may = await linesOf(join(path, '2026-05.jsonl.zst'))
  const june = await linesOf(join(path, '2026-06.jsonl.zst'))
  expect(may[0]).toMatchObject({ kind: 'export', version: 2, ledger: expect.any(String) })
  const costs = new Map<string, bigint>()
  for (const { kind, request, cost } of [...may, ...june]) {
    if (kind === 'usage') costs.set(request!, parsePico(cost!))
  }
  const totals = (await collect(ledger.export())).flatMap((item) =>
    item.kind === 'total' ? [item.cost] : [],
  )
  const sum = (amounts: Iterable<bigint>) => [...amounts].reduce((all, one) => all + one, 0n)
  expect(costs.size).toBe(1400)
  expect(sum(costs.values())).toBe(sum(totals))
  expect(await ledger.verify()).toEqual([])
  const bytes = statSync(join(path, '2026-05.jsonl.zst')).size
  expect(bytes / 700).toBeLessThan(70)
  expect(statSync(join(path, '2026-05.jsonl.zst')).mode & 0o077).toBe(0)
})

it('removes files that are too old, and the oldest beyond its size, and says so', async () => {
  const { path, logged, open } = await openArchive({ sizeBytes: 100 })
  const archive = open()
  for (const month of ['2025-01', '2026-03', '2026-04', '2026-05']) {
    await archive.append(month, [], 'ledger_a')
  }
  await writeFile(join(path, 'notes.txt'), 'mine')
  await archive.prune(Date.UTC(2026, 4, 30))
  expect(readdirSync(path)).toEqual(['2026-05.jsonl.zst', 'notes.txt'])
  expect(logged).toEqual([
    'removed 2025-01.jsonl.zst from the archive of folded rows: it is older than 400 days',
    'removed 2026-03.jsonl.zst from the archive of folded rows: it did not fit into 100 bytes',
    'removed 2026-04.jsonl.zst from the archive of folded rows: it did not fit into 100 bytes',
  ])
})
