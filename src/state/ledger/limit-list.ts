/**
 * The list of counted limits of a key or an account as both engines store it: entries `<name>,<value>` joined by `;`. The name of a
 * spend cap is `cap.lifetime`, `cap.day` or `cap.month`, its value is in picodollars.
 */
import type { CapScope, KeyLimits } from './ledger.ts'

const CAP = /^cap\.(lifetime|day|month),(\d+)$/

export function writeCap(cap: KeyLimits['cap']): string {
  return cap ? `cap.${cap.scope},${cap.amount}` : ''
}

export function readCap(list: string): Pick<KeyLimits, 'cap'> {
  for (const entry of list.split(';')) {
    const [, scope, amount] = CAP.exec(entry) ?? []
    if (amount) return { cap: { scope: scope as CapScope, amount: BigInt(amount) } }
  }
  return {}
}
