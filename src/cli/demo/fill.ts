/** Writes a month of calls into a gateway that serves. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Gateway } from '../../gateway/gateway.ts'
import type { Ledger, RowItem } from '../../state/ledger/ledger.ts'
import { createFile } from '../../state/sqlite/file.ts'
import { DAYS, DAY_MS, type DemoCall } from './month.ts'
import { ACCOUNTS } from './people.ts'

/** Calls that are written at once: clients are answered in between. */
const BATCH = 1000
const ONE_ROW = { filters: {}, limit: 1 }

export interface Month {
  readonly bookings: readonly RowItem[]
  readonly calls: readonly DemoCall[]
}

/** Makes the files of the days: the request log takes rows only for days with a file. @param folder of the log */
export async function makeDays(folder: string | undefined, now: number): Promise<void> {
  if (folder === undefined) return
  await mkdir(folder, { recursive: true, mode: 0o700 })
  for (let day = 0; day <= DAYS; day++) {
    createFile(join(folder, `${new Date(now - day * DAY_MS).toISOString().slice(0, 10)}.db`))
  }
}

/** Writes the month into ledger and logs, oldest first. @param ended ends it early. @throws Error if one is refused */
export async function fillMonth(
  { runtime: { ledger, requests, usage } }: Gateway,
  { bookings, calls }: Month,
  ended: AbortSignal,
): Promise<void> {
  let booked = 0
  for (let at = 0; at < calls.length && !ended.aborted; at += BATCH) {
    const batch = calls.slice(at, at + BATCH)
    const until = batch.at(-1)!.item.at
    const due = bookings.slice(booked).filter((one) => one.at <= until)
    booked += due.length
    await importRows(ledger, [...due, ...batch.map(({ item }) => item)])
    for (const { record } of batch) requests?.add(record)
    for (const { id } of ACCOUNTS) usage?.settled(id)
    // Answers come after everything before them is stored: no queue grows.
    await Promise.all([requests?.list(ONE_ROW), usage?.ask('lastUsed', [])])
  }
}

/** @throws Error when a row is refused */
export async function importRows(ledger: Ledger, rows: readonly RowItem[]): Promise<void> {
  const { refused } = await ledger.import(rows)
  if (refused !== undefined) throw new Error(refused)
}
