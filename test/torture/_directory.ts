/** Many accounts with keys, written faster than the gateway would make them. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createConsola } from 'consola'
import { hashSecret } from '../../src/accounts/secrets.ts'
import type { UserConfig } from '../../src/config/config.ts'
import { closeState, openState } from '../../src/gateway/open-state.ts'
import { loaded } from '../_setup.ts'

const QUIET = createConsola({ level: 0 })
const BATCH = 40

/** The id of an account, by its number. */
export function accountId(i: number): string {
  return `account-${String(i).padStart(6, '0')}`
}

/** The id of a key, which is its secret, too. */
export function keyId(account: string, k: number): string {
  return `key-${account}-${k}`
}

/** Accounts by their numbers. */
interface Directory {
  readonly from: number
  /** The first one that is not made. */
  readonly to: number
  readonly keysOfEach: number
}

/** Records as `createAccount` and `createKey` write them, many at a time: these two wait for each other. */
export async function fillDirectory(
  config: UserConfig,
  { from, to, keysOfEach }: Directory,
): Promise<void> {
  const opened = await openState(loaded(config), QUIET)
  const { records, ledger } = opened
  const ids = Array.from({ length: to - from }, (_, i) => accountId(from + i))
  await again(() => records.add('accounts', ...ids))
  const rest = { disabled: false, createdAt: 1_750_000_000_000 }
  for (let at = 0; at < ids.length; at += BATCH) {
    const write = (account: string) => {
      const keys = Array.from({ length: keysOfEach }, (_, k) => keyId(account, k))
      const record = { ...rest, id: account, name: `The ${account}`, revision: 0 }
      return [
        records.put(`account:${account}`, record),
        records.add(`keys:${account}`, ...keys),
        ...keys.flatMap((key, k) => {
          const sha256 = hashSecret(key)
          const name = `Key ${k} of ${account}`
          const own = { ...rest, id: key, account, name, start: 'seeded', sha256, revision: 1 }
          return [
            records.put(`hash:${sha256}`, { account, key }),
            records.put(`key:${key}`, own),
            ledger.limits(account, key, { disabled: false, rpm: 60, concurrency: 9 }, 1),
          ]
        }),
      ]
    }
    await again(() => Promise.all(ids.slice(at, at + BATCH).flatMap(write)))
  }
  await closeState(opened)
}

/** A store that is kept busy may refuse a few times. */
async function again(write: () => Promise<unknown>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return void (await write())
    } catch (error) {
      if (attempt === 20 || (error as { status?: number }).status !== 503) throw error
      await sleep(500)
    }
  }
}
